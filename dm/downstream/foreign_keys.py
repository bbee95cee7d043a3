"""Which tables of the target foreign keys join, and what that means for the order of their changes.

Where the target checks foreign keys, a row's change may depend on rows of other tables, and may change rows of other
tables. Tables are taken together as far as foreign keys reach, in either direction: a change of a grandparent can come
out at the end of a chain of cascades.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.ident import TableName

ACTING: Final = frozenset({"CASCADE", "SET NULL", "SET DEFAULT"})
_BATCH: Final = 200  # tables of one question


@dataclass(frozen=True, slots=True)
class Kin:
    """The tables that foreign keys join to one table, itself included."""

    acting: bool  # some foreign key among them changes rows by itself
    keyless: bool  # one of them has neither a primary key nor a unique key without NULLs


class ForeignKeys:
    """The foreign keys of the whole target, as they were when read."""

    def __init__(self, connection: TargetConnection) -> None:
        found = connection.query(
            "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, DELETE_RULE,"
            " UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS"
        )
        self._leader: dict[TableName, TableName] = {}
        links = []
        for schema, child, parent_schema, parent, on_delete, on_update in found:
            ends = _name(schema, child), _name(parent_schema, parent)
            links.append((ends[0], bool(ACTING & {str(on_delete), str(on_update)})))
            self._join(*ends)
        acting = {self._find(child) for child, acts in links if acts}
        keyless = {self._find(table) for table in _keyless(connection, list(self._leader))}
        self._kin = {
            leader: Kin(leader in acting, leader in keyless) for leader in {self._find(each) for each in self._leader}
        }

    def kin_of(self, table: TableName) -> Kin | None:
        """What the table is joined to; None where no foreign key begins or ends at it."""
        name = _name(table.schema, table.table)
        return self._kin[self._find(name)] if name in self._leader else None

    def _find(self, table: TableName) -> TableName:
        leader = self._leader.setdefault(table, table)
        while leader != self._leader[leader]:
            leader = self._leader[leader]
        return leader

    def _join(self, one: TableName, other: TableName) -> None:
        self._leader[self._find(one)] = self._find(other)


def _name(schema: object, table: object) -> TableName:
    # Servers write one table's name in more than one case. Two tables that differ by case only are taken together.
    return TableName(str(schema).lower(), str(table).lower())


def _keyless(connection: TargetConnection, tables: Sequence[TableName]) -> Iterable[TableName]:
    for at in range(0, len(tables), _BATCH):
        batch = tables[at : at + _BATCH]
        places = ", ".join(["(%s, %s)"] * len(batch))
        rows = connection.query(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0"
            f" AND (LOWER(TABLE_SCHEMA), LOWER(TABLE_NAME)) IN ({places})"
            " GROUP BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME HAVING MAX(COLUMN_NAME IS NULL OR NULLABLE = 'YES') = 0",
            [part for table in batch for part in table],
        )
        keyed = {_name(*row) for row in rows}
        yield from (table for table in batch if table not in keyed)
