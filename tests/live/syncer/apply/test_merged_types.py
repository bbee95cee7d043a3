"""Tables of different types that routes merge into one: rows that take each other's place keep their order."""

from __future__ import annotations

import pytest

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

ROUNDS = 50
LABELS = ",".join(f"'{number}'" for number in range(ROUNDS))
# The column at both sources and at the target, and the value of a round at both sources.
TYPES = {
    "lengths": ("VARCHAR(100)", "VARCHAR(20)", "VARCHAR(50)", "'u{n}'", "'u{n}'"),
    "charsets": ("VARCHAR(20) CHARACTER SET sjis", "VARCHAR(20)", "VARCHAR(20)", "'u{n}'", "'u{n}'"),
    "moments": ("DATETIME(6)", "DATETIME", "DATETIME", *["'2024-01-01' + INTERVAL {n} DAY"] * 2),
    "days": ("DATE", "DATETIME", "DATETIME", *["'2024-01-01' + INTERVAL {n} DAY"] * 2),
    "numbers": ("INT", "VARCHAR(10)", "VARCHAR(10)", "{n}", "'{n}'"),
    "labels": (f"ENUM({LABELS})", "VARCHAR(10)", "VARCHAR(10)", "'{n}'", "'{n}'"),
    "bytes": ("BINARY(4)", "VARBINARY(8)", "VARBINARY(8)", *["CAST(CONCAT('{n:03}', CHAR(0)) AS BINARY)"] * 2),
    "singles": ("FLOAT(7,2)", "DOUBLE(7,2)", "DOUBLE(7,2)", "{n}.1", "{n}.1"),
}
COLUMNS = "id INT PRIMARY KEY, u {u}, v INT, UNIQUE KEY by_u (u)"


def route(schema: str, table: str) -> RouteRule:
    """Of `table1` and `table2` into `table`."""
    return RouteRule(
        name=table, schema_pattern=schema, table_pattern=f"{table}?", target_schema=schema, target_table=table
    )


@pytest.mark.parametrize("safe", [False, True])
def test_a_value_that_goes_from_one_table_to_the_other_stays(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, safe: bool
) -> None:
    name = schema(upstream, target)
    for table, (first, second, merged, _, _) in TYPES.items():
        for server, suffix, of in ((upstream, "1", first), (upstream, "2", second), (target, "", merged)):
            server.execute(f"CREATE TABLE {name}.{table}{suffix} ({COLUMNS.format(u=of)})")
    routes = tuple(route(name, table) for table in TYPES)
    with running_sync(
        subtask_for(upstream, target, name, task=name, routes=routes, safe_mode=safe, narrower_columns="accept")
    ) as sync:
        sync.wait_synced()
        upstream.execute(
            *(
                statement
                for table, (_, _, _, value, other_value) in TYPES.items()
                for number in range(ROUNDS)
                for statement in (
                    f"INSERT INTO {name}.{table}1 VALUES ({2 * number}, {value.format(n=number)}, 1)",
                    f"DELETE FROM {name}.{table}1 WHERE id = {2 * number}",
                    f"INSERT INTO {name}.{table}2 VALUES ({2 * number + 1}, {other_value.format(n=number)}, 2)",
                )
            )
        )
        sync.wait_synced()
    for table in TYPES:
        query = f"SELECT id, u, v FROM {name}.{table}{{number}} ORDER BY id"
        assert target.query(query.format(number="")) == upstream.query(query.format(number=2)), table


@pytest.mark.ci_sample(2)
@pytest.mark.parametrize("safe", [False, True])
def test_a_row_that_goes_between_a_table_with_a_key_and_one_without_stays(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, safe: bool
) -> None:
    name = schema(upstream, target)
    # The one whose rows the target finds by its key comes first, or second.
    tables = {"keyed_first": ("INT", "VARCHAR(20)", "INT"), "keyed_second": ("INT", "VARCHAR(20)", "VARCHAR(20)")}
    for table, (first, second, merged) in tables.items():
        for server, suffix, of in ((upstream, "1", first), (upstream, "2", second), (target, "", merged)):
            server.execute(f"CREATE TABLE {name}.{table}{suffix} (k {of} PRIMARY KEY, v INT)")
    routes = tuple(route(name, table) for table in tables)
    with running_sync(
        subtask_for(upstream, target, name, task=name, routes=routes, safe_mode=safe, narrower_columns="accept")
    ) as sync:
        sync.wait_synced()
        upstream.execute(
            *(
                statement
                for table in tables
                for number in range(ROUNDS)
                for statement in (
                    f"INSERT INTO {name}.{table}1 VALUES ('{number}', 1)",
                    f"DELETE FROM {name}.{table}1 WHERE k = '{number}'",
                    f"INSERT INTO {name}.{table}2 VALUES ('{number}', 2)",
                )
            )
        )
        sync.wait_synced()
    for table in tables:
        query = f"SELECT CAST(k AS SIGNED), v FROM {name}.{table}{{number}} ORDER BY 1"
        assert target.query(query.format(number="")) == upstream.query(query.format(number=2)), table


@pytest.mark.parametrize("rows", [10, pytest.param(20_000, marks=pytest.mark.chaos)])
def test_one_transaction_of_both_is_applied_once_and_in_order(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, rows: int
) -> None:
    name = schema(upstream, target)
    for server, table, key in ((upstream, "t1", "INT"), (upstream, "t2", "VARCHAR(20)"), (target, "t", "INT")):
        server.execute(f"CREATE TABLE {name}.{table} (k {key} PRIMARY KEY, v INT)")
    numbers = "(1)" + "".join(f", ({number})" for number in range(2, rows + 1))
    upstream.execute(f"CREATE TABLE {name}.numbers (n INT PRIMARY KEY)", f"INSERT INTO {name}.numbers VALUES {numbers}")
    subtask = subtask_for(upstream, target, name, task=name, routes=(route(name, "t"),), narrower_columns="accept")
    session = upstream.connect(database=name, autocommit=False)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with session, session.cursor() as cursor:
            # The first rows of `t1` are placed before those of `t2` show that all must be kept in order.
            cursor.execute("INSERT INTO t1 SELECT n, 1 FROM numbers")
            cursor.execute("DELETE FROM t1 WHERE k % 2")
            cursor.execute("INSERT INTO t2 SELECT n, 2 FROM numbers WHERE n % 2")
            cursor.execute("UPDATE t1 SET v = v + 10")
            cursor.execute("DELETE FROM t2")
            cursor.execute("INSERT INTO t1 SELECT n, 3 FROM numbers WHERE n % 2")
            session.commit()
        sync.wait_synced()
    query = f"SELECT k, v FROM {name}.{{t}} ORDER BY k"
    assert target.query(query.format(t="t")) == upstream.query(query.format(t="t1"))
