"""Literals of expressions are read with the bytes that they have, and the sessions that read them stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import shown_create
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.equality import structure
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import question_session, read_structure, row_session
from tests.spark.full_load import endpoint
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live

STATE = "SELECT @@SESSION.character_set_results"


@pytest.fixture
def tables(upstream: ThrowawayServer, flavor: Flavor, schema: SchemaFactory) -> list[TableName]:
    """Three tables that differ by one character of an expression; the last one's is what the others are shown as."""
    name = schema(upstream)
    key = ", KEY k ((CONCAT(o, '@')))" if flavor == "mysql" else ""
    made = f"(id INT PRIMARY KEY, o VARCHAR(9), v VARCHAR(9) AS (CONCAT(o, '@')){key}) CHARSET latin1"
    for number, character in enumerate("éè?"):
        upstream.execute("SET NAMES utf8mb4", f"CREATE TABLE {name}.t{number} {made.replace('@', character)}")
    return [TableName(name, f"t{number}") for number in range(3)]


@pytest.mark.parametrize("session", [question_session, row_session])
def test_a_source_s_structure_has_them(
    upstream: ThrowawayServer, tables: list[TableName], session: Callable[..., Connection]
) -> None:
    with closing(session(endpoint(upstream))) as connection:
        before = fetch(connection, STATE)
        texts = [read_structure(connection, table).partition("(")[2] for table in tables * 2]
        assert fetch(connection, STATE) == before
        assert str(fetch(connection, f"SHOW CREATE TABLE {tables[0].sql}")[0][0]).strip("b'") == tables[0].table
    assert len(set(texts)) == 3
    assert texts[:3] == texts[3:]


def test_a_target_s_structure_has_them(upstream: ThrowawayServer, tables: list[TableName]) -> None:
    with closing(TargetConnection(endpoint(upstream))) as connection:
        before = connection.query(STATE)
        texts = [shown_create(connection, table).partition("(")[2] for table in tables * 2]
        assert connection.query(STATE) == before
        assert connection.query(f"SHOW CREATE TABLE {tables[0].sql}")[0][0] == tables[0].table
    assert len(set(texts)) == 3
    assert texts[:3] == texts[3:]


def test_a_comparison_tells_them_apart(upstream: ThrowawayServer, flavor: Flavor, tables: list[TableName]) -> None:
    with closing(question_session(endpoint(upstream))) as connection:
        before = fetch(connection, STATE)
        found = [structure.read(connection, flavor, table, lambda parent: parent) for table in tables]
        assert fetch(connection, STATE) == before
    assert len({tuple(column.generated for column in each.columns) for each in found}) == 3
    if flavor == "mysql":
        assert len({each.indexes for each in found}) == 3
