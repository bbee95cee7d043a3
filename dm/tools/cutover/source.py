"""The fence of a cut-over at a source: the read-only mode, and whether the source has written since.

An open transaction can't commit once the mode is on: both servers refuse its COMMIT. A prepared XA transaction may be
committed after all, so none may be there. MySQL also lets an open one be prepared in super_read_only, and then
committed (9.7; MariaDB refuses its XA COMMIT). So the fence waits for its end. `findings.py` names the accounts that
the mode does not bind.

A driver may be frozen between its last look at the row and its statement here. When it thaws, another driver has gone
on, and the statement would open a source that was closed again. So the mode is changed only over a session that holds a
lock of the cut-over at the source. Whoever takes the lock first ends the session that holds it, and asks whether the
row is its own once it has the lock. A later driver does so at each source before it relies on the mode: then the
earlier one has no session any more, and learns with a new one that the row is not its own.

What a source has written since the fence is read from its events. Places alone would not do: FLUSH BINARY LOGS, or a
server that is started again with the mode in its file, begins a new file without a change.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final

from dm.config import SubtaskConfig
from dm.config.endpoint import Endpoint
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import has_checkpoint, read_checkpoint
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.stream.source_monitor import SourceEnd
from dm.sourcelog.upstream.connection import Connection, connect, fetch
from dm.sourcelog.upstream.facts import binlog_end, binlog_files, list_tables, read_facts
from dm.sourcelog.upstream.snapshot import prepared_xids
from dm.tools.cutover.machine import NotYet

MODES: Final = ("super_read_only", "read_only")  # in the order in which they are taken off
LOCK_SECONDS: Final = 5
LOCK_WAIT_TIMEOUT: Final = 1205
_UNKNOWN_THREAD: Final = 1094
_EVENTS: Final = 1000  # that are read at a time
# Events of no transaction, and what a transaction begins with.
_IDLE: Final = frozenset(
    {"Format_desc", "Rotate", "Stop", "Heartbeat", "Previous_gtids", "Gtid_list", "Binlog_checkpoint",
     "Start_encryption", "Gtid", "Anonymous_Gtid"}
)  # fmt: skip
_NO_ROWS: Final = re.compile(r"(use `[^`]*`; )?(FLUSH|ANALYZE( LOCAL| NO_WRITE_TO_BINLOG)? TABLE)\b", re.IGNORECASE)


def modes(config: SubtaskConfig) -> dict[str, str]:
    """The read-only variables of a source."""
    with closing(connect(config.source.endpoint)) as connection:
        return modes_of(connection)


@reads_answers
def modes_of(connection: Connection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in MODES)
    rows = fetch(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name).lower(): str(value) for name, value in rows}


def begin_file(endpoint: Endpoint) -> bool:
    """Have a server begin a new binlog file; False where the account may not.

    A server that is asked for what comes after a GTID set reads the file that this lies in from its beginning.
    """
    with closing(connect(endpoint)) as connection:
        try:
            fetch(connection, "FLUSH NO_WRITE_TO_BINLOG BINARY LOGS")
        except DMError as error:
            if error.name != "privilege-missing":
                raise
            return False
    return True


@reads_answers
def server_of(endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
    """What a server calls itself, by whatever address it is reached; raises DMError."""
    with closing(connect(endpoint)) as connection:
        rows = fetch(connection, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('hostname', 'port', 'server_uuid')")
    return tuple(sorted((str(name), str(value)) for name, value in rows))


@reads_answers
def _locks(connection: Connection, name: str) -> bool:
    return fetch(connection, "SELECT GET_LOCK(%s, %s)", (name, LOCK_SECONDS)) == ((1,),)


@contextmanager
def _held(config: SubtaskConfig, demand_owned: Callable[[], None], *, target: bool = False) -> Iterator[Connection]:
    """A session that may change the mode; no earlier one can from here on. Raises NotYet, and what is demanded."""
    name = "dm-" + hashlib.sha256(f"{config.meta_schema}\0{config.task}".encode()).hexdigest()[:32]
    with closing(connect(config.target if target else config.source.endpoint)) as connection:
        demand_owned()
        _end_holder(connection, name)
        if not _locks(connection, name):
            raise NotYet(f"another daemon's session changes source {config.source_id}")
        demand_owned()
        yield connection


@reads_answers
def _end_holder(connection: Connection, name: str) -> None:
    ((holder,),) = fetch(connection, "SELECT IS_USED_LOCK(%s)", (name,))
    if holder is not None:
        try:
            fetch(connection, f"KILL {int(holder)}")
        except DMError as error:
            if error.server_errno != _UNKNOWN_THREAD:
                raise


def close(config: SubtaskConfig, demand_owned: Callable[[], None]) -> None:
    """Set the strictest read-only mode of the server; waits for statements under way for some seconds."""
    with _held(config, demand_owned) as connection:
        found = modes_of(connection)
        name = next(each for each in MODES if each in found)
        if found[name] == "OFF":
            fetch(connection, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
            try:
                fetch(connection, f"SET GLOBAL {name} = ON")
            except DMError as error:
                if error.server_errno != LOCK_WAIT_TIMEOUT:
                    raise
                raise NotYet(f"a statement or lock at source {config.source_id} keeps {name} off") from None


def demand_none_prepared(config: SubtaskConfig) -> None:
    """Raise DMError where an XA transaction could still be committed, NotYet where one could still be prepared."""
    with closing(connect(config.source.endpoint)) as connection:
        # First: what is prepared in between is seen below. Without the mode there is nothing that they get around.
        sessions = xa_sessions(connection) if modes_of(connection).get("super_read_only") == "ON" else []
        xids = prepared_xids(connection, read_facts(connection).flavor)
    if xids:
        raise DMError("cut-over-prepared-xa", source=config.source_id, number=len(xids))
    if sessions:
        raise NotYet(f"XA transactions are open at source {config.source_id}: KILL {', '.join(map(str, sessions))}")


@reads_answers
def xa_sessions(connection: Connection) -> list[int]:
    """The sessions of open XA transactions at MySQL. Without performance_schema each one with changes may be such."""
    rows = fetch(
        connection,
        "SELECT t.trx_mysql_thread_id FROM information_schema.innodb_trx t"
        " LEFT JOIN performance_schema.threads s ON s.processlist_id = t.trx_mysql_thread_id"
        " LEFT JOIN performance_schema.events_transactions_current e ON e.thread_id = s.thread_id"
        " WHERE t.trx_rows_modified > 0 AND t.trx_mysql_thread_id > 0"
        " AND NOT (e.state <=> 'ACTIVE' AND e.xa_state IS NULL) ORDER BY 1",
    )
    return [int(thread) for (thread,) in rows]


def closed(config: SubtaskConfig, *, strictly: bool) -> bool:
    """Whether it is in that mode, or at least in the one that binds applications."""
    found = modes(config)
    return found[next(each for each in MODES if each in found) if strictly else "read_only"] != "OFF"


def let_dm_write(config: SubtaskConfig, demand_owned: Callable[[], None]) -> None:
    """From the strictest mode to the one that does not bind dm's account; applications are bound all the time."""
    with _held(config, demand_owned) as connection:
        if modes_of(connection).get("super_read_only") == "ON":
            fetch(connection, "SET GLOBAL super_read_only = OFF")  # leaves read_only on


