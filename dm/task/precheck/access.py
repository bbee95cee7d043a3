"""Checks of privileges and of connection limits, each with the statement that grants or raises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dm.dumper.hidden_tables import hidden
from dm.errors import TARGET_PRIVILEGES, grant
from dm.ident import Ident
from dm.session.login import unproven
from dm.task.precheck.context import Answers, Context, OfSource, some
from dm.task.precheck.result import CheckResult
from dm.task.precheck.server import Server
from dm.upstream.facts import ServerFacts
from dm.upstream.snapshot import gtids_are_committed

_OWN_CONNECTIONS = 3  # of a syncer besides its workers: progress, DDL, the lane of tables without a key


def replication(context: OfSource, answers: Answers) -> Iterator[CheckResult]:
    """REPLICATION SLAVE to get the binlog, REPLICATION CLIENT to ask where it ends."""
    source = context.source
    missing = [name for name in ("REPLICATION SLAVE", "REPLICATION CLIENT") if not source.grants.globally(name)]
    if missing:
        statement = grant(missing, "*.*", source.account)
        yield answers.failure(f"{source.account} lacks {', '.join(missing)}", statement)
    else:
        yield answers.success()


def dump(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """SELECT on what is migrated, and for tables without a key the locks their snapshot is opened under."""
    source = context.source
    statements: list[str] = []
    missing: list[str] = []
    advised: list[str] = []  # what the dump can do without
    unreadable = [table for table in context.tables if not source.grants.on_table("SELECT", table)]
    if unreadable:
        missing.append(f"SELECT on {some(unreadable)}")
        schemas = dict.fromkeys(table.schema for table in unreadable)
        statements += [_on_schema(("SELECT",), schema, source) for schema in schemas]
    concealed = hidden(context.config, context.rules, source.connection, source.grants)
    if concealed:
        what = some(dict.fromkeys(one.what for one in concealed))
        missing.append(f"the privileges to see {what} (what is hidden would be left out)")
        statements += [one.grant(source.account) for one in concealed]
    unlockable = [schema for schema in context.schemas if not source.grants.on_schema("LOCK TABLES", schema)]
    if unlockable:
        needed = dict.fromkeys(table.schema for table in context.keyless if table.schema in unlockable)
        spared = [schema for schema in unlockable if schema not in needed]
        if needed:
            tables = some(table for table in context.keyless if table.schema in needed)
            missing.append(f"LOCK TABLES on {some(needed)} (for tables without a key: {tables})")
        if spared:
            advised.append(f"LOCK TABLES on {some(spared)} (for tables without a key)")
        statements += [_on_schema(("LOCK TABLES",), schema, source) for schema in unlockable]
    locked_for = global_lock(context.source.facts, of_one_moment=context.config.dump_of_one_moment)
    if locked_for and not _may_flush(source):
        if context.config.dump_of_one_moment and not unlockable:
            advised.append(f"RELOAD (for FLUSH TABLES WITH READ LOCK: {locked_for}; without it the tables are locked)")
        else:
            missing.append(f"RELOAD (for FLUSH TABLES WITH READ LOCK: {locked_for})")
        statements.append(grant(("RELOAD",), "*.*", source.account))
    if not context.syncs and not source.grants.globally("REPLICATION CLIENT"):  # else `replication_privilege` asks
        missing.append("REPLICATION CLIENT (to ask where the binlog ends)")
        statements.append(grant(("REPLICATION CLIENT",), "*.*", source.account))
    # MySQL 8.0 and later tell only the holder of this privilege whether prepared XA transactions exist ("XA RECOVER");
    # one that is prepared before a lock-free dump and committed after it would be missed.
    asks_for_xa = source.facts.flavor == "mysql" and source.facts.version >= 80000
    if asks_for_xa and not source.grants.globally("XA_RECOVER_ADMIN"):
        missing.append("XA_RECOVER_ADMIN")
        statements.append(grant(("XA_RECOVER_ADMIN",), "*.*", source.account))
    lacks = f"{source.account} lacks {'; '.join([*missing, *advised])}"
    if missing:
        yield answers.failure(lacks, "; ".join(dict.fromkeys(statements)))
    elif advised:
        yield answers.warning(lacks, "; ".join(statements))
    else:
        yield answers.success()


def target(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """What the load and the syncer do in the target's schemas, the progress tables' schema included."""
    server = context.target
    schemas = dict.fromkeys(
        [*(context.destination(table).schema for table in context.tables), context.config.meta_schema]
    )
    missing: dict[tuple[str, ...], list[str]] = {}
    for schema in schemas:
        lacking = tuple(name for name in TARGET_PRIVILEGES if not server.grants.on_schema(name, schema))
        if lacking:
            missing.setdefault(lacking, []).append(schema)
    if not missing:
        yield answers.success()
        return
    what = "; ".join(f"{', '.join(names)} on {some(of)}" for names, of in missing.items())
    statements = "; ".join(_on_schema(names, schema, server) for names, of in missing.items() for schema in of)
    essential = {"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE"}
    answer = answers.failure if any(essential & set(names) for names in missing) else answers.warning
    yield answer(f"{server.account} lacks {what}", statements)


def identity(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A warning for a server that need not prove who it is before it is told the password."""
    unsure = [server for server in (context.source, context.target) if unproven(server.endpoint)]
    if not unsure:
        yield answers.success()
    for server in unsure:
        yield answers.warning(
            f"no CA vouches for the {server.role} ({server.endpoint.address}): whoever answers there, or is in between,"
            " can ask for the password and be told it",
            "name the CA of the server's certificate: `ssl-ca` under `security`",
        )


def connections(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether both servers take as many connections as the task opens."""
    config = context.config
    at_source = (config.dumper.threads if context.dumps else 0) + 2
    at_target = max(
        config.loader.pool_size + 1 if context.loads else 0,
        config.syncer.worker_count + _OWN_CONNECTIONS if context.syncs else 0,
    )
    enough = True
    for server, needed in ((context.source, at_source), (context.target, at_target)):
        limits = [int(server.variables.get(name, "0")) for name in ("max_connections", "max_user_connections")]
        limit = min((limit for limit in limits if limit > 0), default=0)
        if 0 < limit < needed:
            enough = False
            yield answers.failure(
                f"{server.role} takes {limit} connections, the task may open {needed}",
                f"SET GLOBAL max_connections = {needed + 100}; or fewer `threads`, `pool-size`, `worker-count`",
            )
    if enough:
        yield answers.success()


def _on_schema(privileges: Sequence[str], schema: str, server: Server) -> str:
    # A narrower pattern than the account's own would take away what that gives.
    return "; ".join(
        grant(privileges, f"{Ident(pattern).sql}.*", server.account) for pattern in server.grants.patterns(schema)
    )


def global_lock(facts: ServerFacts, *, of_one_moment: bool) -> str:
    """Why the dump locks the whole server for a moment; empty when it does not."""
    if of_one_moment:
        return "all rows are read as of one moment"
    if not gtids_are_committed(facts):  # MariaDB has them always
        return "the binlog position of a source without GTIDs, or of MySQL 5.6, is read under it"
    return ""


def _may_flush(server: Server) -> bool:
    return server.grants.globally("RELOAD") or server.grants.globally("FLUSH_TABLES")
