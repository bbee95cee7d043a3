"""What a cut-over does at a source and asks of it: the read-only mode, the end of its binlog, who could still write.

MySQL's super_read_only binds every account. MariaDB's read_only does not bind those with READ_ONLY ADMIN (SUPER before
10.11), so these are named. An open transaction can't commit once the mode is on: both servers refuse its COMMIT. A
prepared XA transaction may be committed after all, so none may be there. MySQL also lets an open one be prepared in
super_read_only, and then committed (9.7; MariaDB refuses its XA COMMIT). So the fence waits for its end.

A driver may be frozen between its last look at the row and its statement here. When it thaws, another driver has gone
on, and the statement would open a source that was closed again. So the mode is changed only over a session that holds a
lock of the cut-over at the source. Whoever takes the lock first ends the session that holds it, and asks whether the
row is its own once it has the lock. A later driver does so at each source before it relies on the mode: then the
earlier one has no session any more, and learns with a new one that the row is not its own.

What a source has written since the fence is read from its events. Places alone would not do: FLUSH BINARY LOGS, or a
server that is started again with the mode in its file, begins a new file without a change.

What comes back over the way back has been through the triggers of the server that it comes from, which the switch has
created there. A trigger of the server that gets it acts once more, and so does an event whose definer read-only mode
does not bind. Neither can be dropped for a person, since the applications need them up to the fence. So they stop a
cut-over that has a way back, and a person says by name which of them may act twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from dm.config import SubtaskConfig
from dm.config.endpoint import Endpoint, address
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import has_checkpoint, read_checkpoint
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.stream.source_monitor import SourceEnd
from dm.sourcelog.upstream.connection import Connection, connect, fetch, grantee
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, binlog_files, list_tables, read_facts
from dm.sourcelog.upstream.privilege import read_grants
from dm.sourcelog.upstream.snapshot import prepared_xids
from dm.tools.cutover.machine import NotYet

_MODES: Final = ("super_read_only", "read_only")  # in the order in which they are taken off
LOCK_SECONDS: Final = 5
LOCK_WAIT_TIMEOUT: Final = 1205
LONG_SECONDS: Final = 10  # a transaction that has been open for so long
_UNKNOWN_THREAD: Final = 1094
_UNBOUND: Final = "('READ_ONLY ADMIN', 'READ ONLY ADMIN', 'CONNECTION_ADMIN', 'SUPER')"  # privileges
_EVENTS: Final = 1000  # that are read at a time
# Events of no transaction, and what a transaction begins with.
_IDLE: Final = frozenset(
    {"Format_desc", "Rotate", "Stop", "Heartbeat", "Previous_gtids", "Gtid_list", "Binlog_checkpoint",
     "Start_encryption", "Gtid", "Anonymous_Gtid"}
)  # fmt: skip
_NO_ROWS: Final = re.compile(r"(use `[^`]*`; )?(FLUSH|ANALYZE( LOCAL| NO_WRITE_TO_BINLOG)? TABLE)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Finding:
    """What stands in the way of a cut-over, or is to be known before one."""

    where: str
    says: str
    mend: str
    stops: bool = True


def modes(config: SubtaskConfig) -> dict[str, str]:
    """The read-only variables of a source."""
    with closing(connect(config.source.endpoint)) as connection:
        return _modes(connection)


@reads_answers
def _modes(connection: Connection) -> dict[str, str]:
    names = ", ".join(f"'{name}'" for name in _MODES)
    rows = fetch(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return {str(name).lower(): str(value) for name, value in rows}


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
        found = _modes(connection)
        name = next(each for each in _MODES if each in found)
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
        sessions = _xa_sessions(connection) if _modes(connection).get("super_read_only") == "ON" else []
        xids = prepared_xids(connection, read_facts(connection).flavor)
    if xids:
        raise DMError("cut-over-prepared-xa", source=config.source_id, number=len(xids))
    if sessions:
        raise NotYet(f"XA transactions are open at source {config.source_id}: KILL {', '.join(map(str, sessions))}")


@reads_answers
def _xa_sessions(connection: Connection) -> list[int]:
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
    return found[next(each for each in _MODES if each in found) if strictly else "read_only"] != "OFF"


def let_dm_write(config: SubtaskConfig, demand_owned: Callable[[], None]) -> None:
    """From the strictest mode to the one that does not bind dm's account; applications are bound all the time."""
    with _held(config, demand_owned) as connection:
        if _modes(connection).get("super_read_only") == "ON":
            fetch(connection, "SET GLOBAL super_read_only = OFF")  # leaves read_only on


