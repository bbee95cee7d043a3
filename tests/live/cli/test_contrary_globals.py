"""Every verb does the same whatever the servers' global variables are: each is set contrary to what dm needs.

What the source's applications write meanwhile, they write in sessions that begin with these globals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Literal

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.demo.compare import TablePair, UpstreamTable, compare
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from tests.testbed.daemon import Daemon
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(600)]

Globals = Mapping[str, object]

QUOTES = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE,NO_ZERO_IN_DATE"
EVERYWHERE: Globals = {
    "sql_mode": f"{QUOTES},STRICT_TRANS_TABLES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE",
    "time_zone": "-07:30",
    "sql_select_limit": 1,
    "autocommit": 0,
    "completion_type": 2,
    "div_precision_increment": 0,
    "default_week_format": 3,
    "group_concat_max_len": 4,
    "lock_wait_timeout": 1,
    "wait_timeout": 20,
    "foreign_key_checks": 0,
}
OF_SERVERS: Globals = {
    **{f"character_set_{part}": "latin1" for part in ("client", "connection", "results", "server")},
    "collation_connection": "latin1_german2_ci",
    "collation_server": "latin1_german2_ci",
    "sql_quote_show_create": 0,
    "sql_big_selects": 0,
    "max_join_size": 1,
    "sql_safe_updates": 1,
    "sql_auto_is_null": 1,
    "sql_notes": 0,
    "sql_warnings": 1,
    "sql_buffer_result": 1,
    "unique_checks": 0,
    "max_sort_length": 8,
    "max_error_count": 0,
    "net_read_timeout": 5,
    "net_write_timeout": 5,
    "lc_time_names": "de_DE",
    "lc_messages": "de_DE",
    "innodb_strict_mode": 0,
    "innodb_lock_wait_timeout": 2,
    "low_priority_updates": 1,
    "explicit_defaults_for_timestamp": 0,
}
OF_MYSQL: Globals = {
    **OF_SERVERS,
    "transaction_read_only": 1,
    "transaction_isolation": "READ-UNCOMMITTED",
    "max_execution_time": 1,
    "show_create_table_verbosity": 1,
    "show_gipk_in_create_table_and_information_schema": 0,
    "block_encryption_mode": "aes-256-cbc",
    "default_collation_for_utf8mb4": "utf8mb4_general_ci",
    "old_alter_table": 1,
    "information_schema_stats_expiry": 0,
}
OF_MARIADB: Globals = {
    **OF_SERVERS,
    "tx_read_only": 1,
    "tx_isolation": "READ-UNCOMMITTED",
    "max_statement_time": 0.001,
    "idle_transaction_timeout": 1,
    "idle_readonly_transaction_timeout": 1,
    "idle_write_transaction_timeout": 1,
    "sql_if_exists": 1,
    "system_versioning_asof": "2001-01-01 00:00:00",
    "old_mode": "NO_PROGRESS_INFO,ZERO_DATE_TIME_CAST",
    "check_constraint_checks": 0,
    "alter_algorithm": "INSTANT",
    "default_regex_flags": "DOTALL,EXTENDED",
}
OF_A_TARGET: Globals = {"default_storage_engine": "MyISAM"}
OF_TIDB: Globals = {
    "tidb_txn_mode": "optimistic",
    "tidb_replica_read": "follower",
    "tidb_low_resolution_tso": "ON",
    "tidb_guarantee_linearizability": "OFF",
    "tidb_enable_external_ts_read": "OFF",
    "max_execution_time": 1,
    "block_encryption_mode": "aes-256-cbc",
}


WITHOUT_LIMIT = {"mysql": "SET SESSION max_execution_time = 0", "mariadb": "SET SESSION max_statement_time = 0"}


@contextmanager
def contrary(server: PrivateServer, values: Globals) -> Iterator[None]:
    """The server with these global values; what it had is put back."""
    with closing(server.connect()) as session, session.cursor() as cursor:
        cursor.execute(WITHOUT_LIMIT[server.flavor])
        before: dict[str, object] = {}
        for name in values:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            before[name] = cursor.fetchall()[0][0]
        try:
            for name, value in values.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))
            yield
        finally:
            cursor.execute("SET SESSION wait_timeout = 1000")
            for name, value in before.items():
                unset = name == "system_versioning_asof"
                cursor.execute(f"SET GLOBAL {name} = {'DEFAULT' if unset else '%s'}", () if unset else (value,))


def application(server: ThrowawayServer) -> Connection[Cursor]:
    """A session of the source's users, which has all that the server begins one with, but that it writes."""
    session = server.connect()
    with session.cursor() as cursor:
        cursor.execute("SET SESSION TRANSACTION READ WRITE")
        # A MySQL's status says that it is on, whatever the global variable says, and the driver believes it.
        cursor.execute("SET SESSION autocommit = 1")
        if server.flavor == "mariadb":
            cursor.execute("SET SESSION alter_algorithm = 'DEFAULT'")
        cursor.execute(WITHOUT_LIMIT[server.flavor])
    return session


