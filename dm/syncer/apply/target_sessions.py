"""The sessions of one run at the target: one for each lane, those that read structures; and how one takes row events.

A login costs the server and us some milliseconds, most of it for TLS, and a run has some twenty sessions. So several
are opened at a time, after the first. If the address or the password is wrong, only one session fails, and repeated
failures don't lock the account.

A unit that has to end by force cuts all sessions off. One that is just being opened is cut off once it exists.

A worker's session is closed at rest and opened again (`ResumedSession`). The new one takes the lane's lock, so a newer
run finds and ends it as any other; and where a newer run has the lock, or has raised the epoch, it commits nothing. It
must be at the server of the other sessions: an address may lead elsewhere by then, and lanes would write to two
servers. If it is not, the run ends as after a lost connection, and the next one opens all sessions
together. If a run's sessions are at several servers from the start, as behind a balancer, none is closed any more. At
TiDB none is closed, since its locks are not made for that.

Lets a session take row events (BINLOG), and finds out what forbids it.

BINLOG needs a privilege: REPLICATION_APPLIER in MySQL, BINLOG REPLAY in MariaDB. Each session first sends a format
description. MySQL takes that for the start of another server's transactions, and returns to its own only when told to
(error 1782 otherwise).

Some variables make a server apply row events differently from SQL (all measured on MySQL 9.7 and MariaDB 10.11):

- `slave_exec_mode` IDEMPOTENT of MariaDB, `rbr_exec_mode` of MySQL's session: missing and duplicate rows are ignored.
  (MySQL's `replica_exec_mode` is for its replicas only.)
- `slave_type_conversions`: values are made to fit without an error.
- `slave_skip_errors`, set only when a server starts: after a row fails with one of these errors, the rest of its event
  is skipped as well, and BINLOG succeeds.
- `replicate_rewrite_db` of MariaDB: the rows go to another schema. (The other replication filters, and all of MySQL's,
  do not apply to BINLOG.) A server without this variable, before 10.11, may still have the option, and no session can
  see it.

If a statement has two events, MariaDB takes the second's time from the first's (`THD::set_time`), and the session's
time stands still from then on: near 1970, as the events here have none. So `TargetConnection` restarts it before the
next statement. With `secure_timestamp` beyond SUPER neither happens, and a session may not set its time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from dm.changes.computing import SourceSettings
from dm.config.endpoint import Endpoint
from dm.downstream import session_lock
from dm.downstream.connection import READ_TIMEOUT, TargetConnection
from dm.downstream.source_session_settings import with_settings
from dm.errors import DMError
from dm.mysql.binlog.row_events import binlog_statement, format_description
from dm.mysql.dialect import Dialect
from dm.progress.lane_rows import CONTROL, DDL, LaneClaim
from dm.session.answers import reads_answers
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
        self._server: tuple[object, ...] | None = None  # that the first session at rest was at
        self._scattered = False
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

    def close_at_rest(self, connection: TargetConnection) -> bool:
        """Close a session that `ResumedSession` opens again; False if it has to stay."""
        if self._scattered or not connection.dialect.locks_by_name:
            return False
        try:
            server = _server_of(connection)
        except DMError:
            return False  # it is broken, as the next batch tells
        with self._lock:
            self._server = self._server or server
            self._scattered = self._scattered or server != self._server
            if self._scattered:
                return False
            self._opened.remove(connection)
        connection.close()
        return True

    def demand_same_server(self, connection: TargetConnection) -> None:
        """Raise DMError `connection-lost` unless the session is where those are that were closed at rest."""
        if not self._scattered and _server_of(connection) != self._server:
            raise DMError("connection-lost", role="target", address=connection.address, cause=_ELSEWHERE)

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


_ELSEWHERE: Final = "the address leads to another server than before"
_LOCK_SECONDS: Final = 5  # in which the server lets go of the session before


@reads_answers
def _server_of(connection: TargetConnection) -> tuple[object, ...]:
    """What tells servers apart."""
    return tuple(connection.query("SELECT @@hostname, @@port, @@server_id, @@datadir")[0])


class ResumedSession:
    """The session of one lane, closed at rest."""

    def __init__(self, sessions: TargetSessions, claim: LaneClaim) -> None:
        self._sessions = sessions
        self._claim = claim
        self._no_row_events = sessions.no_row_events  # as the run has decided

    def close(self, connection: TargetConnection) -> bool:
        """Close it; False if it has to stay."""
        return self._sessions.close_at_rest(connection)

    def open(self) -> TargetConnection:
        """A session that holds the lane, at the same server; raises DMError, or Stopped."""
        connection = self._sessions.open(self._claim.lane)
        self._sessions.demand_same_server(connection)
        if self._sessions.no_row_events != self._no_row_events:
            why = f"a new session takes no row events: {self._sessions.no_row_events}"
            raise DMError("connection-lost", role="target", address=connection.address, cause=why)
        if not session_lock.take(connection, self._claim.key.lock_name(self._claim.lane), _LOCK_SECONDS):
            self._claim.verify(connection)  # `fenced`, where a newer run has raised the epoch
            why = "another session holds the lane"
            raise DMError("connection-lost", role="target", address=connection.address, cause=why)
        return connection


_ACCESS_DENIED: Final = 1227
_REWRITTEN: Final = "replicate_rewrite_db"
_TIME: Final = "secure_timestamp"


class Variables:
    """Which of the variables the target has, which the first session finds out.

    SHOW VARIABLES makes a table of all that there are, which takes as long as the rest of a login; so the sessions
    after the first ask for their values by name.
    """

    def __init__(self) -> None:
        self._names: tuple[str, ...] | None = None

    @reads_answers
    def of(self, connection: TargetConnection) -> dict[str, str]:
        """Their values in this session; any thread may ask."""
        names = self._names
        if names is None:
            wanted = (*connection.dialect.row_event_variables, _TIME)
            texts = ",".join(f"'{name}'" for name in wanted)
            rows = connection.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({texts})")
            found = {str(name): str(value) for name, value in rows}
            self._names = tuple(name for name in wanted if name in found)
            return found
        if not names:
            return {}
        # Without SESSION: some are the whole server's.
        values = connection.query(f"SELECT {', '.join(f'@@{name}' for name in names)}")[0]
        return dict(zip(names, map(str, values), strict=True))


def take_row_events(connection: TargetConnection, variables: Variables) -> str:
    """Have the session take row events from now on; returns why it can't, empty if it can."""
    if not connection.dialect.takes_row_events:
        return connection.dialect.no_row_events
    try:
        found = variables.of(connection)
        why = _unsuitable(connection.dialect, found)
        if why:
            return why
        sets_time = found.get(_TIME, "NO").upper() in ("NO", "SUPER")
        connection.time_stops = connection.dialect.events_stop_time and sets_time
        connection.execute(binlog_statement([format_description(connection.version_text)]))
        if connection.dialect.has_gtid_next:
            connection.execute("SET SESSION gtid_next = 'AUTOMATIC'")
    except DMError as error:
        if error.retryable or error.name == "server-answer-garbled":
            raise
        if error.server_errno == _ACCESS_DENIED:
            return f"the account lacks {connection.dialect.applier} at the target"
        return f"the target refuses row events: {error.cause}"
    return ""


def _unsuitable(there: Dialect, found: Mapping[str, str]) -> str:
    for name, wanted in there.row_event_variables.items():
        if found.get(name, wanted).upper() != wanted:
            return f"{name} is {found[name]} at the target"
    if there.rewrites_schemas and _REWRITTEN not in found:
        return f"the target does not say whether it has {_REWRITTEN}"
    return ""
