"""The tasks that apply net effects: one bucket of keys each, in transactions that each record their part.

See `dm.progress.replayed` for what makes a part count once, and `dm.replay.reduction` for why removals come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dm import faults
from dm.changes.row_change import ChangeKind, RowChange
from dm.downstream import session_lock
from dm.downstream.apply import apply_batch
from dm.downstream.attempts import Attempts
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.lane_rows import LaneClaim
from dm.progress.replayed import REMOVALS, Part, Piece, done_parts, lane_of, record_part
from dm.progress.tables import SubtaskKey
from dm.replay.reduction import Changer, Net, Reduction
from dm.replay.spill import spilled
from dm.replay.surroundings import Surroundings
from dm.replay.tables import ReplayedTable, ReplayTables

_CHANGES: Final = 5000  # of one transaction
_BYTES: Final = 8 << 20
_ROW: Final = 200  # bytes of an image whose size is not known
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
                changes = self._changes(bucket, tables)
            return self._apply(connection, bucket, changes)
        finally:
            connection.close()

    def _changes(self, bucket: int, tables: ReplayTables) -> list[RowChange]:
        """Those of this job, in an order that is the same each time."""
        found: list[RowChange] = []
        for first in (True,) if self.phase == REMOVALS else (True, False):
            for table, nets in self._joined(bucket, tables, first=first):
                changer = Changer(table.plan, again=self.around.again, updates=table.updates)
                if self.phase == REMOVALS or not first:
                    found += [change for net in nets if (change := changer.removal(net)) is not None]
                if self.phase != REMOVALS:
                    found += [change for net in nets if (change := changer.write(net)) is not None]
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
            nets = sorted(reduction.nets(), key=lambda net: _sortable(net.key))
            yield table, nets if table.plan.events is not None else [_read(net, table) for net in nets]

    def _apply(self, connection: TargetConnection, bucket: int, changes: Sequence[RowChange]) -> Applied:
        applied = events = 0
        claim: LaneClaim | None = None
        done = done_parts(connection, self.key, self.phase, bucket) if changes else frozenset[int]()
        for number, batch in enumerate(_batches(changes)):
            if number in done:
                continue
            claim = claim or self._claim(connection)
            events += self._commit(connection, claim, Part(self.phase, bucket, number), batch)
            applied += len(batch)
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

    def _commit(self, connection: TargetConnection, claim: LaneClaim, part: Part, changes: Sequence[RowChange]) -> int:
        def last() -> None:
            record_part(connection, self.key, part, len(changes))
            faults.hit("replay.inside_part")

        attempts = Attempts()
        while True:
            try:
                applied = apply_batch(connection, changes, first=_LaneRow(claim, connection), last=last)
                break
            except DMError as error:
                if not attempts.again(error):
                    raise
        faults.hit("replay.part_committed")
        return applied.as_events


@dataclass(frozen=True, slots=True)
class _LaneRow:
    """How each transaction begins: with the lane's own row."""

    claim: LaneClaim
    connection: TargetConnection

    def statement(self) -> bytes:
        """The row's UPDATE."""
        return self.claim.advancing(self.connection, None)

    def opened(self, affected: int) -> None:
        """Check that the row was ours; raises DMError `fenced`."""
        self.claim.advanced(affected)


_ORDER: Final = {ChangeKind.DELETE: 0, ChangeKind.UPDATE: 1, ChangeKind.INSERT: 2}


def _kind(change: RowChange) -> int:
    return _ORDER[change.kind]


def _batches(changes: Sequence[RowChange]) -> Iterator[Sequence[RowChange]]:
    begin = size = 0
    for at, change in enumerate(changes):
        own = sum(len(raw) if raw is not None else _ROW for raw in (change.raw_before, change.raw_after))
        if at > begin and (at - begin == _CHANGES or size + own > _BYTES):
            yield changes[begin:at]
            begin, size = at, 0
        size += own
    if begin < len(changes):
        yield changes[begin:]


def _sortable(key: object) -> tuple[tuple[str, object], ...]:
    """Values of one column may be texts of two kinds."""
    values = key if isinstance(key, tuple) else (key,)
    return tuple((type(value).__name__, value) for value in values)


def _read(net: Net, table: ReplayedTable) -> Net:
    """The row with all its values: it goes as SQL."""
    before = net.before if net.raw_before is None else table.read(net.raw_before)
    after = net.after if net.raw_after is None else table.read(net.raw_after)
    return Net(net.key, net.existed, before, None, after, None)