def reopen(
    config: SubtaskConfig, before: Mapping[str, str], demand_owned: Callable[[], None], *, target: bool = False
) -> None:
    """Give the server, or the one at the other end, the mode that it had."""
    with _held(config, demand_owned, target=target) as connection:
        fetch(connection, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
        found = _modes(connection)
        for name in _MODES:
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


def findings(config: SubtaskConfig, *, fences: bool) -> list[Finding]:
    """What a source has against a cut-over; `fences` if dm sets the read-only mode. Changes nothing."""
    where = f"source {config.source_id}"
    with closing(connect(config.source.endpoint)) as connection:
        facts = read_facts(connection)
        found = [*_open_transactions(connection, where), *_prepared(connection, facts, where)]
        if fences:
            found += [*_closed_by_others(connection, where), *_may_fence(connection, facts, where)]
            found += [*_not_bound(connection, where), *_replicates(connection, facts, where)]
            found += _may_see_xa(connection, where)
    return found


def _at(connection: Connection) -> str:
    """Where a statement is for: a return has source and target the other way round."""
    return f"(at {address(connection.host, connection.port)})"


def _closed_by_others(connection: Connection, where: str) -> list[Finding]:
    """An abort gives back the mode that was there: so nobody else may change it meanwhile."""
    if all(mode == "OFF" for mode in _modes(connection).values()):
        return []
    says = "it is read-only already, and dm can't tell for whom"
    return [Finding(where, says, f"SET GLOBAL read_only = OFF {_at(connection)}, or a hook for stop-writes")]


def _may_fence(connection: Connection, facts: ServerFacts, where: str) -> list[Finding]:
    found = _modes(connection)
    name = next(each for each in _MODES if each in found)
    needed = "SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN" if name == "super_read_only" else "READ_ONLY ADMIN"
    if not facts.dialect.read_only_without_super:
        needed = "SUPER"
    try:
        fetch(connection, f"SET GLOBAL {name} = @@global.{name}")  # as it is: this asks for the privilege only
    except DMError as error:
        mend = f"GRANT {needed} ON *.* TO {grantee(connection).account} {_at(connection)}, or a hook for stop-writes"
        return [Finding(where, f"dm may not set {name}: {error.message}", mend)]
    return []


def findings_of_way_back(
    config: SubtaskConfig, tables: Collection[TableName], acts_twice: Collection[str] = ()
) -> list[Finding]:
    """What acts on a source beside the way back: triggers, events, and accounts whom the fence binds only until then.

    `tables` are those of the task there. `acts_twice` are triggers and events that may, each named as in its finding.
    """
    where = f"source {config.source_id}"
    with closing(connect(config.source.endpoint)) as connection:
        found = _acting(connection, frozenset(tables), where, acts_twice)
        return found + (_privileged(connection, where) if "super_read_only" in _modes(connection) else [])


def _acting(
    connection: Connection, tables: Collection[TableName], where: str, acts_twice: Collection[str]
) -> list[Finding]:
    schemas, grants = {table.schema for table in tables}, read_grants(connection, read_facts(connection))
    account, found, named = grantee(connection).account, list[Finding](), set[str]()
    hidden = {"TRIGGER": [table for table in tables if not grants.on_table("TRIGGER", table)]}
    hidden["EVENT"] = [TableName(each, "") for each in schemas if not grants.on_schema("EVENT", each)]
    for privilege, names in hidden.items():
        if names:
            says = f"whether {privilege.lower()}s act on what comes back to {min(names)} can't be seen"
            found.append(Finding(where, says, f"GRANT {privilege} ON *.* TO {account} {_at(connection)}"))
    for kind, name, statement, does in (*_triggers(connection, tables), *_events(connection, schemas)):
        title = f"{kind} {name}"
        named.add(title)
        mend = f'once its applications have stopped, and the target has it: {statement}; or --acts-twice "{title}"'
        found.append(Finding(where, f"{title} {does}", mend, stops=title not in acts_twice))
    for title in sorted({*acts_twice} - named):
        found.append(Finding(where, f'--acts-twice "{title}" names nothing that acts', "", stops=False))
    return found


@reads_answers
def _triggers(connection: Connection, tables: Collection[TableName]) -> Iterator[tuple[str, TableName, str, str]]:
    """Of these tables: kind, name, what ends it, what it does."""
    rows = fetch(
        connection,
        "SELECT event_object_schema, event_object_table, trigger_schema, trigger_name, action_timing,"
        " event_manipulation FROM information_schema.triggers ORDER BY 3, 4",
    )
    for schema, table, place, trigger, timing, event in (map(str, row) for row in rows):
        if TableName(schema, table) in tables:
            name = TableName(place, trigger)
            does = f"acts on rows that come back, and has acted on them at the other end ({timing} {event} ON {table})"
            yield "trigger", name, f"DROP TRIGGER {name.sql}", does


@reads_answers
def _events(connection: Connection, schemas: Collection[str]) -> Iterator[tuple[str, TableName, str, str]]:
    """The same of the events that run in read-only mode, too."""
    if fetch(connection, "SELECT @@GLOBAL.event_scheduler") != (("ON",),):
        return
    bound = _bound_accounts(connection)
    rows = fetch(
        connection,
        "SELECT event_schema, event_name, definer FROM information_schema.events WHERE status = 'ENABLED'"
        " ORDER BY 1, 2",
    )
    for schema, event, definer in (map(str, row) for row in rows):
        if schema in schemas and definer not in bound:
            name = TableName(schema, event)
            does = f"runs at both ends after the switch: no read-only mode binds its definer {definer}"
            yield "event", name, f"ALTER EVENT {name.sql} DISABLE", does


@reads_answers
def _bound_accounts(connection: Connection) -> set[str]:
    """As a DEFINER names them: those that read_only binds, as far as the account may see that."""
    rows = fetch(
        connection,
        f"SELECT grantee, MAX(privilege_type IN {_UNBOUND}) FROM information_schema.user_privileges GROUP BY 1",
    )
    return {re.sub("^'(.*)'@'(.*)'$", r"\1@\2", str(account)) for account, unbound in rows if not unbound}


def findings_of_return(config: SubtaskConfig) -> list[Finding]:
    """Whether dm may close the target for the return, and it is open now; `config` has it as the source."""
    with closing(connect(config.source.endpoint)) as connection:
        where = "target, for --back"
        found = [*_may_fence(connection, read_facts(connection), where), *_may_see_xa(connection, where)]
        closed_already = _modes(connection)["read_only"] != "OFF"
        opening = f"SET GLOBAL read_only = OFF {_at(connection)}"
    findings = [replace(each, stops=False) for each in found]
    if closed_already:
        findings.append(Finding("target", "it is read-only, and stays so at the switch", opening, stops=False))
    return findings


def _not_bound(connection: Connection, where: str) -> list[Finding]:
    """The accounts that write in spite of MariaDB's read-only mode."""
    return [] if "super_read_only" in _modes(connection) else _privileged(connection, where)


@reads_answers
def _privileged(connection: Connection, where: str) -> list[Finding]:
    """The accounts that read_only does not bind; not MySQL's own."""
    rows = fetch(
        connection,
        "SELECT DISTINCT grantee FROM information_schema.user_privileges WHERE privilege_type IN"
        f" {_UNBOUND} AND SUBSTRING(grantee, 2, 6) <> 'mysql.' ORDER BY grantee",
    )
    own = grantee(connection).account
    return [
        Finding(where, f"{account} can write in read-only mode", f"ALTER USER {account} ACCOUNT LOCK", stops=False)
        for (account,) in rows
        if account != own  # dm's has to log in
    ]


@reads_answers
def _replicates(connection: Connection, facts: ServerFacts, where: str) -> list[Finding]:
    """What a source applies as a replica, no read-only mode stops. A group's applier is no sign of that."""
    appliers = (
        "SELECT COUNT(*) FROM performance_schema.replication_applier_status"
        " WHERE service_state = 'ON' AND LEFT(channel_name, 17) <> 'group_replication'"
    )
    domains = facts.dialect.gtids_have_domains
    try:
        ((*_, number),) = fetch(connection, "SHOW GLOBAL STATUS LIKE 'Slaves_running'" if domains else appliers)
    except DMError as error:
        return [Finding(where, f"whether it is a replica is not known: {error.message}", error.workaround, stops=False)]
    stop = "STOP ALL SLAVES" if domains else "STOP REPLICA"
    says = "it is a replica, and applies what its own source writes in read-only mode, too"
    return [Finding(where, says, f"{stop} (once the writes there have stopped and come here)")] if int(number) else []


@reads_answers
def _open_transactions(connection: Connection, where: str) -> list[Finding]:
    try:
        rows = fetch(
            connection,
            "SELECT t.trx_mysql_thread_id, TIMESTAMPDIFF(SECOND, t.trx_started, NOW()), p.user, p.host"
            " FROM information_schema.innodb_trx t"
            " JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id"
            f" WHERE t.trx_started < NOW() - INTERVAL {LONG_SECONDS} SECOND AND t.trx_rows_modified > 0",
        )
    except DMError as error:
        says = f"open transactions could not be looked for: {error.message}"
        return [
            Finding(
                where, says, f"GRANT PROCESS ON *.* TO {grantee(connection).account} {_at(connection)}", stops=False
            )
        ]
    return [
        Finding(where, f"a transaction of {user} from {host} has been open for {seconds} s", f"KILL {thread}")
        for thread, seconds, user, host in rows
    ]


def _may_see_xa(connection: Connection, where: str) -> list[Finding]:
    if "super_read_only" not in _modes(connection):
        return []
    try:
        _xa_sessions(connection)
    except DMError as error:
        account = grantee(connection).account
        mend = f"GRANT PROCESS, SELECT ON *.* TO {account} {_at(connection)}, or a hook for stop-writes"
        return [Finding(where, f"open XA transactions can't be looked for: {error.message}", mend)]
    return []


def _prepared(connection: Connection, facts: ServerFacts, where: str) -> list[Finding]:
    return [
        Finding(where, f"XA transaction {xid} is prepared", f"XA COMMIT {xid}, or XA ROLLBACK {xid}")
        for xid in sorted(prepared_xids(connection, facts.flavor))
    ]
