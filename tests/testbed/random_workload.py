"""Random transactions and DDL of one session; a seed plays the same statements each time, whoever else is at work.

Everything executed is written down as it was sent, with what the server refused as comments.
"""

from __future__ import annotations

import random
from typing import Any, TextIO

import pymysql
from pymysql.cursors import Cursor

from dm.ident import Ident
from dm.mysql.dialect import Flavor
from tests.testbed.random_ddl import RandomDdl
from tests.testbed.random_rows import RandomRows
from tests.testbed.random_table import NATIVE, Column, Dialect, Table, draw_table

_MODES = ("", "", "", "STRICT_TRANS_TABLES", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "NO_ZERO_DATE,PIPES_AS_CONCAT")
_ZONES = ("+00:00", "+00:00", "+09:30", "-08:00")
_LOST = (2006, 2013, 2014, 2055)


class RandomWorkload:
    """What one session does to the tables of one schema."""

    def __init__(
        self,
        cursor: Cursor,
        schema: str,
        flavor: Flavor,
        chance: random.Random,
        log: TextIO,
        dialect: Dialect | None = None,
    ) -> None:
        self.transactions = self.ddl = self.statements = self.refused = 0
        self._cursor = cursor
        self._schema = schema
        self._flavor = flavor
        self._chance = chance
        self._log = log
        self._tables: list[Table] = []
        self._rows = RandomRows(schema, self._tables, chance)
        self._dialect = dialect or NATIVE[flavor]
        self._ddl = RandomDdl(schema, flavor, chance, self._dialect)

    def create_tables(self, count: int) -> None:
        """The first tables; their structures are drawn until the server takes them."""
        self._execute("SET SESSION sql_mode = ''")
        for _ in range(count):
            self._create_table()

    def transaction(self) -> None:
        """One transaction, committed or rolled back, or one statement of DDL."""
        chance = self._chance
        if chance.random() < 0.1:
            self._execute(f"SET SESSION sql_mode = '{chance.choice(_MODES)}'")
            self._execute(f"SET SESSION time_zone = '{chance.choice(_ZONES)}'")
        if chance.random() < 0.08:
            self._alter()
            return
        self._execute("BEGIN")
        for statement in self._rows.transaction():
            self._execute(statement)
        self._execute(chance.choice(("COMMIT",) * 15 + ("ROLLBACK",)))
        self.transactions += 1

    def _create_table(self) -> None:
        for _ in range(50):
            table = draw_table(self._ddl.new_name(), self._flavor, self._chance, self._dialect)
            if self._execute(table.create(self._schema)):
                self._tables.append(table)
                return
        raise AssertionError("no table was accepted")

    def _alter(self) -> None:
        self._execute("COMMIT")
        draft = self._ddl.draw(self._tables)
        if draft is not None and " AS SELECT " in draft.sql:
            # MySQL logs a statement of its own, whose escapes are not those of the mode that it says.
            self._execute("SET SESSION sql_mode = ''")
        if draft is not None and self._execute(draft.sql):
            self.ddl += 1
            self._tables[:] = draft.tables
            for table in self._tables:
                self._learn(table)
            if self._flavor == "mysql" and draft.sql.startswith("ALTER TABLE"):
                self._rebuild(draft.sql)

    def _rebuild(self, altered: str) -> None:
        """Keep MySQL from damaging its own rows, so that the source stays what the binlog says.

        Once columns were added or dropped as INSTANT, a rollback of an UPDATE of a column that the primary key has a
        prefix of leaves only that prefix in it (seen with 9.7.4: 'ABCDEF1' is 'A' afterwards). No event tells of that.
        """
        self._cursor.execute(
            "SELECT DISTINCT table_name FROM information_schema.statistics"
            " WHERE table_schema = %s AND index_name = 'PRIMARY' AND sub_part IS NOT NULL",
            (self._schema,),
        )
        for (name,) in self._cursor.fetchall():
            if Ident(name).sql in altered:
                self._execute(f"ALTER TABLE {Ident(self._schema).sql}.{Ident(name).sql} FORCE")

    def _learn(self, table: Table) -> None:
        """What the operations of one statement come to together only the server knows."""
        self._cursor.execute(
            "SELECT column_name, generation_expression <> '' FROM information_schema.columns"
            " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            (self._schema, table.name),
        )
        known = {column.name: column for column in table.columns}
        table.columns = [
            known.get(name) or Column(name, "", ("NULL",), generated="unknown" if generated else "")
            for name, generated in self._cursor.fetchall()
        ]

    def _execute(self, statement: str) -> bool:
        self.statements += 1
        try:
            self._cursor.execute(statement)
        except pymysql.err.Error as error:
            arguments: tuple[Any, ...] = error.args
            if arguments[0] in _LOST:
                raise
            self.refused += 1
            self._log.write(f"-- refused {arguments}: {statement}\n".replace("\0", "\\0"))
            return False
        self._log.write(f"{statement};\n")
        return True
