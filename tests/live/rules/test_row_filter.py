"""Expression filters in a running syncer: rows are skipped as the source's own WHERE would find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from dm.config.expression import ExpressionFilter
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live

STRUCTURE = (
    "CREATE TABLE {}.t (id INT PRIMARY KEY, name VARCHAR(30) COLLATE utf8mb4_unicode_ci, at TIMESTAMP NULL,"
    " kind ENUM('b','Ä') COLLATE utf8mb4_general_ci, total DECIMAL(9,2)) CHARACTER SET utf8mb4"
)
ROWS = (
    "(1, 'Straße', '2024-06-30 22:00:00', 'Ä', 1.10)",
    "(2, 'strasse', '2024-06-30 21:59:59', 'b', 1.1)",
    "(3, 'Ωmega', NULL, NULL, -0.01)",
    "(4, 'ωMEGA ', '2024-07-01 00:00:00', 'b', 0)",
    "(5, NULL, '2030-01-01 00:00:00', 'Ä', NULL)",
    "(6, '名前', '1999-01-01 00:00:00', 'b', 9999999.99)",
)
FILTERS = (
    "name = 'STRASSE' AND total <> 7",
    "name LIKE 'ω%' AND at IS NOT NULL",
    "at >= '2024-07-01 00:00:00' AND kind = 'Ä' AND NOT total <=> NULL",
    "total BETWEEN 1000000 AND 1e7 OR name > '名前'",
)


@pytest.mark.ci_flavor("mysql")
def test_rows_are_skipped_that_the_servers_where_finds(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(STRUCTURE.format(name))
    filters = tuple(
        ExpressionFilter(name=f"f{number}", schema_name=name, table="t", insert_value_expr=text)
        for number, text in enumerate(FILTERS)
    )
    subtask = subtask_for(upstream, target, name, task=name)
    filtered = subtask.model_copy(update={"expression_filters": filters, "timezone": "Europe/Berlin"})
    with running_sync(filtered) as sync:
        sync.wait_synced()
        upstream.execute("SET time_zone = '+00:00'", *(f"INSERT INTO {name}.t VALUES {row}" for row in ROWS))
        sync.wait_synced()
    connection = upstream.connect(charset="utf8mb4")
    with connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+02:00'")  # what Berlin has in July
        kept = " AND ".join(f"({text}) IS NOT TRUE" for text in FILTERS)
        cursor.execute(f"SELECT id FROM {name}.t WHERE {kept} ORDER BY id")
        expected = cursor.fetchall()
    assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == expected
    assert 0 < len(expected) < len(ROWS)


EVERYTHING = (
    "CREATE TABLE {}.{} (id INT {}, name VARCHAR(30) COLLATE utf8mb4_general_ci, kind ENUM('b','Ä') COLLATE"
    " utf8mb4_bin, bits BIT(9), total DECIMAL(9,2), at TIMESTAMP(3) NULL, day DATE, doc JSON) CHARACTER SET utf8mb4"
)
MANY = (
    "(1, 'Straße', 'Ä', 5, 1.10, '2024-06-30 22:00:00.5', '2024-06-30', '{\"a\": 1}')",
    "(2, 'STRASSE', 'b', 4, 2.20, '2024-06-30 21:59:59', '2024-07-01', '{\"a\": {\"b\": [1]}}')",
    "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(4, 'straße', 'Ä', 511, -0.01, '1999-01-01 00:00:00', '2000-02-29', '{\"a\": \"x\"}')",
    "(5, 'ä', 'b', 0, 9999999.99, '2030-01-01 00:00:00', '2030-01-01', '[]')",
    "(6, '', 'b', 1, 0, '2024-01-01 00:00:00', '2024-01-01', 'null')",
)
ASKED = (
    "CHAR_LENGTH(name) = 7 AND kind + 0 = 1",
    "bits & b'101' = 5 AND HOUR(at) = 0",
    "JSON_EXTRACT(doc, '$.a.b[0]') = 1 OR ROUND(total / 3) = 3333333",
)


def asking(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    name: str,
    rules: Sequence[tuple[str, str, str]],
    memory_quota: int = 128 << 20,
) -> SubtaskConfig:
    """A subtask with filters: table, key and expression of each."""
    filters = tuple(
        ExpressionFilter.model_validate({"name": f"f{number}", "schema_name": name, "table": table, key: text})
        for number, (table, key, text) in enumerate(rules)
    )
    subtask = subtask_for(upstream, target, name, task=name, memory_quota=memory_quota)
    return subtask.model_copy(update={"expression_filters": filters, "timezone": "+02:00"})


@contextmanager
def following(subtask: SubtaskConfig) -> Iterator[RunningSync]:
    with running_sync(subtask) as sync:
        sync.wait_synced()
        yield sync


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("key", ["PRIMARY KEY", ""], ids=["keyed", "keyless"])
def test_rows_are_skipped_that_the_target_finds(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, key: str
) -> None:
    """Many statements in one transaction, one statement of many rows, each kind of change, two tables in turn."""
    name = schema(upstream, target)
    tables = ("t", "u")
    for server in (upstream, target):
        server.execute(*(EVERYTHING.format(name, table, key) for table in tables))
    rules = [(table, "insert_value_expr", text) for table in tables for text in ASKED]
    rules += [("t", "delete_value_expr", "LENGTH(name) = 7"), ("t", "delete_value_expr", "id > 20")]
    connection = upstream.connect(charset="utf8mb4", autocommit=False)
    with following(asking(upstream, target, name, rules)) as sync, connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("SET timestamp = 1718445600")
        for row in MANY:
            for table in tables:
                cursor.execute(f"INSERT INTO {name}.{table} VALUES {row}")
        for more in (10, 20):
            others = f"SELECT id + {more}, name, kind, bits, total, at, day, doc FROM {name}.t WHERE id < 10"
            cursor.execute(f"INSERT INTO {name}.t {others}")
        connection.commit()
        sync.wait_synced()
        parts = sync.parts
        assert parts is not None
        if key:  # each filter is asked for all 14 statements at once
            assert parts.filters.questions == len(tables) * len(ASKED)
        cursor.execute("SET time_zone = '+02:00'")
        kept = " AND ".join(f"({text}) IS NOT TRUE" for text in ASKED)
        for table in tables:
            cursor.execute(f"SELECT id FROM {name}.{table} WHERE {kept} ORDER BY id")
            expected = cursor.fetchall()
            assert target.query(f"SELECT id FROM {name}.{table} ORDER BY id") == expected
        assert [row for (row,) in expected] == [3, 4, 6]
        cursor.execute(f"DELETE FROM {name}.t WHERE id IN (4, 16, 23)")
        connection.commit()
        sync.wait_synced()
    # 4 has seven bytes, 23 is above 20: their deletion was left out.
    assert [row for (row,) in target.query(f"SELECT id FROM {name}.t ORDER BY id")] == [
        3, 4, 6, 13, 14, 23, 24, 26,
    ]  # fmt: skip


def test_an_update_is_left_out_where_both_expressions_hold(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a VARCHAR(9))")
    subtask = asking(upstream, target, name, [])
    rule = ExpressionFilter(
        name="f",
        schema_name=name,
        table="t",
        update_old_value_expr="LENGTH(a) = 1",
        update_new_value_expr="a REGEXP '^x'",
    )
    with following(subtask.model_copy(update={"expression_filters": (rule,)})) as sync:
        upstream.execute(
            f"INSERT INTO {name}.t VALUES (1, 'a'), (2, 'ab'), (3, 'b')",
            f"UPDATE {name}.t SET a = IF(id = 3, 'y', CONCAT('x', a))",
        )
        sync.wait_synced()
    assert target.query(f"SELECT id, a FROM {name}.t ORDER BY id") == ((1, "a"), (2, "xab"), (3, "y"))


@contextmanager
def compressing(upstream: ThrowawayServer) -> Iterator[None]:
    """The source compresses all it logs."""
    on = {
        "mysql": ("binlog_transaction_compression = ON",),
        "mariadb": ("log_bin_compress = ON", "log_bin_compress_min_len = 10"),
    }[upstream.flavor]
    upstream.execute(*(f"SET GLOBAL {setting}" for setting in on))
    try:
        yield
    finally:
        upstream.execute(*(f"SET GLOBAL {setting.partition(' ')[0]} = DEFAULT" for setting in on))


@pytest.mark.parametrize("how", [nullcontext, compressing], ids=["plain", "compressed"])
def test_now_is_the_time_of_the_statement_at_the_source(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    how: Callable[[ThrowawayServer], AbstractContextManager[object]],
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, at DATETIME)")
    rules = [("t", "insert_value_expr", "at < NOW() - INTERVAL 1 DAY"), ("t", "insert_value_expr", "HOUR(NOW()) = 13")]
    with how(upstream), following(asking(upstream, target, name, rules)) as sync:
        upstream.execute(
            "BEGIN",
            "SET timestamp = 1718445600",  # 12:00 in the task's time zone
            f"INSERT INTO {name}.t VALUES (1, '2024-06-14 11:59:59'), (2, '2024-06-14 12:00:00')",
            "SET timestamp = 1718449200",
            f"INSERT INTO {name}.t VALUES (3, '2030-01-01 00:00:00')",
            "SET timestamp = 1718452800",
            f"INSERT INTO {name}.t VALUES (4, '2024-06-14 13:59:59'), (5, '2024-06-14 14:00:00')",
            "COMMIT",
        )
        sync.wait_synced()
    assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((2,), (5,))


def test_an_expression_that_fails_for_a_row_pauses_and_loses_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, big BIGINT)")
    rules = [("t", "insert_value_expr", "ABS(big) + 1 = 3")]
    subtask = asking(upstream, target, name, rules)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(
        f"INSERT INTO {name}.t VALUES (1, 1), (2, 2)", f"INSERT INTO {name}.t VALUES (3, 3), (4, 9223372036854775807)"
    )
    error = sync.wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "expression-failed"
    assert error.position is not None
    assert "ABS(big) + 1 = 3" in error.message
    assert "f0" in error.message
    assert target.query(f"SELECT id FROM {name}.t") == ((1,),)
    with following(subtask.model_copy(update={"expression_filters": ()})):
        assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((1,), (3,), (4,))


@pytest.mark.ci_flavor("mysql")
def test_a_column_that_a_filter_names_does_not_become_another_one_in_silence(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """Rows would be left out by what was `b`; the way out is a filter of the column's new name."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT, b INT)")
    subtask = asking(upstream, target, name, [("t", "insert_value_expr", "a = 1")])
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(
        f"INSERT INTO {name}.t VALUES (1, 1, 0), (2, 2, 0)",
        f"ALTER TABLE {name}.t RENAME COLUMN a TO c",
        f"ALTER TABLE {name}.t RENAME COLUMN b TO a",
        f"INSERT INTO {name}.t (id, c, a) VALUES (3, 1, 2), (4, 2, 1)",
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == ("filter-column-gone", False)
    assert all(part in error.message for part in ("f0", "`a`", f"{name}.t", "RENAME COLUMN a TO c")), error.message
    with following(asking(upstream, target, name, [("t", "insert_value_expr", "c = 1")])):
        assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((2,), (4,))


@pytest.mark.ci_flavor("mariadb")
def test_a_large_transaction_is_judged_while_it_is_applied(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """In order and spooled: rows of a table without a key, more than fit into the memory it may take."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT, at DATETIME, filling VARCHAR(1000))")
    rules = [("t", "insert_value_expr", "MOD(id, 3) = 1 AND at = NOW()")]
    deeper = {"mysql": "cte_max_recursion_depth", "mariadb": "max_recursive_iterations"}[upstream.flavor]
    with following(asking(upstream, target, name, rules, memory_quota=8 << 20)) as sync:
        upstream.execute(
            f"SET SESSION {deeper} = 100000",
            "SET timestamp = 1718445600",
            "SET time_zone = '+02:00'",
            f"INSERT INTO {name}.t WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 10000)"
            " SELECT id, IF(id < 5000, NOW(), NOW() + INTERVAL 1 SECOND), REPEAT('x', 900) FROM n",
        )
        sync.wait_synced(150)
    expected = upstream.query(f"SELECT COUNT(*), SUM(id) FROM {name}.t WHERE NOT (MOD(id, 3) = 1 AND id < 5000)")
    assert target.query(f"SELECT COUNT(*), SUM(id) FROM {name}.t") == expected


def test_the_session_that_is_asked_may_be_lost(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    with following(asking(upstream, target, name, [("t", "insert_value_expr", "SQRT(id) = 2")])) as sync:
        for number in range(1, 6):
            upstream.execute(f"INSERT INTO {name}.t VALUES ({number})")
            sync.wait_synced()
            parts = sync.parts
            assert parts is not None
            session = parts.filters._connection
            assert session is not None
            target.execute(f"KILL {session.connection_id}")
    assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((1,), (2,), (3,), (5,))
