"""DDL that changes the rows that are there: as at the source, or the task pauses."""

from __future__ import annotations

import pytest

from dm.config.route import RouteRule
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
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
            f"INSERT INTO {name}.empty VALUES (3, 1, 1)",
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
    slow.commit()  # behind the second in the binlog, before it in the table
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
