"""The shards of a workload: how far each has come, and what that means for a new table, or for another name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from tests.testbed.shard_ddl import ShardDdl, ShardShape


@dataclass
class Shard:
    """A table of a source."""

    source: int
    name: str
    order: list[ShardDdl]
    shape: ShardShape
    passed: int = 0
    ids: list[int] = field(default_factory=list)  # of a table without a key, some of them twice
    left: bool = False
    odd: bool = False  # its last statement was not the others'

    @property
    def reached(self) -> Sequence[ShardDdl]:
        """What it has come to."""
        return self.order[: self.passed]


@dataclass
class Remains:
    """Rows that a shard had when it was truncated or dropped: they stay at the target."""

    server: ThrowawayServer
    table: TableName
    missing: list[ShardDdl]  # of what the others come to


def may_be_taken_for_another(structures: Sequence[str], passed: int, *, by_columns: bool) -> bool:
    """Whether nobody can tell how many DDLs a new table is beyond, of these structures before and after each.

    By columns: it joins where the others have the same ones, whatever indexes it has. Then a DDL that made indexes only
    is told by what it has of them, and one that it comes to by what those that it may be with have.
    """
    if structures.count(structures[passed]) > 1:
        return True
    if not by_columns:
        return False
    stages = [_columns_and_indexes(text) for text in structures]
    columns, indexes = stages[passed]
    joins = [number for number in range(passed) if stages[number][0] == columns]
    if not joins:
        return False
    steps = list(pairwise(stages))
    return not all(
        before[0] == after[0] and _has_changes(before[1], after[1], indexes)
        for before, after in steps[min(joins) : passed]
    ) or any(
        before[0] == after[0] and _has_changes(before[1], after[1], others)
        for before, after in steps[passed:]
        for _, others in stages[min(joins) : passed]
    )


def _columns_and_indexes(text: str) -> tuple[list[str], dict[str, str]]:
    """What SHOW CREATE TABLE says: indexes that are no keys by their names, and all else."""
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    indexes = {line.split("`")[1]: line for line in lines if line.startswith("KEY ")}
    return sorted(line for line in lines if not line.startswith("KEY ")), indexes


def _has_changes(before: dict[str, str], after: dict[str, str], indexes: dict[str, str]) -> bool:
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    return all(indexes.get(name) == after.get(name) for name in changed)


@dataclass(frozen=True)
class Joining:
    """How shards belong together; by state: a shard joins by its structure, not by how many DDLs it is beyond."""

    by_state: bool

    def before(self, one: Shard, other: Shard) -> bool:
        """Whether one shard is before a numbered DDL that another one is beyond."""
        if not self.by_state:
            return one.passed < other.passed
        return any(ddl.gated and ddl not in one.reached for ddl in other.reached)

    def may_be_made_beside(self, like: Shard, others: Iterable[Shard]) -> bool:
        """Whether a table that is made like a shard of another source finds the target as it needs it, or waits.

        A shard of its own source is as it is, or, where numbers say how far one is, not beyond it: so no DDL of which
        the new table knows nothing is executed before its source comes to it.
        """
        if self.by_state:
            return any(set(other.reached) == set(like.reached) for other in others)
        return any(not self.before(like, other) for other in others)

    def waits(self, shard: Shard, others: Iterable[Shard]) -> bool:
        """Whether a shard may wait for a statement that another one has not come to yet."""
        return any(self.before(other, shard) for other in others)
