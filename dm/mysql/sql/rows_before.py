"""What a DDL statement in the stretch means for rows that were changed before it.

A row is written with the structure that the target has now. So every statement between the row and the checkpoint must
have left the table's columns and rows as they were; then the row's bytes mean the same as at the time of the row.
Indexes, keys, defaults and comments may have changed. Anything else, also what is not understood, stands in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.operation import (
    AddCheck,
    AddForeignKey,
    AddIndex,
    AlterDatabase,
    AlterDefault,
    AlterIndex,
    AlterVisibility,
    CreateDatabase,
    CreateTable,
    DropConstraint,
    DropDatabase,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    Operation,
    OtherAlter,
    RenameIndex,
    TableOptions,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.mysql.sql.statement import classify, subjects

_KEEPS: Final = (
    AddCheck, AddForeignKey, AddIndex, AlterDatabase, AlterDefault, AlterIndex, AlterVisibility, CreateDatabase,
    DropConstraint, DropForeignKey, DropIndex, DropPrimaryKey, RenameIndex, TableOptions,
)  # fmt: skip
# Of what no structure shows: keys on or off, a rebuild, another order on disk. Partitions may go with their rows.
_REBUILDS: Final = frozenset({"ENABLE", "DISABLE", "FORCE", "ORDER"})


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement does to tables."""

    named: frozenset[TableName] = frozenset()  # tables and schemas that it is about
    changed: frozenset[TableName] = frozenset()  # of these, those whose columns or rows are others now
    unknown: bool = False  # it may be any table

    def stands_before(self, tables: Iterable[TableName]) -> list[TableName]:
        """Of these tables, those that are not what they were."""
        return [
            table
            for table in tables
            if self.unknown or table in self.changed or TableName(table.schema, "") in self.changed
        ]


def effect_of(text: str, context: SourceContext, wanted: Callable[[TableName], bool]) -> Effect:
    """What a statement of the binlog does; `wanted` tells whether rows that it changes as a text matter."""
    try:
        statement = classify(text, context)
        if statement.kind == "dml":
            tables = frozenset(statement.tables or ())
            if tables and not any(map(wanted, tables)):
                return Effect()
            return Effect(tables, tables, unknown=not tables)
        if statement.kind != "ddl":
            return Effect()
        pieces = split(text, context)
    except DMError:
        # The syncer has passed it, by an operator or a filter.
        found = frozenset(subjects(text, context))
        return Effect(found, found, unknown=not found)
    named = frozenset(table for piece in pieces for table in piece.tables)
    changed = frozenset(table for piece in pieces if not _keeps(piece) for table in piece.changed)
    return Effect(named, changed)


def _keeps(piece: Piece) -> bool:
    return all(map(_keeps_rows, piece.operations))


def _keeps_rows(operation: Operation) -> bool:
    match operation:
        case CreateTable(if_not_exists=absent_only, or_replace=replaces):
            return absent_only and not replaces
        case OtherAlter(clause=clause):
            return bool(clause.words) and clause.words[0] in _REBUILDS
        case DropDatabase():
            return False
        case _:
            return isinstance(operation, _KEEPS)
