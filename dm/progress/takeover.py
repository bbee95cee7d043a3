"""The start of a run: end the older run, take its lanes, read what it left, fix the bound (I1, I3 of `protocol.py`).

The sessions of an older run are ended before this run reads anything. Every session that may write for a subtask holds
a named lock of its lane (GET_LOCK). The server releases it when the session ends, and not before its transaction is
rolled back or committed. A starting run finds the holder of each lock and ends it. It kills an idle or applying
session. It waits for a session inside a DDL statement: a long ALTER completes even without a client, and aborting it
would waste hours. Once this run holds all locks, nothing of the older run can change the target. Raising the epoch
(`lane_rows.py`) then never waits. It also stops a transaction whose session has lost its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dm import faults
from dm.clock import Clock
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, CheckpointWriter, read_checkpoint
from dm.progress.intent import Intent, read_intent
from dm.progress.lane_rows import ATOMIC, CONTROL, DDL, KEYLESS, LaneClaim, LaneRow, raise_epoch, read_lanes
from dm.progress.tables import SubtaskKey


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a run starts with."""

    claims: Mapping[str, LaneClaim]
    checkpoint: Checkpoint | None  # None: there never was one
    intent: Intent | None
    rows: Sequence[LaneRow]

    def bound(self) -> Position | None:
        """B: the stored bound joined with everything that any worker committed; None if L covers it."""
        if self.checkpoint is None:
            return None
        # The ordered lane's row is exact.
        return self._joined(self.checkpoint, self.checkpoint.bound, [row for row in self.rows if row.lane != KEYLESS])

    def reached(self, before: Position | None) -> Position | None:
        """How far runs have got: `before` joined with what any lane committed; None if L covers it."""
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
        """Up to where changes of keyless tables are done, exactly; None if that is not beyond L."""
        return self._exact(KEYLESS, ATOMIC)

    def atomic_done(self) -> Position | None:
        """Up to where everything is done, by a run that kept transactions whole; None if that is not beyond L."""
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


POLL_SECONDS = 0.05

# What the holder of a lock is doing, for the status of the waiting run.
Waiting = Callable[[str], None]


def lock_holders(connection: TargetConnection, key: SubtaskKey, lane: str) -> frozenset[int]:
    """The target's numbers of the sessions that hold a lane's lock."""
    return session_lock.holders(connection, [key.lock_name(lane)])


@dataclass(frozen=True, slots=True)
class Fence:
    """Takes the lane locks of one subtask."""

    key: SubtaskKey
    clock: Clock
    stop: threading.Event
    waiting: Waiting

    def take(self, connection: TargetConnection, lane: str) -> None:
        """Make `connection` the holder of the lane's lock, ending its present holder; raises DMError `stopped`."""
        name = self.key.lock_name(lane)
        killed = 0
        if what := session_lock.asked(connection):
            self.waiting(what)
        while not session_lock.take(connection, name):
            for holder in lock_holders(connection, self.key, lane):
                killed = self._end(connection, lane, holder, killed)
            if self.clock.wait(self.stop, POLL_SECONDS):
                raise DMError("stopped-while-waiting", what=f"the session of lane {lane} of an earlier run")

    def _end(self, connection: TargetConnection, lane: str, holder: int, killed: int) -> int:
        """Kill the holder once, unless it is inside a DDL statement; returns the number of the killed session."""
        if lane == DDL and session_lock.runs_statement(connection, holder):
            self.waiting(f"waiting for the DDL statement of an earlier run (target connection {holder}) to end")
            return killed
        if killed != holder:
            self.waiting(f"ending target connection {holder} of an earlier run (lane {lane})")
            connection.kill(holder)
        return holder
