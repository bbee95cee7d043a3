"""The start of a run: end the older one, take its lanes, read what it left, fix the bound.

See I1 and I3 of `protocol.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dm import faults
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, CheckpointWriter, read_checkpoint
from dm.progress.fence import Fence
from dm.progress.intent import Intent, read_intent
from dm.progress.lane_rows import ATOMIC, CONTROL, DDL, KEYLESS, LaneClaim, LaneRow, raise_epoch, read_lanes


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a run starts with."""

    claims: Mapping[str, LaneClaim]
    checkpoint: Checkpoint | None  # None: there never was one
    intent: Intent | None
    rows: Sequence[LaneRow]

    def bound(self) -> Position | None:
        """B: the stored bound joined with everything any worker committed; None when L covers it."""
        if self.checkpoint is None:
            return None
        # The ordered lane's row is exact.
        return self._joined(self.checkpoint, self.checkpoint.bound, [row for row in self.rows if row.lane != KEYLESS])

    def reached(self, before: Position | None) -> Position | None:
        """How far runs have got: `before` joined with what any lane committed; None when L covers it."""
        return None if self.checkpoint is None else self._joined(self.checkpoint, before, self.rows)

    @staticmethod
    def _joined(checkpoint: Checkpoint, bound: Position | None, rows: Sequence[LaneRow]) -> Position | None:
        start = checkpoint.position
        for row in rows:
            if row.position is None:
                continue
            if row.position.server_uuid != start.server_uuid and (
                not start.gtid_set or start.gtid_set >= row.position.gtid_set
            ):
                continue  # left by a server before a switch that L is past
            bound = row.position if bound is None else bound.join(row.position)
        if bound is None or start.covers(bound):
            return None
        return replace(bound, gtid_set=bound.gtid_set | start.gtid_set)

    def keyless_done(self) -> Position | None:
        """Up to where changes of keyless tables are done, exactly; None when that is not beyond L."""
        return self._exact(KEYLESS, ATOMIC)

    def atomic_done(self) -> Position | None:
        """Up to where everything is done, by a run that kept transactions whole; None when that is not beyond L."""
        return self._exact(ATOMIC)

    def _exact(self, *lanes: str) -> Position | None:
        found: Position | None = None
        for row in self.rows:
            done = self._beyond(row) if row.lane in lanes else None
            if done is not None:
                found = done if found is None else found.join(done)
        return found

    def _beyond(self, row: LaneRow) -> Position | None:
        if self.checkpoint is None or row.position is None:
            return None
        start = self.checkpoint.position
        done = replace(row.position, gtid_set=row.position.gtid_set | start.gtid_set)
        return None if start.covers(done) else done

    def with_exact_lanes(self, here: Callable[[Position], Position]) -> Takeover:
        """The same with another form of the exact positions."""
        rows = []
        for row in self.rows:
            done = self._beyond(row) if row.lane in (KEYLESS, ATOMIC) else None
            rows.append(row if done is None else replace(row, position=here(done)))
        return replace(self, rows=rows)


def take_over(connections: Mapping[str, TargetConnection], fence: Fence) -> Takeover:
    """Make the given session the holder of each lane, raise the epoch, read what is stored; raises DMError."""
    # The older run's workers first: its DDL may wait for a lock that one of them holds.
    for lane in sorted(connections, key=lambda lane: lane == DDL):
        fence.take(connections[lane], lane)
    control = connections[CONTROL]
    for row in read_lanes(control, fence.key):
        if row.lane not in connections:
            fence.take(control, row.lane)  # an older run with more workers
    epoch, rows = raise_epoch(control, fence.key, list(connections))
    batches = {row.lane: row.batch for row in rows}
    claims = {lane: LaneClaim(fence.key, lane, epoch, batches.get(lane, 0)) for lane in connections}
    return Takeover(claims, read_checkpoint(control, fence.key), read_intent(control, fence.key), rows)


def store_bound(writer: CheckpointWriter, checkpoint: Checkpoint, bound: Position | None) -> None:
    """Store B before the first dispatch of the run; raises DMError."""
    if bound != checkpoint.bound:
        writer.write(checkpoint.position, bound, birth=checkpoint.birth)
    faults.hit("syncer.bound_persisted")
