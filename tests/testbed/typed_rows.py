"""A random table with some rows of edge cases, as one server takes it."""

from __future__ import annotations

import random

import pymysql
from pymysql.cursors import Cursor

from dm.flavor import Flavor
from dm.ident import Ident
from tests.testbed.random_table import Table, draw_table

ROWS = 8


def filled_table(cursor: Cursor, schema: str, name: str, flavor: Flavor, chance: random.Random) -> Table:
    """Draw until the server takes one; what it refuses of the rows is left out."""
    while True:
        table = draw_table(name, flavor, chance)
        try:
            cursor.execute(table.create(schema))
        except pymysql.err.Error:
            continue
        names = ", ".join(Ident(column.name).sql for column in table.writable)
        for _ in range(ROWS):
            values = ", ".join(chance.choice(column.values) for column in table.writable)
            try:
                cursor.execute(f"INSERT IGNORE INTO {Ident(schema).sql}.{Ident(name).sql} ({names}) VALUES ({values})")
            except pymysql.err.Error:
                continue
        return table
