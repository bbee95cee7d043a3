"""A document that MySQL takes for equal to the one that is there arrives all the same, with its types of numbers."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize("form", ["auto", "sql"])
def test_types_of_numbers_arrive_where_nothing_else_changes(
    mysql: ThrowawayServer, server: ServerFactory, schema: SchemaFactory, form: str
) -> None:
    target = server("mysql")
    name = schema(mysql, target)
    table = f"CREATE TABLE {name}.t (id INT PRIMARY KEY, j JSON, u INT UNIQUE)"
    for each in (mysql, target):
        each.execute(table)
    subtask = subtask_for(mysql, target, name, task=name, row_format=form)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        mysql.execute(
            *(f"INSERT INTO {name}.t VALUES ({number}, '{{\"n\": [11, 2]}}', {number})" for number in range(4))
        )
        sync.wait_synced()
        # An UPDATE would leave the row alone here, too; a REPLACE writes it.
        mysql.execute(
            f"REPLACE INTO {name}.t VALUES (1, '{{\"n\": [11.0, 2]}}', 1)",
            f"REPLACE INTO {name}.t VALUES (2, JSON_OBJECT('n', JSON_ARRAY(CAST(11 AS DECIMAL(9, 2)), 2)), 2)",
            f"REPLACE INTO {name}.t VALUES (3, JSON_OBJECT('n', JSON_ARRAY(CAST(11 AS UNSIGNED), 2)), 3)",
        )
        sync.wait_synced()
    types = f"SELECT id, CAST(j AS CHAR), JSON_TYPE(JSON_EXTRACT(j, '$.n[0]')), u FROM {name}.t ORDER BY id"
    found = mysql.query(types)
    assert [row[2] for row in found] == ["INTEGER", "DOUBLE", "DECIMAL", "UNSIGNED INTEGER"]
    assert target.query(types) == found


def test_a_mariadbs_texts_arrive_as_mysql_reads_them_without_a_key_too(
    server: ServerFactory, schema: SchemaFactory
) -> None:
    source, target = server("mariadb"), server("mysql")
    name = schema(source, target)
    for each in (source, target):
        each.execute(f"CREATE TABLE {name}.t (id INT, j JSON)", f"CREATE TABLE {name}.k (id INT PRIMARY KEY, j JSON)")
    subtask = subtask_for(source, target, name, task=name, narrower_columns="accept")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for table in ("t", "k"):
            source.execute(*(f"INSERT INTO {name}.{table} VALUES ({number}, '[11, 2]')" for number in range(2)))
        sync.wait_synced()
        for table in ("t", "k"):
            source.execute(f"UPDATE {name}.{table} SET j = '[11.0, 2]' WHERE id = 1")
        sync.wait_synced()
    for table in ("t", "k"):
        types = f"SELECT id, JSON_TYPE(JSON_EXTRACT(j, '$[0]')) FROM {name}.{table} ORDER BY id"
        assert target.query(types) == ((0, "INTEGER"), (1, "DOUBLE")), table
