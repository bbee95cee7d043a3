"""What a server has against a cut-over, or is to be known before one: who could still write, what acts, what is open.

MySQL's super_read_only binds every account. MariaDB's read_only does not bind those with READ_ONLY ADMIN (SUPER before
10.11), so these are named.

What comes back over the way back has been through the triggers of the server that it comes from, which the switch has
created there. A trigger of the server that gets it acts once more, and so does an event whose definer read-only mode
does not bind. Neither can be dropped for a person, since the applications need them up to the fence. So they stop a
cut-over that has a way back, and a person says by name which of them may act twice.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from dm.config import SubtaskConfig
from dm.config.endpoint import address
from dm.errors import DMError
from dm.ident import TableName
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, connect, fetch, grantee
from dm.sourcelog.upstream.facts import ServerFacts, read_facts
from dm.sourcelog.upstream.privilege import read_grants
from dm.sourcelog.upstream.snapshot import prepared_xids
from dm.tools.cutover.source import MODES, modes_of, xa_sessions

LONG_SECONDS: Final = 10  # a transaction that has been open for so long
_UNBOUND: Final = "('READ_ONLY ADMIN', 'READ ONLY ADMIN', 'CONNECTION_ADMIN', 'SUPER')"  # privileges


@dataclass(frozen=True, slots=True)
class Finding:
    """What stands in the way of a cut-over, or is to be known before one."""

    where: str
    says: str
    mend: str
    stops: bool = True


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
    if all(mode == "OFF" for mode in modes_of(connection).values()):
        return []
    says = "it is read-only already, and dm can't tell for whom"
    return [Finding(where, says, f"SET GLOBAL read_only = OFF {_at(connection)}, or a hook for stop-writes")]


def _may_fence(connection: Connection, facts: ServerFacts, where: str) -> list[Finding]:
    found = modes_of(connection)
    name = next(each for each in MODES if each in found)
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
        return found + (_privileged(connection, where) if "super_read_only" in modes_of(connection) else [])


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
        closed_already = modes_of(connection)["read_only"] != "OFF"
        opening = f"SET GLOBAL read_only = OFF {_at(connection)}"
    findings = [replace(each, stops=False) for each in found]
    if closed_already:
        findings.append(Finding("target", "it is read-only, and stays so at the switch", opening, stops=False))
    return findings


def _not_bound(connection: Connection, where: str) -> list[Finding]:
    """The accounts that write in spite of MariaDB's read-only mode."""
    return [] if "super_read_only" in modes_of(connection) else _privileged(connection, where)


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
    if "super_read_only" not in modes_of(connection):
        return []
    try:
        xa_sessions(connection)
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
