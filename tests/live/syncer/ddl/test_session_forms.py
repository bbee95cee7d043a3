"""What a session of the source may choose for itself while a task runs: each form is applied exactly, or it pauses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dm.config.rules import BlockAllowList, TablePattern
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live

TABLES = (
    "k (id INT PRIMARY KEY AUTO_INCREMENT, u INT UNIQUE, v VARCHAR(20) DEFAULT 'dflt', n INT, t TEXT,"
    " at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), g INT AS (n + 1) STORED)",
    "nokey (a INT, b VARCHAR(20) DEFAULT 'b', c TEXT)",
    "notrans (id INT PRIMARY KEY, v INT)",
    "doc (id INT PRIMARY KEY, j JSON, t TEXT)",
)
WRITES = (
    "INSERT INTO k (u, n) VALUES (1, 1), (2, 2), (NULL, 3)",
    "INSERT INTO k (v) VALUES (NULL), ('x')",
    "UPDATE k SET n = n + 10 WHERE u = 1",
    "UPDATE k SET t = REPEAT('t', 300), v = NULL WHERE id = (SELECT m FROM (SELECT MIN(id) AS m FROM k) AS q)",
    "UPDATE k SET u = u + 100 WHERE u IS NOT NULL",
    "UPDATE k SET id = id + 1000 WHERE v = 'x'",
    "DELETE FROM k WHERE n = 3 LIMIT 1",
    "INSERT INTO nokey (a) VALUES (1), (1), (NULL)",
    "UPDATE nokey SET b = NULL WHERE a = 1 LIMIT 1",
    "DELETE FROM nokey WHERE a IS NULL",
    "REPLACE INTO doc VALUES (1, '{\"k\": 1}', 'text'), (2, NULL, NULL)",
    "UPDATE doc SET j = '{\"k\": 2}' WHERE id = 1",
    "REPLACE INTO notrans VALUES (1, 1), (2, 2)",
    "UPDATE notrans SET v = v + 1",
    "DELETE FROM notrans WHERE id = 2",
    "START TRANSACTION",
    "INSERT INTO k (n) VALUES (50)",
    "SAVEPOINT s",
    "INSERT INTO k (n) VALUES (51)",
    "ROLLBACK TO s",
    "COMMIT",
)
FORMS: dict[str, Sequence[str]] = {
    "plain": (),
    "minimal": ("SET binlog_row_image = MINIMAL",),
    "noblob": ("SET binlog_row_image = NOBLOB",),
}
MYSQL_FORMS: dict[str, Sequence[str]] = {
    "compressed": ("SET binlog_transaction_compression = ON",),
    "compressed minimal": ("SET binlog_transaction_compression = ON, binlog_row_image = MINIMAL",),
    "tagged": ("SET gtid_next = 'AUTOMATIC:some_tag'",),
    "partial JSON": ("SET binlog_row_value_options = PARTIAL_JSON",),
}
MARIADB_FORMS: dict[str, Sequence[str]] = {
    "another domain": ("SET gtid_domain_id = 7, server_id = 4711",),
    "without annotations": ("SET binlog_annotate_row_events = OFF",),
}


def create(name: str, *servers: ThrowawayServer) -> None:
    for server in servers:
        for table in TABLES:
            engine = "MyISAM" if table.startswith("notrans") and server is servers[0] else "InnoDB"
            server.execute(f"CREATE TABLE {name}.{table} ENGINE={engine}")


def write(server: ThrowawayServer, name: str, *statements: str) -> None:
    session = server.connect(database=name)
    with session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def identical(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
    report = compare(pair_tables([upstream], [name]), target, structures=False)
    assert report.identical, str(report)


def refused(sync: RunningSync) -> DMError:
    error = sync.wait_ended()
    sync.error = None
    assert isinstance(error, DMError), error
    assert error.position
    return error


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("safe", [False, True], ids=["plain", "safe-mode"])
def test_every_form_arrives_exactly(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, safe: bool
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name, safe_mode=safe)
    forms = {**FORMS, **(MYSQL_FORMS if flavor == "mysql" else MARIADB_FORMS)}
    # Safe mode refuses to move a row whose image is not whole.
    moving = ("UPDATE k SET u = u +", "UPDATE k SET id = id")
    for part in (list(forms)[::2], list(forms)[1::2]):  # the second run begins where the first one ended
        with running_sync(subtask) as sync:
            sync.wait_synced()
            for form in part:
                whole = not any("row_image" in setting for setting in forms[form])
                writes = [each for each in WRITES if whole or not safe or not each.startswith(moving)]
                write(upstream, name, "DELETE FROM nokey", "DELETE FROM k", *forms[form], *writes)
            sync.wait_synced()
        identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
def test_statements_pause_only_where_the_table_is_wanted(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name, other = schema(upstream, target), schema(upstream)
    create(name, upstream, target)
    upstream.execute(f"CREATE TABLE {other}.o (id INT PRIMARY KEY AUTO_INCREMENT, a DOUBLE, b BLOB)")
    data = tmp_path / "rows.txt"
    data.write_text("7\t1.5\tx\n8\t2.5\ty\n")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        session = upstream.connect(database=other, charset="latin1", local_infile=True)
        with session, session.cursor() as cursor:
            cursor.execute("SET GLOBAL local_infile = 1")
            cursor.execute("SET binlog_format = STATEMENT, @v = 5")
            cursor.execute("INSERT INTO o (a) VALUES (RAND()), (@v)")
            cursor.execute("INSERT INTO o (b) VALUES (x'00ff')")
            cursor.execute("SET NAMES utf8mb4")
            cursor.execute(b"INSERT INTO o (b) VALUES (_binary'\xff\xfe')".decode("latin-1"))
            cursor.execute("REPLACE LOW_PRIORITY INTO o SELECT id + 100, a, NULL FROM o AS k")
            cursor.execute(f"LOAD DATA LOCAL INFILE '{data}' REPLACE INTO TABLE o")
            cursor.execute("UPDATE LOW_PRIORITY o SET a = a + 1 LIMIT 1")
            cursor.execute(f"DELETE FROM {other}.o WHERE id = 8")
        write(upstream, name, "INSERT INTO k (n) VALUES (1)")
        sync.wait_synced()
        identical(upstream, target, name)
        write(upstream, name, "SET binlog_format = STATEMENT", "INSERT INTO k (n) VALUES (RAND() * 0 + 77)")
        error = refused(sync)
    assert error.name == "statement-dml"
    assert "RAND() * 0 + 77" in error.message
    assert "binlog_format" in error.workaround


@pytest.mark.chaos
def test_a_load_of_a_wanted_table_pauses(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    data = tmp_path / "rows.txt"
    data.write_text("7\t1\n")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        session = upstream.connect(database=name, local_infile=True)
        with session, session.cursor() as cursor:
            cursor.execute("SET GLOBAL local_infile = 1")
            cursor.execute("SET binlog_format = STATEMENT")
            cursor.execute(f"LOAD DATA LOCAL INFILE '{data}' INTO TABLE notrans")
        error = refused(sync)
    assert error.name == "statement-dml"
    assert "INTO TABLE" in error.message


@pytest.mark.chaos
def test_a_statement_that_also_uses_a_wanted_schema_pauses(
    mysql: ThrowawayServer, park: ServerPark, schema: SchemaFactory
) -> None:
    target = park.shared("mysql", "target")
    name, other = schema(mysql, target), schema(mysql)
    create(name, mysql, target)
    mysql.execute(
        f"CREATE TABLE {other}.o (a INT)",
        f"CREATE TRIGGER {other}.g AFTER INSERT ON {other}.o FOR EACH ROW INSERT INTO {name}.nokey (a) VALUES (NEW.a)",
    )
    # MySQL says which schemas a statement used, but not whether it wrote there.
    with running_sync(subtask_for(mysql, target, name, task=name)) as sync:
        sync.wait_synced()
        write(mysql, other, "SET binlog_format = STATEMENT", "INSERT INTO o VALUES (1)")
        error = refused(sync)
    assert error.name == "statement-dml"


INEXACT = (
    ("SET sql_mode = ''", "INSERT INTO m (id) VALUES (1)", "n"),  # the implicit default of a NOT NULL column
    ("SET sql_mode = ''", "INSERT INTO m (id, n) VALUES (1, 1)", "d"),  # another default at the target
)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("number", range(len(INEXACT)))
def test_an_image_that_lacks_what_is_needed_pauses(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, number: int
) -> None:
    setting, statement, column = INEXACT[number]
    name = schema(upstream, target)
    for server, default in ((upstream, 5), (target, 6)):
        server.execute(f"CREATE TABLE {name}.m (id INT PRIMARY KEY, n INT NOT NULL, d INT DEFAULT {default})")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        write(upstream, name, setting, "SET binlog_row_image = MINIMAL", statement)
        error = refused(sync)
    assert error.name == "partial-row-image"
    assert f"{name}.m" in error.message
    assert f"column {column}," in error.message
    assert "binlog_row_image" in error.workaround
    assert target.query(f"SELECT COUNT(*) FROM {name}.m") == ((0,),)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("zone", ["+05:00", "+00:00"])
def test_a_default_that_is_another_moment_in_the_session_s_zone_is_not_left_to_the_target(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, zone: str
) -> None:
    name = schema(upstream, target)
    table = "t (id INT PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00')"
    write(target, name, "SET time_zone = '+00:00'", f"CREATE TABLE {table}")
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        session = f"SET time_zone = '{zone}', binlog_row_image = MINIMAL"
        write(upstream, name, session, f"CREATE TABLE IF NOT EXISTS {table}", "INSERT INTO t (id) VALUES (1)")
        if zone == "+00:00":
            sync.wait_synced()
            identical(upstream, target, name)
            return
        error = refused(sync)
    assert error.name == "partial-row-image"
    assert "column at," in error.message


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("safe", [False, True], ids=["plain", "safe-mode"])
def test_a_column_that_an_image_lacks_does_not_follow_the_targets_clock(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, safe: bool
) -> None:
    name = schema(upstream, target)
    clock = "ON UPDATE CURRENT_TIMESTAMP"
    upstream.execute(
        f"CREATE TABLE {name}.k (id INT PRIMARY KEY, v INT, ts TIMESTAMP NULL, dt DATETIME)",
        f"CREATE TABLE {name}.nokey (id INT, v INT, ts TIMESTAMP NULL)",
    )
    target.execute(
        f"CREATE TABLE {name}.k (id INT PRIMARY KEY, v INT, ts TIMESTAMP NULL {clock}, dt DATETIME {clock},"
        f" own DATETIME {clock})",
        f"CREATE TABLE {name}.nokey (id INT, v INT, ts TIMESTAMP NULL {clock})",
    )
    with running_sync(subtask_for(upstream, target, name, task=name, safe_mode=safe)) as sync:
        sync.wait_synced()
        write(
            upstream,
            name,
            "SET binlog_row_image = MINIMAL",
            "INSERT INTO k VALUES (1, 1, '2020-01-01', '2020-01-01'), (2, 1, '2020-01-01', NULL)",
            "INSERT INTO nokey VALUES (1, 1, '2020-01-01')",
        )
        sync.wait_synced()
        write(upstream, name, "SET binlog_row_image = MINIMAL", "UPDATE k SET v = 2", "UPDATE nokey SET v = 2")
        sync.wait_synced()
    for rows in ("* FROM {}.nokey", "id, v, ts, dt FROM {}.k ORDER BY id"):
        query = f"SELECT {rows.format(name)}"
        assert target.query(query) == upstream.query(query)
    # What the source lacks follows it, as ever.
    assert target.query(f"SELECT COUNT(own) FROM {name}.k") == ((2,),)


@pytest.mark.ci_flavor("mariadb")
def test_in_safe_mode_a_partial_image_that_moves_a_row_pauses(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name, safe_mode=True)) as sync:
        sync.wait_synced()
        write(upstream, name, "INSERT INTO k (id, u) VALUES (1, 1)")
        write(upstream, name, "SET binlog_row_image = MINIMAL", "UPDATE k SET u = 2")
        error = refused(sync)
    assert error.name == "partial-row-image"
    assert target.query(f"SELECT u FROM {name}.k") == ((1,),)


@pytest.mark.ci_flavor("mariadb")
def test_a_drop_that_found_some_of_its_tables_is_done(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        session = upstream.connect(database=name)
        with session, session.cursor() as cursor, pytest.raises(Exception, match=r"[Uu]nknown table"):
            cursor.execute("DROP TABLE notrans, missing")
        write(upstream, name, "INSERT INTO k (n) VALUES (1)")
        sync.wait_synced()
    assert bool(target.query(f"SHOW TABLES FROM {name} LIKE 'notrans'")) == bool(
        upstream.query(f"SHOW TABLES FROM {name} LIKE 'notrans'")
    )


def test_a_document_with_a_value_that_nothing_gives_pauses(
    mysql: ThrowawayServer, park: ServerPark, schema: SchemaFactory
) -> None:
    target = park.shared("mysql", "target")
    name = schema(mysql, target)
    create(name, mysql, target)
    mysql.execute(f"CREATE TABLE {name}.own (b TINYBLOB)", f"INSERT INTO {name}.own VALUES (x'00ff')")
    with running_sync(subtask_for(mysql, target, name, task=name, row_format="sql")) as sync:
        sync.wait_synced()
        write(mysql, name, "INSERT INTO doc (id, j) SELECT 1, JSON_ARRAY(b) FROM own")
        error = refused(sync)
    assert error.name == "json-value-inexpressible"
    assert "column j" in error.message
    assert target.query(f"SELECT COUNT(*) FROM {name}.doc") == ((0,),)
    with running_sync(subtask_for(mysql, target, name, task=name)) as sync:
        sync.wait_synced()  # as an event the value is bytes that nobody has to express
    kind = "SELECT JSON_TYPE(j->'$[0]'), CAST(j AS CHAR) FROM {}.doc"
    assert target.query(kind.format(name)) == mysql.query(kind.format(name))


ON_TEMPORARY = (
    "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v INT, w INT)",
    "FLUSH BINARY LOGS",
    "TRUNCATE TABLE t",
    "ALTER TABLE t ADD COLUMN connection_id INT",
    "TRUNCATE TABLE t",
    "ALTER TABLE t DROP COLUMN v, ADD COLUMN x INT",
    "CREATE INDEX by_x ON t (x)",
    "DROP INDEX by_x ON t",
    "CREATE TEMPORARY TABLE gone (a INT)",
    "DROP TABLE real_too, gone",
    "ALTER TABLE t RENAME TO u",
    "ALTER TABLE u RENAME TO v",
    "TRUNCATE TABLE v",
)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("form", ["STATEMENT", "MIXED", "ROW"])
def test_temporary_tables_that_hide_others_leave_those_alone(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, form: str
) -> None:
    name = schema(upstream, target)
    tables = [f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT)" for table in ("t", "u", "v", "real_too")]
    for server in (upstream, target):
        server.execute(*tables, *(f"INSERT INTO {name}.{table} VALUES (1, 2)" for table in ("t", "u", "v")))
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        session = upstream.connect(database=name)
        with session, session.cursor() as cursor:
            for statement in (f"SET SESSION binlog_format = {form}", *ON_TEMPORARY):
                cursor.execute(statement)
            # MySQL renames the table that is no temporary one; so does MariaDB as far as its binlog in row format goes.
            if upstream.flavor == "mariadb" and form != "ROW":
                cursor.execute("RENAME TABLE v TO u")
                cursor.execute("TRUNCATE TABLE u")
        upstream.execute(f"INSERT INTO {name}.t VALUES (2, 3)", f"INSERT INTO {name}.v VALUES (2, 3)")
        sync.wait_synced()
    for query in (
        f"SHOW TABLES FROM {name}",
        *(f"SELECT * FROM {name}.{table} ORDER BY id" for table in ("t", "u", "v")),
        *(f"SHOW COLUMNS FROM {name}.{table}" for table in ("t", "u", "v")),
    ):
        assert target.query(query) == upstream.query(query), query


# What marks all DDL of one CALL as that of a session with temporary tables.
MARKS = {
    "temporary": "CREATE TEMPORARY TABLE mine SELECT * FROM t",
    "connection": "SET @me = CONNECTION_ID()",
}


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("form", ["ROW", "STATEMENT"])
@pytest.mark.parametrize("mark", MARKS)
def test_a_procedure_that_uses_temporary_tables_changes_others(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mark: str, form: str
) -> None:
    name = schema(upstream, target)
    tables = ("t", "emptied", "altered", "model", "renamed")
    for server in (upstream, target):
        server.execute(*(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, a INT)" for table in tables))
    upstream.execute(
        f"CREATE PROCEDURE {name}.p() BEGIN {MARKS[mark]}; TRUNCATE TABLE emptied;"
        " ALTER TABLE altered CHANGE a b INT, ADD COLUMN a INT; CREATE INDEX by_b ON altered (b);"
        " CREATE TABLE made LIKE model; RENAME TABLE renamed TO other; DROP TEMPORARY TABLE IF EXISTS mine; END"
    )
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(*(f"INSERT INTO {name}.{table} VALUES (1, 1), (2, 2)" for table in tables))
        session = upstream.connect(database=name)
        with session, session.cursor() as cursor:
            cursor.execute(f"SET SESSION binlog_format = {form}")
            cursor.execute("CALL p()")
        upstream.execute(
            f"INSERT INTO {name}.emptied VALUES (3, 3)",
            f"INSERT INTO {name}.altered VALUES (3, 3, 3)",
            f"INSERT INTO {name}.made VALUES (3, 3)",
        )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    assert target.query(f"SELECT * FROM {name}.emptied") == ((3, 3),)
    assert target.query(f"SHOW TABLES FROM {name}") == upstream.query(f"SHOW TABLES FROM {name}")


def test_rows_written_through_a_view_by_a_statement_pause(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name, views = schema(upstream, target), schema(upstream)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    upstream.execute(f"CREATE TABLE {views}.o (id INT)", f"CREATE VIEW {views}.w AS SELECT * FROM {name}.t")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    try:
        sync.wait_synced()
        session = upstream.connect(database=views)
        with session, session.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = STATEMENT")
            cursor.execute("INSERT INTO o VALUES (1)")
            session.commit()
            sync.wait_synced()
            cursor.execute("INSERT INTO w VALUES (1, 1)")
            session.commit()
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "statement-dml"


def test_a_view_that_took_the_name_of_a_table_is_noticed(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    upstream.execute(f"CREATE TABLE {name}.o (id INT PRIMARY KEY, v INT)")
    wanted = BlockAllowList(do_tables=(TablePattern(db_name=name, tbl_name="t"),))
    subtask = subtask_for(upstream, target, name, task=name).model_copy(update={"block_allow_list": wanted})
    sync = RunningSync(subtask, None)
    try:
        sync.wait_synced()
        session = upstream.connect(database=name)
        with session, session.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = STATEMENT")
            cursor.execute("INSERT INTO o VALUES (1, 1)")
            session.commit()
            sync.wait_synced()
            cursor.execute("RENAME TABLE o TO old")
            cursor.execute("CREATE VIEW o AS SELECT * FROM t")
            cursor.execute("UPDATE o SET v = 9")
            session.commit()
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "statement-dml"
