"""Ending the sessions of an older run before this one reads anything.

Every session that may write for a subtask holds a named lock of its lane (GET_LOCK). The server releases it when the
session ends, and not before its transaction is rolled back or committed. A starting run finds the holder of each lock
and ends it. It kills an idle or applying session. It waits for a session inside a DDL statement: a long ALTER completes
even without a client, and aborting it would waste hours. Once this run holds all locks, nothing of the older run can
change the target. Raising the epoch (`lane_rows.py`) then never waits. It also stops a transaction whose session has
lost its lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from dm.clock import Clock
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.lane_rows import DDL
from dm.progress.tables import SubtaskKey

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
