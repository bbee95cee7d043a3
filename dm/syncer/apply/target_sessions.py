"""The sessions of one run at the target: one for each lane, and those that read structures and weights.

A login costs the server and us some milliseconds, most of it for TLS, and a run has some twenty sessions. So several
are opened at a time, after the first. If the address or the password is wrong, only one session fails, and repeated
failures don't lock the account.

A unit that has to end by force cuts all sessions off. One that is just being opened is cut off once it exists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from dm.changes.computing import SourceSettings
from dm.config.endpoint import Endpoint
from dm.downstream.connection import READ_TIMEOUT, TargetConnection
from dm.downstream.row_event_session import Variables, take_row_events
from dm.downstream.source_computing import with_settings
from dm.progress.lane_rows import CONTROL, DDL
from dm.syncer.apply.lanes import Stopped

METADATA_LOCK_SECONDS = 3
FILTERS = "filters"
"""The session that evaluates expression filters, which has no lane's row."""
_OPENED_TOGETHER = 4


class TargetSessions:
    """Opens the run's sessions and keeps track of them; another thread may call `cut_off`."""

    def __init__(self, target: Endpoint, *, row_events: bool = False) -> None:
        self.foreign_key_checks = False
        """Whether the sessions check foreign keys; decided before the first one."""
        self.no_row_events = "" if row_events else "row-format is sql"
        """Why an open session of a lane does not take row events; empty if all do."""
        self._target = target
        self._variables = Variables()
        self._lock = threading.Lock()
        self._opened: list[TargetConnection] = []
        self._spare: TargetConnection | None = None  # opened with the lanes', for the first structure
        self._were_cut = False

    def open(self, lane: str = CONTROL, *, several: bool = False) -> TargetConnection:
        """A session as the lane needs it; raises DMError, or Stopped if all were cut off.

        Sessions of lanes for rows take several statements in one packet; others with `several`.
        """
        if lane == CONTROL:
            with self._lock:
                spare, self._spare = self._spare, None
            if spare is not None and spare.alive and not self._were_cut:
                return spare
        silence = None if lane == DDL else READ_TIMEOUT  # an ALTER of a large table is silent for hours
        rows = lane not in (CONTROL, DDL)
        connection = TargetConnection(
            self._target, foreign_key_checks=self.foreign_key_checks, read_timeout=silence, several=rows or several
        )
        with self._lock:
            self._opened.append(connection)
            cut = self._were_cut
        if cut:
            connection.close()
            raise Stopped
        if rows:
            # Rows yield to DDL. An ALTER of another subtask may hold the metadata lock that our transaction waits for,
            # and wait for a row lock of ours (MariaDB locks the tables of a foreign key on both sides). No server
            # detects that deadlock, so our transaction is rolled back after a moment and retried.
            connection.execute(f"SET SESSION lock_wait_timeout = {METADATA_LOCK_SECONDS}")
            if lane != FILTERS and not self.no_row_events:
                self.no_row_events = take_row_events(connection, self._variables) or self.no_row_events
        return connection

    def open_all(self, lanes: Sequence[str], meanwhile: Callable[[], None]) -> Mapping[str, TargetConnection]:
        """Open a session for each lane while this thread calls `meanwhile`; raises the first failure."""
        with ThreadPoolExecutor(_OPENED_TOGETHER, thread_name_prefix="login") as pool:
            opening = [pool.submit(self.open, lane) for lane in lanes]
            one_more = pool.submit(self.open)
            meanwhile()
        self._spare = one_more.result()
        return {lane: opened.result() for lane, opened in zip(lanes, opening, strict=True)}

    def compute_as(self, source: SourceSettings) -> None:
        """Before the first session: compute expressions with the source server's settings."""
        self._target = with_settings(self._target, source)

    @property
    def numbers(self) -> frozenset[int]:
        """The server's connection ids of the sessions."""
        with self._lock:
            return frozenset(connection.connection_id for connection in self._opened)

    @property
    def were_cut(self) -> bool:
        """Whether they were cut off on purpose: then their errors are no failures."""
        return self._were_cut

    def cut_off(self) -> None:
        """Break all sessions, and refuse new ones."""
        with self._lock:
            self._were_cut = True
            opened = list(self._opened)
        for connection in opened:
            connection.abort()

    def close(self) -> None:
        """End all sessions, once no thread uses one."""
        with self._lock:
            opened = list(self._opened)
        for connection in opened:
            connection.close()
