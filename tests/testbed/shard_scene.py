"""The shards of a workload: how far each has come, and what that means for a new table, or for another name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
    def behind(self) -> Sequence[ShardDdl]:
        """What it has come to."""
        return self.order[: self.passed]


@dataclass
class Remains:
    """Rows that a shard had when it was truncated or dropped: they stay at the target."""

    server: ThrowawayServer
    table: TableName
    missing: list[ShardDdl]  # of what the others come to


@dataclass(frozen=True)
class Joining:
    """How shards belong together; by state: a shard joins by its structure, not by how many DDLs it is beyond."""

    by_state: bool

    def before(self, one: Shard, other: Shard) -> bool:
        """Whether one shard is before a numbered DDL that another one is beyond."""
        if not self.by_state:
            return one.passed < other.passed
        return any(ddl.gated and ddl not in one.behind for ddl in other.behind)

    def may_be_made_beside(self, like: Shard, others: Iterable[Shard]) -> bool:
        """Whether a table that is made like a shard of another source finds the target as it needs it, or waits.

        A shard of its own source is as it is, or, where numbers say how far one is, not beyond it: so no DDL of which
        the new table knows nothing is executed before its source comes to it.
        """
        if self.by_state:
            return any(set(other.behind) == set(like.behind) for other in others)
        return any(not self.before(like, other) for other in others)

    def waits(self, shard: Shard, others: Iterable[Shard]) -> bool:
        """Whether a shard may wait for a statement that another one has not come to yet."""
        return any(self.before(other, shard) for other in others)
