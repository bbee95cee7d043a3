"""The tasks that apply net effects: one bucket of keys each, in transactions that each record their part.

See `dm.progress.replayed` for what makes a part count once, and `dm.replay.reduction` for why removals come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dm.changes.row_change import ChangeKind, RowChange
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.lane_rows import LaneClaim
from dm.progress.replayed import REMOVALS, Part, Piece, done_parts, lane_of
from dm.progress.tables import SubtaskKey
from dm.replay.parts import Sized, commit_part, cut, demand_same_cuts, size_of
from dm.replay.reduction import Changer, Net, Reduction
from dm.replay.spill import spilled
from dm.replay.surroundings import Surroundings
from dm.replay.tables import ReplayedTable, ReplayTables

_METADATA_LOCK_SECONDS: Final = 3


@dataclass(frozen=True, slots=True)
class Applied:
    """What a bucket came to in one of the two jobs."""

    bucket: int
    changes: int  # that this task has applied
    as_events: int


@dataclass(frozen=True)
class BucketApplier:
    """Applies buckets, each part once."""

    around: Surroundings
    key: SubtaskKey
    epoch: int
    lanes: int
    pieces: tuple[Piece, ...]
    phase: int

    def __call__(self, bucket: int) -> Applied:
        """Apply what is left of a bucket; raises DMError."""
        connection = TargetConnection(self.around.subtask.target, several=True)
        try:
            # As a lane does: rows yield to a DDL of somebody else.
            connection.execute(f"SET SESSION lock_wait_timeout = {_METADATA_LOCK_SECONDS}")
            with self.around.tables(self.around.take_events(connection)) as tables:
                changes = self.changes(bucket, tables)
            return self._apply(connection, bucket, changes)
        finally:
            connection.close()

    def changes(self, bucket: int, tables: ReplayTables) -> list[Sized]:
        """Those of this job, in an order that is the same each time."""
        found: list[Sized] = []
        for first in (True,) if self.phase == REMOVALS else (True, False):
            for table, nets in self._joined(bucket, tables, first=first):
                changer = Changer(table.plan, again=self.around.again, updates=table.updates)
                if self.phase == REMOVALS or not first:
                    found += _made(changer.removal, nets, table)
                if self.phase != REMOVALS:
                    found += _made(changer.write, nets, table)
        return sorted(found, key=_kind)  # as few kinds as possible beside each other

    def _joined(
        self, bucket: int, tables: ReplayTables, *, first: bool
    ) -> Iterator[tuple[ReplayedTable, Sequence[Net]]]:
        reductions: dict[TableName, tuple[ReplayedTable, Reduction]] = {}
        for piece in self.pieces:
            for part in spilled(self.around.spill(piece), (bucket, first)):
                if part.source not in reductions:
                    table = tables.learn(part.table_map)
                    if table is None or table.removals_first != first:
                        raise DMError("replay-target-changed", table=part.source)
                    reductions[part.source] = table, Reduction(table.plan)
                reductions[part.source][1].join(part.nets)
        for table, reduction in reductions.values():
            # In the order of their keys rows meet the same pages of the target.
            yield table, sorted(reduction.nets(), key=lambda net: _sortable(net.key))

    def _apply(self, connection: TargetConnection, bucket: int, changes: Sequence[Sized]) -> Applied:
        applied = events = 0
        claim: LaneClaim | None = None
        parts = [*cut(changes)]
        done = done_parts(connection, self.key, self.phase, bucket) if parts else dict[int, int]()
        demand_same_cuts(parts, done, bucket)
        for number, part in enumerate(parts):
            if number in done:
                continue
            claim = claim or self._claim(connection)
            events += commit_part(connection, claim, Part(self.phase, bucket, number), part)
            applied += len(part)
        return Applied(bucket, applied, events)

    def _claim(self, connection: TargetConnection) -> LaneClaim:
        """The first lane that no other session of this run has."""
        for number in range(self.lanes):
            lane = lane_of(number)
            if session_lock.take(connection, self.key.lock_name(lane)):
                rows = connection.query(
                    f"SELECT batch FROM {self.key.worker.sql} WHERE id = %s AND lane = %s", (self.key.source_id, lane)
                )
                return LaneClaim(self.key, lane, self.epoch, int(rows[0][0]) if rows else 0)
        raise DMError("load-busy", cause=f"{self.lanes} sessions write at the same time")


_ORDER: Final = {ChangeKind.DELETE: 0, ChangeKind.UPDATE: 1, ChangeKind.INSERT: 2}


def _kind(sized: Sized) -> int:
    return _ORDER[sized.change.kind]


def _sortable(key: object) -> tuple[tuple[str, object], ...]:
    """Values of one column may be texts of two kinds."""
    values = key if isinstance(key, tuple) else (key,)
    return tuple((type(value).__name__, value) for value in values)


def _made(make: Callable[[Net], RowChange | None], nets: Iterable[Net], table: ReplayedTable) -> Iterator[Sized]:
    reads = table.plan.events is None
    for net in nets:
        change = make(_read(net, table) if reads else net)
        if change is not None:
            yield Sized(change, size_of(net, change.kind))  # of the net effect as it is in the file


def _read(net: Net, table: ReplayedTable) -> Net:
    """The row with all its values: it goes as SQL."""
    before = net.before if net.raw_before is None else table.read(net.raw_before)
    after = net.after if net.raw_after is None else table.read(net.raw_after)
    return Net(net.key, net.existed, before, None, after, None)
