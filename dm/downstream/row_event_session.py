"""Lets a session take row events (BINLOG), and finds out what forbids it.

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

from collections.abc import Mapping
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.mysql.binlog.row_events import binlog_statement, format_description
from dm.mysql.dialect import Dialect
from dm.session.answers import reads_answers

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