def write(server: ThrowawayServer, *statements: str) -> None:
    with closing(application(server)) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def beginning(schema: str, member: str, charset: str) -> Iterator[str]:
    yield (
        f'CREATE TABLE {schema}."a b" ("id" INT PRIMARY KEY, "select" VARCHAR(40), "c" CHAR(9), "at" TIMESTAMP NULL,'
        ' "n" DECIMAL(20,6), "d" DATE, "j" TEXT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4'
    )
    yield f'CREATE TABLE {schema}.keyless ("v" VARCHAR(40), "n" INT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4'
    yield (
        f'CREATE TABLE {schema}.zero ("id" INT AUTO_INCREMENT PRIMARY KEY, "t" TIMESTAMP NOT NULL DEFAULT'
        f" CURRENT_TIMESTAMP, \"e\" ENUM('x','{member}')) ENGINE=InnoDB DEFAULT CHARSET={charset}"
    )
    for start in range(0, 400, 100):
        rows = ",".join(
            f"({number}, 'back\\slash \" {number}', 'pad', '2024-03-10 02:30:0{number % 10}', 1.5, '2024-01-01', NULL)"
            for number in range(start, start + 100)
        )
        yield f'INSERT INTO {schema}."a b" VALUES {rows}'
        yield f"INSERT INTO {schema}.keyless VALUES " + ",".join(f"('{number}', {number % 7})" for number in range(100))
    yield "SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO'"
    yield f"INSERT INTO {schema}.zero VALUES (0, '2024-06-01 00:00:00', 'x')"


def changes(schema: str, member: str, number: int) -> Iterator[str]:
    """One more round of rows and DDL, each with quotes and backslashes that mean what the session's modes say."""
    yield f'UPDATE {schema}."a b" SET "select" = \'a\\\' WHERE "id" = {number}'
    yield f"INSERT INTO {schema}.keyless VALUES ('new \\{number}', {number})"
    yield f"INSERT INTO {schema}.zero (\"e\") VALUES ('{member}')"
    yield f'DELETE FROM {schema}."a b" WHERE "id" = {100 + number}'
    yield f'ALTER TABLE {schema}."a b" ADD COLUMN "more {number}" VARCHAR(20) NOT NULL DEFAULT \'\\n "x"\''
    yield f'CREATE TABLE {schema}."made {number}" ("id" INT PRIMARY KEY, "at" TIMESTAMP NULL) ENGINE=InnoDB'
    yield f"INSERT INTO {schema}.\"made {number}\" VALUES (1, '2024-02-03 04:05:06')"
    yield f'ALTER TABLE {schema}."made {number}" MODIFY "id" BIGINT, COMMENT \'back\\slash\''


def end_of(server: ThrowawayServer) -> str:
    """The end of its binlog, as `flashback` takes a place."""
    with closing(application(server)) as session, session.cursor() as cursor:
        cursor.execute("SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS")
        file, offset, *_ = cursor.fetchall()[0]
    return f"{file}:{offset}"


