"""DDL that changes the rows that are there: as at the source, or the task pauses."""

from __future__ import annotations

import pytest

from dm.config.rules import FilterRule, RouteRule
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor, dialect
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live

# What a session sets, a table, its rows, and the statement that converts them.
CONVERSIONS = (
    ("sql_mode = ''", "id INT PRIMARY KEY", "(0)", "MODIFY id INT AUTO_INCREMENT"),
    ("sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "id INT PRIMARY KEY", "(0)", "MODIFY id INT AUTO_INCREMENT"),
    ("sql_mode = ''", "id INT PRIMARY KEY, c VARCHAR(30)", "(1, '2024-02-31'), (2, '2024-00-31')", "MODIFY c DATETIME"),
    ("sql_mode = 'ALLOW_INVALID_DATES'", "id INT PRIMARY KEY, c VARCHAR(30)", "(1, '2024-02-31')", "MODIFY c DATE"),
    (
        "sql_mode = 'NO_ZERO_IN_DATE,NO_ZERO_DATE'",
        "id INT PRIMARY KEY, c VARCHAR(30)",
        "(1, '2024-00-31'), (2, '0000-00-00'), (3, '2024-01-02')",
        "MODIFY c DATE",
    ),
    ("sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'", "id INT PRIMARY KEY, c CHAR(9)", "(1, 'a')", "MODIFY c VARCHAR(9)"),
    ("lc_time_names = 'de_DE'", "id INT PRIMARY KEY", "(1)", "ADD c CHAR(9) DEFAULT (dayname('2024-01-01'))"),
    ("lc_time_names = 'en_US'", "id INT PRIMARY KEY", "(1)", "ADD c CHAR(9) DEFAULT (dayname('2024-01-01'))"),
    ("time_zone = '+05:00'", "id INT PRIMARY KEY, c TIMESTAMP NULL", "(1, '2024-03-01 12:00:00')", "MODIFY c DATETIME"),
)


@pytest.mark.ci_flavor("mysql")
def test_rows_are_converted_as_in_the_session_of_the_source(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for number, (setting, columns, rows, operation) in enumerate(CONVERSIONS):
            table = f"{name}.t{number}"
            upstream.execute(
                f"SET SESSION {setting}",
                f"CREATE TABLE {table} ({columns})",
                f"INSERT INTO {table} VALUES {rows}",
                f"ALTER TABLE {table} {operation}",
            )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    assert len(report.tables) == len(CONVERSIONS)


def test_numbers_of_a_new_column_are_those_of_the_source_where_the_order_of_the_rows_is_known(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    number = "ADD COLUMN n INT NOT NULL AUTO_INCREMENT UNIQUE"
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.keyed (a VARCHAR(9), b INT, PRIMARY KEY (a, b))",
            f"INSERT INTO {name}.keyed VALUES ('b', 1), ('a', 2), ('a', 1), ('c', 3)",
            f"ALTER TABLE {name}.keyed {number}, ADD COLUMN o INT",
            f"UPDATE {name}.keyed SET o = 1 WHERE n = 2",
            f"CREATE TABLE {name}.one (a INT)",
            f"INSERT INTO {name}.one VALUES (7)",
            f"ALTER TABLE {name}.one {number}",
            f"CREATE TABLE {name}.empty (a INT)",
            f"ALTER TABLE {name}.empty {number}, ADD COLUMN w BIGINT DEFAULT (connection_id())",
            # Its event looks like one about a temporary table, because the default is looked at.
            f"ALTER TABLE {name}.empty ADD COLUMN z INT",
            f"CREATE TABLE {name}.alike LIKE {name}.empty",
            f"INSERT INTO {name}.empty VALUES (3, 1, 1, 2)",
        )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("definition", ["INT AUTO_INCREMENT PRIMARY KEY", "BIGINT UNSIGNED SERIAL DEFAULT VALUE"])
def test_numbers_that_go_by_the_order_of_inserts_pause(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, definition: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (v VARCHAR(9))")
    subtask = subtask_for(upstream, target, name, task=name)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    slow = upstream.connect(autocommit=False)
    with slow.cursor() as cursor:
        cursor.execute(f"INSERT INTO {name}.t VALUES ('first')")
        upstream.execute(f"INSERT INTO {name}.t VALUES ('second')")
    slow.commit()  # after the second in the binlog, before it in the table
    slow.close()
    statement = f"ALTER TABLE {name}.t ADD COLUMN n {definition}"
    upstream.execute(statement, f"UPDATE {name}.t SET v = 'last' WHERE n = 2")
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-values-differ"
    # The way out: the same values by hand; then the statement counts as done.
    right = ("SET n = 3 WHERE v = 'first'", "SET n = 2 WHERE v = 'second'", "SET n = 1 WHERE v = 'first'")
    target.execute(statement, f"UPDATE {name}.t SET n = n + 3", *(f"UPDATE {name}.t {one}" for one in right))
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    rows = f"SELECT n, v FROM {name}.t ORDER BY n"
    assert target.query(rows) == upstream.query(rows) == ((1, "first"), (2, "last"))


@pytest.mark.ci_flavor("mysql")
def test_numbers_of_a_table_that_several_are_merged_into_pause(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for table in ("s1", "s2"):
        upstream.execute(f"CREATE TABLE {name}.{table} (a INT PRIMARY KEY)")
    target.execute(f"CREATE TABLE {name}.merged (a INT PRIMARY KEY)")
    route = RouteRule(schema_pattern=name, table_pattern="s*", target_schema=name, target_table="merged")
    sync = RunningSync(subtask_for(upstream, target, name, task=name, routes=(route,)), None)
    sync.wait_synced()
    upstream.execute(
        f"INSERT INTO {name}.s1 VALUES (1), (4)",
        f"INSERT INTO {name}.s2 VALUES (2), (3)",
        f"ALTER TABLE {name}.s2 ADD COLUMN n INT NOT NULL AUTO_INCREMENT UNIQUE",
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-values-differ"


@pytest.mark.parametrize(
    ("what", "operation"),
    [
        ("CONNECTION_ID as the value", "ADD COLUMN n BIGINT DEFAULT (connection_id())"),
        pytest.param("DATABASE as the value", "ADD COLUMN d CHAR(80) DEFAULT (database())", marks=pytest.mark.chaos),
    ],
)
@pytest.mark.ci_flavor("mysql")
def test_values_that_each_server_finds_for_itself_pause(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, what: str, operation: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    sync.wait_synced()
    upstream.execute(f"USE {name}", f"INSERT INTO {name}.t VALUES (1)", f"ALTER TABLE {name}.t {operation}")
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-values-differ"
    assert what in error.message


BETWEEN_FLAVORS = pytest.mark.parametrize(("source", "other"), [("mysql", "mariadb"), ("mariadb", "mysql")])


@BETWEEN_FLAVORS
def test_between_flavors_what_only_widens_is_executed(
    park: ServerPark, schema: SchemaFactory, source: Flavor, other: Flavor
) -> None:
    upstream, target = park.shared(source, "upstream-1"), park.shared(other, "target")
    name = schema(upstream, target)
    t = f"{name}.t"
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            "SET SESSION sql_mode = ''",
            f"CREATE TABLE {t} (id INT PRIMARY KEY, i SMALLINT, v VARCHAR(5), c TEXT CHARACTER SET utf8mb3,"
            " d DECIMAL(6,2), f DATETIME, e ENUM('a','b')) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            f"INSERT INTO {t} VALUES (1, -7, 'ä', 'ü', 1234.50, '2020-01-01 10:00:00', 'b'), (2, NULL, 0, 0, 0, 0, 0)",
            f"ALTER TABLE {t} MODIFY i BIGINT, CHANGE v w VARCHAR(9), MODIFY f DATETIME(3)",
            f"ALTER TABLE {t} MODIFY d DECIMAL(8,3) NOT NULL, MODIFY e ENUM('a','b','c'), MODIFY w TEXT",
            f"ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            f"CREATE TABLE {name}.none (v VARCHAR(9))",
            f"ALTER TABLE {name}.none MODIFY v INT",  # there is no row to convert
            f"ALTER TABLE {t} ADD COLUMN x DATETIME DEFAULT '2020-01-01 10:00:00.7'",  # rounded, or cut off
            f"ALTER TABLE {t} ADD COLUMN y BIGINT DEFAULT (i * 2 + 1), ADD COLUMN z MEDIUMTEXT DEFAULT (w)",
        )
        sync.wait_synced()
    report = compare(pair_tables([upstream], [name]), target, structures=False)
    assert report.identical, str(report)


@BETWEEN_FLAVORS
@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("DATETIME(6)", "2020-01-01 10:00:00.7", "DATETIME"),
        pytest.param("VARCHAR(9)", "1.5", "TINYINT", marks=pytest.mark.chaos),
        pytest.param("DATETIME", "2020-01-01 10:00:00", "YEAR", marks=pytest.mark.chaos),
        pytest.param("DECIMAL(9,3)", "1.125", "JSON", marks=pytest.mark.chaos),
    ],
)
def test_between_flavors_what_converts_pauses_until_it_is_done_by_hand(
    park: ServerPark, schema: SchemaFactory, source: Flavor, other: Flavor, before: str, value: str, after: str
) -> None:
    upstream, target = park.shared(source, "upstream-1"), park.shared(other, "target")
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(
        f"CREATE TABLE {name}.t (id INT PRIMARY KEY, d {before})",
        f"INSERT INTO {name}.t VALUES (1, '{value}')",
        "SET SESSION sql_mode = ''",
        f"ALTER TABLE {name}.t CHANGE d e {after}",
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-values-differ"
    assert f"{dialect(other).title} may convert column d in another way than {dialect(source).title}" in error.message
    # The way out: the new type with the source's values; what is left of the statement converts nothing.
    ((theirs,),) = upstream.query(f"SELECT CAST(e AS CHAR) FROM {name}.t")
    target.execute(f"DELETE FROM {name}.t", f"ALTER TABLE {name}.t MODIFY d {after}")
    target.execute(f"INSERT INTO {name}.t VALUES (1, '{theirs}')")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT CAST(e AS CHAR) FROM {name}.t") == ((theirs,),)


@BETWEEN_FLAVORS
def test_between_flavors_a_default_that_is_computed_pauses_until_it_is_done_by_hand(
    park: ServerPark, schema: SchemaFactory, source: Flavor, other: Flavor
) -> None:
    """MySQL and MariaDB know other capital letters."""
    upstream, target = park.shared(source, "upstream-1"), park.shared(other, "target")
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    collation = "utf8mb4_0900_ai_ci" if source == "mysql" else "utf8mb4_uca1400_nopad_ai_ci"
    added = "ADD COLUMN u VARCHAR(9) DEFAULT (UPPER(v))"
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(
        f"USE {name}",
        f"CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9)) CHARACTER SET utf8mb4 COLLATE {collation}",
        "CREATE TABLE none LIKE t",
        f"ALTER TABLE none {added}",  # there is no row
        "INSERT INTO t VALUES (1, 'აბგ')",
        f"ALTER TABLE t {added}",
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-values-differ"
    assert (
        f"{dialect(other).title} may compute the DEFAULT of column u in another way than {dialect(source).title}"
        in error.message
    )
    ((theirs,),) = upstream.query(f"SELECT u FROM {name}.t")
    target.execute(f"ALTER TABLE {name}.t {added}", f"UPDATE {name}.t SET u = '{theirs}'")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t (id, v) VALUES (2, 'აბგ')")
        resumed.wait_synced()
    rows = f"SELECT id, v, u FROM {name}.t ORDER BY id"
    assert target.query(rows) == upstream.query(rows)


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.chaos)])
def test_a_column_whose_drop_was_left_out_is_not_taken_for_a_new_one(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, known: bool
) -> None:
    """`known`: rows came before the DROP, so that the table is tracked, and what was left out outlives a restart."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT)", f"INSERT INTO {name}.t VALUES (1, 5)")
    rule = FilterRule(schema_pattern="*", table_pattern="*", events=("drop column",), action="Ignore")
    subtask = subtask_for(upstream, target, name, task=name).model_copy(update={"filters": (rule,)})
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    if known:
        upstream.execute(f"INSERT INTO {name}.t VALUES (2, 6)")
    upstream.execute(f"ALTER TABLE {name}.t DROP COLUMN a")
    sync.wait_synced()
    if known:
        sync.stop()
        sync = RunningSync(subtask, None)
    upstream.execute(
        f"ALTER TABLE {name}.t ADD COLUMN b INT, ADD COLUMN A INT", f"INSERT INTO {name}.t VALUES (3, 4, 3)"
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert (error.name, "column A " in error.message) == ("ddl-column-kept", True)
    target.execute(f"ALTER TABLE {name}.t DROP COLUMN a")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.t DROP COLUMN b",
            f"CREATE TABLE {name}.u LIKE {name}.t",
            f"ALTER TABLE {name}.u ADD COLUMN b INT",  # a table of its own, which kept nothing
            f"INSERT INTO {name}.u VALUES (1, 2, 3)",
        )
        resumed.wait_synced()
    rows = f"SELECT id, A FROM {name}.t ORDER BY id"
    assert target.query(rows) == upstream.query(rows)
    assert target.query(f"SELECT id, A, b FROM {name}.u") == ((1, 2, 3),)
