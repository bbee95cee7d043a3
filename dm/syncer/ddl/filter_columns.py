"""Statements that take a column away by which an expression filter leaves rows out.

A filter names columns, and rows are judged by the names that their columns have at that time. If a column goes (DROP
COLUMN, a new name, a table with other columns that gets the filter's name), the filter leaves nothing out from there
on: rows arrive that were to stay away. If another column gets the name later, rows are left out by values that the
filter never meant. Both are silent, and only a person knows what the filter is to be from then on. So such a statement
pauses the task. It goes on with another file: where the filter in that names a column that the table did not have
before, nothing is taken away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.operation import ChangeColumn, DropColumn, RenameColumn
from dm.mysql.sql.piece import Piece
from dm.rules.table_rules import TableRules
from dm.syncer.ddl.plan import CutOver, Execute, Step

Structures = Callable[[TableName], TableSchema | None]


def refuse_filters_columns(steps: Iterable[Step], rules: TableRules, structures: Structures) -> None:
    """Raise DMError `filter-column-gone` if a step of the source takes a column of a filter away."""
    for step in steps:
        if isinstance(step, Execute) and step.by_hand:
            continue
        for piece in step.pieces if isinstance(step, CutOver) else (step.piece,):
            for table, gone in _leaving(piece, structures):
                for rule, columns in rules.columns_of_filters(table):
                    lost = sorted(columns & gone)
                    if lost and columns <= _names(structures(table)):
                        statement = step.statement if isinstance(step, CutOver) else piece.text
                        raise DMError("filter-column-gone", rule=rule, column=lost[0], table=table, statement=statement)


def _leaving(piece: Piece, structures: Structures) -> Iterator[tuple[TableName, frozenset[str]]]:
    """Tables that had a structure under their names before, and the columns that are no more there under theirs."""
    names = {
        each.column.lower()
        for each in piece.operations
        if isinstance(each, DropColumn)
        or (isinstance(each, ChangeColumn | RenameColumn) and each.name.lower() != each.column.lower())
    }
    if names:
        yield piece.table, frozenset(names)
    now: dict[TableName, TableSchema | None] = {}
    for old, new in piece.renames:
        now[new] = now.get(old, structures(old))
        now[old] = None
    for table, after in now.items():
        if after is not None:
            yield table, _names(structures(table)) - _names(after)


def _names(schema: TableSchema | None) -> frozenset[str]:
    return frozenset() if schema is None else frozenset(column.name.lower() for column in schema.columns)