def files(directory: Path, source: PrivateServer, target: PrivateServer, schema: str) -> None:
    """The source's file and the task's; the task is called as the schema."""
    (directory / "source.yaml").write_text(
        f"source-id: one\nfrom: {{host: {source.host}, port: {source.port}, user: root, password: {source.password}}}\n"
    )
    (directory / "task.yaml").write_text(
        f"name: {schema}\nmeta-schema: {schema}_meta\ntask-mode: all\n"
        f"target-database: {{host: {target.host}, port: {target.port}, user: root,"
        f" password: '{target.password}'}}\n"
        "mysql-instances:\n  - {source-id: one, block-allow-list: b, mydumper-config-name: m, syncer-config-name: s,"
        " expression-filters: [f]}\n"
        f"block-allow-list: {{b: {{do-dbs: [{schema}]}}}}\n"
        "mydumpers: {m: {threads: 2, rows: 100}}\nsyncers: {s: {checkpoint-flush-interval: 1, worker-count: 2}}\n"
        f'expression-filter: {{f: {{schema: {schema}, table: keyless, insert-value-expr: "n / 3 = 33.3333"}}}}\n'
    )


def compared(daemon: Daemon, task: str) -> None:
    """All tables are equal, but for one that is not compared, since a filter may leave out rows of it."""
    answer = daemon.dmctl("diff", task)
    assert answer.out, str(answer)
    *tables, _ = answer.out.splitlines()
    ends = sorted(line.split(": ")[1].split(",")[0] for line in tables)
    assert (answer.status, set(ends[:-1]), ends[-1]) == (2, {"equal"}, "not compared"), str(answer)


def run_all_verbs(daemon: Daemon, source: ThrowawayServer, schema: str, *, at_tidb: bool, briefly: bool) -> None:
    """Each verb once, on a task that is loaded, follows, rests and goes on."""
    # TiDB does not escape a backslash in what it prints of an ENUM, and has one collation of latin1 only.
    member, charset = ("y z", "utf8mb4") if at_tidb else ("y\\z", "latin1")

    def synced() -> None:
        daemon.must("wait", schema, "--synced", "--timeout", "110")

    write(source, *beginning(schema, member, charset))
    daemon.must("operate-source", "create", "source.yaml")
    daemon.must("start-relay", "-s", "one")
    daemon.must("check-task", "task.yaml")
    daemon.must("start-task", "task.yaml")
    synced()
    write(source, *changes(schema, member, 1))
    synced()
    daemon.must("query-status", schema)
    daemon.must("validation", "start", schema)
    place = end_of(source)
    write(source, *changes(schema, member, 2))
    synced()
    compared(daemon, schema)
    daemon.must("validation", "status", schema)
    daemon.must("validation", "stop", schema)
    if not briefly:
        daemon.must("reload-table", schema, schema, "keyless")
        synced()
    daemon.must("pause-task", schema)
    daemon.must("binlog-schema", "list", schema, schema, "a b")
    write(source, *changes(schema, member, 3))
    if not at_tidb:
        daemon.must("flashback", schema, "--sql", "back", "--from", place, "--tables", f"{schema}.zero")
    if not briefly and not at_tidb:
        daemon.must("replay", schema)
    daemon.must("resume-task", schema)
    synced()
    daemon.must("stop-task", schema)
    write(source, *changes(schema, member, 4))
    daemon.must("start-task", "task.yaml")
    synced()
    if not briefly:
        compared(daemon, schema)


