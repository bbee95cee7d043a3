"""A random table with some rows of edge cases, as one server takes it, and changes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pymysql
from pymysql.cursors import Cursor

from dm.demo.private_server import PrivateServer
from dm.ident import Ident
from tests.testbed.random_table import Table

ROWS = 8
MODES = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'"


@contextmanager
def session(server: PrivateServer) -> Iterator[Cursor]:
    """One that takes each edge case."""
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(MODES)
        yield cursor


def filled_table(cursor: Cursor, schema: str, draw: Callable[[], Table], chance: random.Random) -> Table:
    """Draw until the server takes one; what it refuses of the rows is left out."""
    while True:
        table = draw()
        try:
            cursor.execute(table.create(schema))
        except pymysql.err.Error:
            continue
        names = ", ".join(Ident(column.name).sql for column in table.writable)
        into = f"{Ident(schema).sql}.{Ident(table.name).sql}"
        for _ in range(ROWS):
            values = ", ".join(chance.choice(column.values) for column in table.writable)
            try:
                cursor.execute(f"INSERT IGNORE INTO {into} ({names}) VALUES ({values})")
            except pymysql.err.Error:
                continue
        return table


def change_a_value(cursor: Cursor, schema: str, table: Table, chance: random.Random) -> str:
    """Change one value of one row; the statement, or nothing where no drawn one has changed anything."""
    for _ in range(20):
        column = chance.choice(table.writable)
        value = chance.choice(column.values)
        statement = f"UPDATE IGNORE {schema}.{table.name} SET {Ident(column.name).sql} = {value} LIMIT 1"
        try:
            if cursor.execute(statement):
                return statement
        except pymysql.err.Error:
            continue
    return ""