def reopen(
    config: SubtaskConfig, before: Mapping[str, str], demand_owned: Callable[[], None], *, target: bool = False
) -> None:
    """Give the server, or the one at the other end, the mode that it had."""
    with _held(config, demand_owned, target=target) as connection:
        fetch(connection, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
        found = modes_of(connection)
        for name in MODES:
            if name in before and found.get(name) != before[name]:
                fetch(connection, f"SET GLOBAL {name} = %s", (before[name],))


def end(config: SubtaskConfig) -> Position:
    """Where its binlog ends."""
    with closing(connect(config.source.endpoint)) as connection:
        return binlog_end(connection)


def written(config: SubtaskConfig, since: Position) -> str:
    """The first that the source has written after such an end, in words; empty if it has changed nothing since then."""
    with closing(connect(config.source.endpoint)) as connection:
        now = binlog_end(connection)
        if now == since:
            return ""
        if now.server_uuid != since.server_uuid:
            return f"it is another server, {now.server_uuid} in place of {since.server_uuid}"
        found = _changed(connection, since.file, since.offset)
    return f"{found}; its binlog ended at {since}" if found else ""


@reads_answers
def _changed(connection: Connection, first: str, offset: int) -> str:
    files = [file for file, _ in binlog_files(connection)]
    if first not in files:
        return f"{first} is no binlog of it any more"
    for file in files[files.index(first) :]:
        at = offset if file == first else 4
        while events := fetch(connection, f"SHOW BINLOG EVENTS IN %s FROM {at} LIMIT {_EVENTS}", (file,)):
            for _, position, kind, _, _, info in events:
                if str(kind) not in _IDLE and not (str(kind) == "Query" and _NO_ROWS.match(str(info))):
                    return f"{kind} at ({file}, {position})"
            at = int(events[-1][4])
            if len(events) < _EVENTS:
                break
    return ""


def demand_applied(config: SubtaskConfig) -> None:
    """Raise NotYet unless the stored checkpoint covers what the source has now."""
    key = SubtaskKey(config.meta_schema, config.task, config.source_id)
    with closing(TargetConnection(config.target)) as target:
        stored = read_checkpoint(target, key) if has_checkpoint(target, key) else None
    with closing(connect(config.source.endpoint)) as connection:
        position = binlog_end(connection)
        covered = stored is not None and SourceEnd(position, 0.0, 0.0).is_covered_by(stored.position)
        if stored is not None and not covered and stored.position.server_uuid == position.server_uuid:
            # A task at rest stays where it is, and the binlog goes on with each start of the server.
            covered = not _changed(connection, stored.position.file, stored.position.offset)
    if not covered:
        place = "nowhere" if stored is None else stored.position
        raise NotYet(f"the checkpoint of source {config.source_id} is at {place}, its binlog ends at {position}")


def wanted_tables(config: SubtaskConfig) -> list[TableName]:
    """The tables of the task at a source."""
    rules = TableRules(config)
    with closing(connect(config.source.endpoint)) as connection:
        return [table for table in list_tables(connection) if rules.wanted(table)]
