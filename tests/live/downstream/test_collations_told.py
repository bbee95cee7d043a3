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


@pytest.mark.ci_flavor("mariadb")
def test_a_structure_has_the_collations_that_the_server_names(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    collations = _collations(target)
    charsets = sorted({charset for charset, _ in collations})
    firsts = dict(reversed(collations))
    tables: list[TableName] = []

    def table(own: str, options: str) -> str:
        named = [collation for charset, collation in collations if charset == own]
        definitions = [f"c{n} {_KINDS[n % len(_KINDS)]} COLLATE {one}" for n, one in enumerate(named)]
        # Of the two tables of a character set, each has every second one.
        others = list(enumerate(charsets))[len(tables) % 2 :: 2]
        definitions += [f"s{n} VARCHAR(5) CHARACTER SET {charset}" for n, charset in others]
        definitions += ["plain VARCHAR(5)", "also TEXT", "doc JSON", "raw VARBINARY(4)", "bits BINARY(3)"]
        tables.append(TableName(name, f"t{len(tables)}"))
        return f"CREATE TABLE {tables[-1].sql} ({', '.join(definitions)}) {options}"

    for charset in charsets:
        options = f"DEFAULT CHARSET {charset}"
        target.execute(table(charset, options), table(charset, f"{options} COLLATE {firsts[charset]}"))
    schemas = TargetSchemas(lambda: TargetConnection(endpoint_of(target)))
    with closing(schemas), TargetConnection(endpoint_of(target)) as connection:
        for each in tables:
            found = schemas.read(each)
            assert found is not None
            assert found.columns == with_collations(connection, found), each


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
