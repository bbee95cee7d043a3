"""SHOW CREATE TABLE tells each column's collation as information_schema does, whatever the table's own one is."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas, with_collations
from dm.ident import TableName
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = pytest.mark.live

_KINDS = ("VARCHAR(9)", "TEXT", "ENUM('a', 'b')", "CHAR(3)")


def test_a_structure_has_the_collations_that_the_server_names(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    collations = _collations(target)
    charsets = sorted({charset for charset, _ in collations})
    firsts = dict(reversed(collations))
    tables: list[TableName] = []

    def create(own: str, options: str) -> None:
        named = [collation for charset, collation in collations if charset == own]
        definitions = [f"c{n} {_KINDS[n % len(_KINDS)]} COLLATE {one}" for n, one in enumerate(named)]
        definitions += [f"s{n} VARCHAR(5) CHARACTER SET {charset}" for n, charset in enumerate(charsets)]
        definitions += ["plain VARCHAR(5)", "also TEXT", "doc JSON", "raw VARBINARY(4)", "bits BINARY(3)"]
        table = TableName(name, f"t{len(tables)}")
        target.execute(f"CREATE TABLE {table.sql} ({', '.join(definitions)}) {options}")
        tables.append(table)

    for charset in charsets:
        create(charset, f"DEFAULT CHARSET {charset}")
        create(charset, f"DEFAULT CHARSET {charset} COLLATE {firsts[charset]}")
    schemas = TargetSchemas(lambda: TargetConnection(endpoint_of(target)))
    with closing(schemas), TargetConnection(endpoint_of(target)) as connection:
        for table in tables:
            found = schemas.read(table)
            assert found is not None
            assert found.columns == with_collations(connection, found), table


def _collations(target: ThrowawayServer) -> list[tuple[str, str]]:
    """Character sets and collations that the server has, each by its full name."""
    if target.flavor == "mariadb":
        return [
            (str(charset), str(collation))
            for charset, collation in target.query(
                "SELECT character_set_name, full_collation_name"
                " FROM information_schema.collation_character_set_applicability ORDER BY 1, 2"
            )
        ]
    rows = target.query("SELECT character_set_name, collation_name FROM information_schema.collations ORDER BY 1, 2")
    return [(str(charset), str(collation)) for charset, collation in rows]
