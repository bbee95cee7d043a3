"""Checks of privileges and of connection limits, each with the statement that grants or raises.

Rows that are in the target's tables before a load fills them: they stay, beside the source's or in their place.

A merge into a table that is in use wants just that; mostly they are left over from a trial. Rows that a load of this
task has brought before are none of them, and a task that goes on from its checkpoint loads nothing. A task that begins
anew forgets what it has brought: its own rows are there already, too, and without a key each would come a second time.

Whether a Spark cluster gives what it holds to its own members alone.

Tasks elsewhere get passwords in Spark's messages: no file of ours is there. Without `spark.authenticate` the driver and
the executors give those to whoever reaches their ports; without encryption, whoever sees the packets reads along. A
local master needs neither setting, its session sets both (`dm/spark/session.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from typing import Final

from dm.config.endpoint import WRITTEN_BY_DM
from dm.config.units import SparkConfig
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.dumper.hidden_tables import hidden
from dm.errors import TARGET_PRIVILEGES, DMError, grant
from dm.ident import Ident, TableName
from dm.mysql.dialect import Dialect
from dm.mysql.dialect.pair import same_family
from dm.mysql.dialect.tidb import VARIABLES
from dm.progress.checkpoint import has_checkpoint, read_checkpoint
from dm.progress.load_parts import tables_filled_by
from dm.session.answers import reads_answers
from dm.session.login import unproven
from dm.sourcelog.upstream.facts import ServerFacts
from dm.sourcelog.upstream.snapshot import gtids_are_committed
from dm.task.precheck.context import Answers, CheckResult, Context, OfSource, Server, some
from dm.task.precheck.expressions import connected
from dm.task.progress import key_of

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
    asks_for_xa = source.facts.dialect.has_xa_privilege
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
    schemas = dict.fromkeys([*context.target_schemas, context.config.meta_schema])
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
    """Whether both servers take as many connections as the task opens; all its sources open theirs at one target.

    The others may have other settings, and a source at rest has few sessions. So what they need together is a warning.
    """
    config = context.config
    sources = 1 + len(config.neighbours)
    at_source = (config.dumper.threads if context.dumps else 0) + 2
    at_target = max(
        config.loader.pool_size + 1 if context.loads else 0,
        config.syncer.worker_count + _OWN_CONNECTIONS if context.syncs else 0,
    )
    enough = True
    for server, needed, together in (
        (context.source, at_source, at_source),
        (context.target, at_target, at_target * sources),
    ):
        limits = [int(server.variables.get(name, "0")) for name in ("max_connections", "max_user_connections")]
        limit = min((limit for limit in limits if limit > 0), default=0)
        if 0 < limit < together:
            enough = False
            answer = answers.failure if limit < needed else answers.warning
            opened = (
                f"{needed}" if together == needed else f"{needed} for a source, {together} for its {sources} sources"
            )
            yield answer(
                f"{server.role} takes {limit} connections, the task may open {opened}",
                f"SET GLOBAL max_connections = {together + 100}; or fewer `threads`, `pool-size`, `worker-count`",
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


def session_of_target(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A warning for variables of TiDB that have no effect; nothing to say where there are none."""
    endpoint = context.config.target
    asked = [name for name in endpoint.session if name.startswith(VARIABLES) and name != WRITTEN_BY_DM]
    if not asked:
        return
    names, why = without_effect(asked, context.target.facts.dialect)
    if not names:
        yield answers.success()
    for name in names:
        place = endpoint.session_places.get(name, "")
        yield answers.warning(f"{place + ': ' if place else ''}{name} has no effect here: {why}", "leave it out")