def there_and_back(daemon: Daemon, source: ThrowawayServer, target: PrivateServer, schema: str) -> None:
    """What is no table, and a second task that is cut over and returns: its way back is its opposite meanwhile."""
    at_tidb, task = isinstance(target, TidbServer), f"{schema}_move"
    daemon.must("stop-task", schema)
    text = (daemon.directory / "task.yaml").read_text().replace(f"name: {schema}\n", f"name: {task}\n")
    text = text.replace("task-mode: all", "task-mode: incremental").replace(", expression-filters: [f]", "")
    text = text.replace(f"do-dbs: [{schema}]", f"do-tables: [{{db-name: {schema}, tbl-name: a*}}]")
    (daemon.directory / "move.yaml").write_text("\n".join(text.splitlines()[:-1]) + "\n")
    daemon.must("start-task", "move.yaml")

    def synced(name: str) -> None:
        daemon.must("wait", name, "--synced", "--timeout", "110")

    write(source, f'CREATE VIEW {schema}.seen AS SELECT "id", \'a\\\' || "select" AS "x" FROM {schema}."a b"')
    write(source, f'UPDATE {schema}."a b" SET "select" = \'there \\\' WHERE "id" = 7')
    synced(task)
    daemon.must("objects", task, "--kind", "view", "--apply")
    seen = f"SELECT x FROM {schema}.seen WHERE id = 7"
    assert target.query(seen) == source.query(seen) == (("a\\there \\",),)
    daemon.must("cut-over", task, "--yes", *(["--no-way-back"] if at_tidb else []))
    if not at_tidb:
        assert isinstance(target, ThrowawayServer)
        write(target, f'UPDATE {schema}."a b" SET "select" = \'back \\\' WHERE "id" = 7')
        write(target, f'ALTER TABLE {schema}."a b" ADD COLUMN "of the target" VARCHAR(9) DEFAULT \'\\n "\'')
        synced(f"{task}-back")
        daemon.must("cut-over", task, "--back", "--yes")
        assert target.query(seen) == source.query(seen) == (("a\\back \\",),)
        write(source, f'DELETE FROM {schema}."a b" WHERE "id" = 8')
        synced(task)
    daemon.must("cut-over", task, "--complete")


def opened(*servers: PrivateServer) -> None:
    """What a cut-over has closed."""
    for server in servers:
        for name in ("super_read_only", "read_only"):
            if server.query(f"SHOW GLOBAL VARIABLES LIKE '{name}'"):
                server.execute(f"SET GLOBAL {name} = OFF")


def differences(source: PrivateServer, target: PrivateServer, schema: str) -> str:
    tables = f"SHOW FULL TABLES FROM {schema} WHERE Table_type = 'BASE TABLE'"
    names = [str(row[0]) for row in source.query(tables)]
    pairs = [TablePair(TableName(schema, name), (UpstreamTable(source, TableName(schema, name)),)) for name in names]
    assert len(pairs) == 7
    report = compare(pairs, target)
    return "" if report.identical else str(report)


@pytest.mark.parametrize(
    ("source_kind", "target_kind", "briefly"),
    [
        ("mysql", "mysql", True),
        pytest.param("mysql", "mysql", False, marks=pytest.mark.chaos),
        pytest.param("mariadb", "mariadb", False, marks=pytest.mark.chaos),
        pytest.param("mysql", "mariadb", False, marks=pytest.mark.chaos),
        pytest.param("mariadb", "mysql", False, marks=pytest.mark.chaos),
        pytest.param("mysql", "tidb", False, marks=[pytest.mark.tidb, pytest.mark.chaos]),
    ],
)
def test_every_verb_does_the_same(
    source_kind: Flavor,
    target_kind: Flavor | Literal["tidb"],
    briefly: bool,
    park: ServerPark,
    schema: SchemaFactory,
    tmp_path: Path,
) -> None:
    kinds: dict[str, Globals] = {"mysql": OF_MYSQL, "mariadb": OF_MARIADB, "tidb": OF_TIDB}
    source = park.shared(source_kind, "upstream-1")
    target: PrivateServer = park.tidb() if target_kind == "tidb" else park.target(target_kind, "target")
    name = schema(source)
    files(tmp_path, source, target, name)
    try:
        with ExitStack() as stack:
            stack.enter_context(contrary(source, {**EVERYWHERE, **kinds[source_kind]}))
            engine = {} if isinstance(target, TidbServer) else OF_A_TARGET
            stack.enter_context(contrary(target, {**EVERYWHERE, **kinds[target_kind], **engine}))
            daemon = stack.enter_context(Daemon(tmp_path))
            run_all_verbs(daemon, source, name, at_tidb=target_kind == "tidb", briefly=briefly)
            if not briefly:
                there_and_back(daemon, source, target, name)
        assert differences(source, target, name) == ""
    finally:
        opened(source, *([] if isinstance(target, TidbServer) else [target]))
        target.execute(f"DROP DATABASE IF EXISTS {name}", f"DROP DATABASE IF EXISTS {name}_meta")
