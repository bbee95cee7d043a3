"""The tracked structure against the table maps that the servers write."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.ident import TableName
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import EventParser, TableMap, TableMapEvent
from dm.mysql.binlog.table_map import mismatch
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import wire_columns
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.split import split
from tests.live.schema.corpus import scripts
from tests.live.schema.session import Session, session
from tests.testbed.fixtures import SchemaFactory, ServerFactory

pytestmark = pytest.mark.live

_LONG_UNIQUES = (
    "CREATE TABLE h1 (a INT, UNIQUE (a) USING HASH)",
    "CREATE TABLE h2 (a INT, b VARCHAR(3000), UNIQUE (b))",
    "CREATE TABLE h3 (a INT, b VARCHAR(760), UNIQUE (b), UNIQUE (b(20)))",
    "CREATE TABLE h4 (a INT, b TEXT, c BLOB, UNIQUE (b(10)), UNIQUE (b, c), UNIQUE (c))",
    "CREATE TABLE h5 (a INT, b VARCHAR(800), c INT, UNIQUE (b(700), c), UNIQUE (b))",
    "CREATE TABLE h6 (a INT, g GEOMETRY, p POINT, UNIQUE (g), UNIQUE (p))",
    "CREATE TABLE h7 (a INT, l LINESTRING, c GEOMETRYCOLLECTION, UNIQUE (l), UNIQUE (c, a), UNIQUE (c(20)))",
)


def _binlog(server: Session) -> Path:
    status = "SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS"
    file = str(server.rows(status)[0][0])
    return Path(str(server.rows("SELECT @@log_bin_basename")[0][0])).parent / file


def _table_maps(path: Path) -> dict[TableName, TableMap]:
    content = path.read_bytes()
    parser = EventParser()
    found = {}
    for offset, header in frames(content, 4, len(content)):
        event = parser.parse(RawEvent(header, content[offset : offset + header.size]))
        if isinstance(event, TableMapEvent):
            found[TableName(event.table_map.schema, event.table_map.table)] = event.table_map
    return found


def _write_rows(server: Session, schema: str, tables: list[TableName]) -> None:
    server.run(schema, "SET sql_mode = '', foreign_key_checks = 0")
    if server.flavor == "mariadb":
        server.run(schema, "SET check_constraint_checks = 0")
    for table in tables:
        server.run(schema, f"INSERT IGNORE INTO {table.sql} () VALUES ()")


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
def test_tracked_columns_are_those_of_the_table_map(
    server: ServerFactory, flavor: Flavor, schema: SchemaFactory, metadata: str
) -> None:
    own = server(flavor, binlog_row_metadata=metadata)
    name = schema(own)
    with session(own) as source:
        tracker = SchemaTracker(source.flavor)
        creates = [
            statement
            for script in scripts(source.flavor)
            for statement in script
            if statement.startswith("CREATE TABLE")
            and " SELECT " not in statement
            and "POINT NOT NULL" not in statement
        ]
        # FULL metadata names the hidden columns, and no structure does.
        uniques = _LONG_UNIQUES if flavor == "mariadb" and metadata == "MINIMAL" else ()
        source.run(name, "SET foreign_key_checks = 0")
        for statement in [*creates, *uniques]:
            (piece,) = split(statement, source.context(name))
            if " LIKE " in statement or tracker.get(piece.table) is not None:
                continue
            source.run(name, statement)
            tracker.apply(piece)
        _write_rows(source, name, [TableName(name, table) for table in source.names(name)])
        maps = _table_maps(_binlog(source))
        assert len(maps) > 15
        for table, table_map in maps.items():
            structure = tracker.get(table)
            assert structure is not None
            assert mismatch(table_map, wire_columns(structure, source.flavor)) is None, (table, structure)