def sessions_of_all_servers(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure where a TiDB does not tell the sessions of its whole cluster, by which runs know of earlier ones."""
    if not context.target.facts.dialect.locks_by_name:
        with closing(TargetConnection(context.config.target, foreign_key_checks=False)) as connection:
            session_lock.demand_all_seen(connection)
        yield answers.success()


def without_effect(asked: Collection[str], server: Dialect) -> tuple[list[str], str]:
    """Those that are left aside, and why."""
    if server.settled:
        return [
            name for name in asked if name in server.settled
        ], "the sessions of a task have it set to what they rely on"
    return list(asked), "it is a variable of TiDB, and no other server gets it"


_TRIGGER: Final = "TRIGGER"


def privilege(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """The privileges that row events take: the task does without, at the price of more work for the target."""
    source, target = context.source.facts, context.target.facts
    if context.config.syncer.row_format == "sql":
        yield answers.success("rows go as SQL: row-format is sql")
    elif not target.dialect.takes_row_events:
        yield answers.success(f"rows go as SQL: {target.dialect.no_row_events}")
    elif not same_family(source.flavor, target.flavor) or target.version < source.version:
        yield answers.success("rows go as SQL: the target is of another family, or older than the source")
    elif "sql_mode" in context.config.target.session:
        yield answers.success(
            "rows go as SQL: the target's session has a sql_mode, by which it judges values of SQL only"
        )
    elif not (lacking := _lacking(context)):
        yield answers.success()
    else:
        statement = grant(lacking, "*.*", context.target.account)
        yield answers.success(f"rows go as SQL; as row events, which are less work for the target, after: {statement}")


def _lacking(context: Context) -> tuple[str, ...]:
    grants, there = context.target.grants, context.target.facts.dialect
    applies = any(grants.globally(name) for name in there.applying)
    # Where all tables are still to come, only a privilege on everything is known to hold for them.
    names = context.destinations
    seen = all(grants.on_table(_TRIGGER, name) for name in names) and bool(names)
    sees = grants.globally(_TRIGGER) or seen
    return (*(() if applies else (there.applier,)), *(() if sees else (_TRIGGER,)))


def temporary_tables(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the account may have temporary tables: the target itself makes what it is compared with."""
    config = context.config
    if config.validator.mode == "none":
        return
    if config.shard_mode:
        error = DMError("validator-with-shards", task=config.task)
        yield answers.warning(f"nothing is validated: {error.message}", error.workaround)
        return
    table = TableName(config.meta_schema, "dm_validator_check")
    with closing(connected(context)) as session:
        session.execute(f"CREATE TEMPORARY TABLE {table.sql} (n INT) ENGINE=InnoDB")
    yield answers.success()


_COUNTED: Final = 10_000  # rows of a table that are counted one by one
_BATCH: Final = 50
_ALL: Final = 200


def rows_there_already(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """The rows of each table; their number is exact where it is small."""
    wanted = set(context.destinations)
    there = _base_tables(context, wanted) if context.loads and not context.follows_from_checkpoint else {}
    own: frozenset[TableName] = frozenset()
    if there:
        with TargetConnection(context.config.target) as connection:
            own = tables_filled_by(connection, context.config.meta_schema, context.config.task)
            if context.anew:
                own |= _followed(context, connection)
        if not context.anew:
            there = {table: guess for table, guess in there.items() if table not in own}
    counted = _counts(context, sorted(there))
    filled = {table: f"{table} ({_told(count, there[table])})" for table, count in counted.items() if count}
    if not filled:
        yield answers.success()
        return
    doubled = own.intersection(filled, map(context.destination, context.keyless))
    if doubled:
        yield answers.failure(
            f"tables without a key have rows that this task has brought, and would have them twice:"
            f" {some((filled.pop(table) for table in sorted(doubled)), _ALL)}",
            "; ".join(f"TRUNCATE TABLE {table.sql}" for table in sorted(doubled)) + " (at the target)",
        )
    if filled:
        yield answers.warning(
            f"tables that the load fills have rows already: {some(filled.values(), _ALL)}",
            "nothing, if they belong there (what becomes of rows with equal keys `on-duplicate-logical` says; a table"
            " without a key takes all); else TRUNCATE TABLE .. (at the target)",
        )


def _followed(context: Context, connection: TargetConnection) -> frozenset[TableName]:
    """The target's tables of the checkpoint that is to be forgotten; a RENAME may have given them other names."""
    key = key_of(context.config)
    checkpoint = read_checkpoint(connection, key) if has_checkpoint(connection, key) else None
    return frozenset(map(context.destination, {} if checkpoint is None else checkpoint.tables))


def _base_tables(context: Context, wanted: set[TableName]) -> dict[TableName, int]:
    """The wanted tables that the target has, with the server's guess of their rows."""
    rows = context.target.of_schemas(
        "SELECT table_schema, table_name, table_rows FROM information_schema.tables WHERE table_type = 'BASE TABLE'",
        "table_schema",
        tuple({table.schema for table in wanted}),
    )
    found = {TableName(str(schema), str(table)): int(str(guess or 0)) for schema, table, guess in rows}
    return {table: guess for table, guess in found.items() if table in wanted}


@reads_answers
def _counts(context: Context, tables: list[TableName]) -> dict[TableName, int]:
    """How many rows the tables have, up to one more than are counted."""
    found: dict[TableName, int] = {}
    for at in range(0, len(tables), _BATCH):
        batch = tables[at : at + _BATCH]
        counts = ", ".join(
            f"(SELECT COUNT(*) FROM (SELECT 1 FROM {table.sql} LIMIT {_COUNTED + 1}) AS few)" for table in batch
        )
        found.update(
            zip(batch, (int(str(count)) for count in context.target.query(f"SELECT {counts}")[0]), strict=True)
        )
    return found


def _told(count: int, guess: int) -> str:
    if count > _COUNTED:
        return f"about {max(guess, count)} rows, estimated"
    return "1 row" if count == 1 else f"{count} rows"


ITEM = "spark_authentication"

_ON = ("true",)
_SECRET_BY_SPARK = ("yarn", "k8s://")  # Spark's security page, "Authentication": elsewhere all hosts are given one


def cluster_authentication(spark: SparkConfig) -> Iterator[CheckResult]:
    """Nothing for a local master."""
    if not spark.master or spark.master.startswith("local"):
        return
    answers = Answers(ITEM, f"Spark cluster {spark.master}")
    if spark.settings.get("spark.authenticate", "").lower() not in _ON:
        given = spark.master.startswith(_SECRET_BY_SPARK)
        also = "" if given else ", and `spark.authenticate.secret` with the secret that its hosts have"
        yield answers.failure(
            "whoever reaches the ports of its driver or executors is given the passwords of source and target",
            f"add `spark.authenticate: true` to `spark.conf`{also} (docs/cluster.md)",
        )
    elif spark.settings.get("spark.network.crypto.enabled", "").lower() not in _ON:
        yield answers.warning(
            "passwords of source and target pass the network unencrypted",
            "add `spark.network.crypto.enabled: true` to `spark.conf`",
        )
    else:
        yield answers.success("its members show each other a secret, and encrypt what they send")
