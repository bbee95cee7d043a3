"""Expression filters in a running syncer: rows are skipped as the source's own WHERE would find them."""

from __future__ import annotations

import pytest

from dm.config.expression import ExpressionFilter
from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

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
