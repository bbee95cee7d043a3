"""One value of one row of any table is changed: the servers' checksums differ, and say where by the parts of the row.

Whether a value has changed the server itself says: an UPDATE counts the rows whose stored bytes are others.
"""

from __future__ import annotations

import random
from collections import Counter

import pymysql
import pytest
from pymysql.cursors import Cursor

from dm.demo.servers import ThrowawayServer
from dm.ident import Ident, TableName
from dm.mysql.dialect import FLAVORS, Flavor
from dm.mysql.equality import structure
from dm.mysql.equality.checksum import Checksum, checksum_query
from dm.mysql.equality.values import Side, parts, row_text
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.random_table import Table, draw_table

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

CHANGES = 8  # tried of each table
MODES = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"


def made(cursor: Cursor, schema: str, flavor: Flavor, chance: random.Random) -> Table:
    """A table that the server takes, with some rows."""
    while True:
        table = draw_table("t", flavor, chance)
        try:
            cursor.execute(table.create(schema))
        except pymysql.err.Error:
            continue
        names = ", ".join(Ident(column.name).sql for column in table.writable)
        for _ in range(6):
            values = ", ".join(chance.choice(column.values) for column in table.writable)
            try:
                cursor.execute(f"INSERT IGNORE INTO {Ident(schema).sql}.t ({names}) VALUES ({values})")
            except pymysql.err.Error:
                continue  # too long for a key or a generated column
        return table


def checksum(server: ThrowawayServer, cursor: Cursor, name: TableName, *, json_types: bool) -> Checksum | None:
    """Of all rows, by the server; the structure is read anew, as a comparison does."""
    with server.connect() as session:
        found = structure.read(session, server.flavor, name, lambda other: other)
    row = [
        part
        for column in found.columns
        for part in parts([Side(column, name, server.flavor)], json_types=json_types)[0]
    ]
    text = row_text(row)
    assert text is not None
    cursor.execute(checksum_query(text, name.sql))
    return Checksum.answered(cursor.fetchall()[0])


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("tables", [10, pytest.param(40, marks=pytest.mark.chaos)])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_every_change_of_a_value_counts(flavor: Flavor, park: ServerPark, schema: SchemaFactory, tables: int) -> None:
    server = park.shared(flavor, "upstream-1")
    chance, counted = random.Random(2323), Counter[str]()
    name = TableName(schema(server), "t")
    types = flavor == "mysql"
    with server.connect(autocommit=True) as session, session.cursor() as cursor:
        cursor.execute(MODES)
        for _ in range(tables):
            table = made(cursor, name.schema, flavor, chance)
            before = checksum(server, cursor, name, json_types=types)
            for _ in range(CHANGES):
                column = chance.choice(table.writable)
                value = chance.choice(column.values)
                statement = f"UPDATE IGNORE {name.sql} SET {Ident(column.name).sql} = {value} LIMIT 1"
                try:
                    changed = cursor.execute(statement)
                except pymysql.err.Error:
                    continue
                after = checksum(server, cursor, name, json_types=types)
                where = f"{table.create(name.schema)}; {statement}"
                if changed:
                    zero = flavor == "mariadb" and column.type.startswith(("FLOAT", "DOUBLE"))
                    assert after != before or zero, where  # MariaDB prints no sign of a zero, so it does not count
                else:
                    assert after == before, where
                counted[str(bool(changed))] += 1
                before = after
            cursor.execute(f"DROP TABLE {name.sql}")
    assert counted["True"] > tables
    assert counted["False"] > 0
