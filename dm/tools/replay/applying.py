"""Applies net effects: a task per bucket of keys, in transactions that each record their part.

See `dm.progress.replayed` for what makes a part count once, and `dm.tools.replay.reduction` for why removals come
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dm import faults
from dm.changes.row_change import ChangeKind, RowChange
from dm.downstream import session_lock
from dm.downstream.apply import Attempts, apply_batch
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.handle import PaceHandle
from dm.progress.lane_rows import LaneClaim
from dm.progress.replayed import REMOVALS, RelayRange, ReplayPart, done_parts, lane_of, record_part
from dm.progress.tables import SubtaskKey
from dm.session.answers import reads_answers
from dm.tools.replay.reduction import Changer, Net, Reduction, ReplayContext, spilled
from dm.tools.replay.tables import ReplayedTable, ReplayTables

_METADATA_LOCK_SECONDS: Final = 3


@dataclass(frozen=True, slots=True)
class BucketResult:
    """What a bucket came to in one of the two jobs."""

    bucket: int
    changes: int  # that this task has applied
    as_events: int


@dataclass(frozen=True)
class BucketApplier:
    """Applies buckets, each part once."""

    around: ReplayContext
    key: SubtaskKey
    epoch: int
    lanes: int
    pieces: tuple[RelayRange, ...]
    phase: int
    pace: PaceHandle | None = None

    def __call__(self, bucket: int) -> BucketResult:
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

    def changes(self, bucket: int, tables: ReplayTables) -> list[SizedChange]:
        """Those of this job, in an order that is the same each time."""
        found: list[SizedChange] = []
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

    def _apply(self, connection: TargetConnection, bucket: int, changes: Sequence[SizedChange]) -> BucketResult:
        applied = events = 0
        claim: LaneClaim | None = None
        parts = [*cut(changes)]
        row_bytes = sum(each.size for each in changes) // max(1, len(changes))
        done = done_parts(connection, self.key, self.phase, bucket) if parts else dict[int, int]()
        demand_same_cuts(parts, done, bucket)
        for number, part in enumerate(parts):
            if number in done:
                continue
            claim = claim or self._claim(connection)
            if self.pace is not None:
                self.pace.ask(len(part), len(part) * row_bytes)
            events += commit_part(connection, claim, ReplayPart(self.phase, bucket, number), part)
            applied += len(part)
        return BucketResult(bucket, applied, events)

    @reads_answers
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


def _kind(sized: SizedChange) -> int:
    return _ORDER[sized.change.kind]


def _sortable(key: object) -> tuple[tuple[str, object], ...]:
    """Values of one column may be texts of two kinds."""
    values = key if isinstance(key, tuple) else (key,)
    return tuple((type(value).__name__, value) for value in values)


def _made(make: Callable[[Net], RowChange | None], nets: Iterable[Net], table: ReplayedTable) -> Iterator[SizedChange]:
    reads = table.plan.events is None
    for net in nets:
        change = make(_read(net, table) if reads else net)
        if change is not None:
            yield SizedChange(change, size_of(net, change.kind))  # of the net effect as it is in the file


def _read(net: Net, table: ReplayedTable) -> Net:
    """The row with all its values: it goes as SQL."""
    before = net.before if net.raw_before is None else table.read(net.raw_before)
    after = net.after if net.raw_after is None else table.read(net.raw_after)
    return Net(net.key, net.existed, before, None, after, None)


_CHANGES: Final = 5000  # of one transaction
_BYTES: Final = 8 << 20
_IMAGE: Final = 200  # bytes of an image whose size is not known


class SizedChange(NamedTuple):
    """A change, and how much the net effect that it comes from is in its file."""

    change: RowChange
    size: int


def size_of(net: Net, kind: ChangeKind) -> int:
    """The bytes of the images that a change of this kind is made of."""
    before = None if kind is ChangeKind.INSERT else net.raw_before
    after = None if kind is ChangeKind.DELETE else net.raw_after
    return sum(_IMAGE if raw is None else len(raw) for raw in (before, after))


def cut(changes: Sequence[SizedChange]) -> Iterator[list[RowChange]]:
    """The changes of each part.

    A replay that continues recognizes finished parts by their numbers. So the cuts depend only on the net effects in
    the files, not on the form in which rows reach the target: that may have changed (`row-format`, a privilege, a
    CHECK). If a file was written again in between, its images may have the other form; then the numbers of changes
    tell.
    """
    part: list[RowChange] = []
    size = 0
    for change, own in changes:
        if part and (len(part) == _CHANGES or size + own > _BYTES):
            yield part
            part, size = [], 0
        part.append(change)
        size += own
    if part:
        yield part


def demand_same_cuts(parts: Sequence[Sequence[RowChange]], done: Mapping[int, int], bucket: int) -> None:
    """Raise DMError where a part that is done had another number of changes."""
    for number, changes in sorted(done.items()):
        now = len(parts[number]) if number < len(parts) else 0
        if now != changes:
            raise DMError("replay-parts-unlike", part=number, bucket=bucket, done=changes, now=now)


def commit_part(connection: TargetConnection, claim: LaneClaim, part: ReplayPart, changes: Sequence[RowChange]) -> int:
    """Apply a part in one transaction; gives how many changes went as events. Raises DMError."""

    def last() -> None:
        record_part(connection, claim.key, part, len(changes))
        faults.hit("replay.inside_part")

    attempts = Attempts()
    while True:
        try:
            applied = apply_batch(connection, changes, first=_ReplayLaneRow(claim, connection), last=last)
            break
        except DMError as error:
            if attempts.again(error):
                continue
            # The session of a lost executor may have committed it while this one waited for its rows.
            if error.name != "fenced" and _is_done(connection, claim, part, len(changes)):
                return 0
            raise
    faults.hit("replay.part_committed")
    return applied.as_events


def _is_done(connection: TargetConnection, claim: LaneClaim, part: ReplayPart, changes: int) -> bool:
    try:
        return done_parts(connection, claim.key, part.phase, part.bucket).get(part.number) == changes
    except DMError:
        return False  # the session is gone, too: what it met first says why


@dataclass(frozen=True, slots=True)
class _ReplayLaneRow:
    """How each transaction begins: with the lane's own row."""

    claim: LaneClaim
    connection: TargetConnection

    def statement(self) -> bytes:
        """The row's UPDATE."""
        return self.claim.advancing(self.connection, None)

    def opened(self, affected: int) -> None:
        """Check that the row was ours; raises DMError `fenced`."""
        self.claim.advanced(affected)
