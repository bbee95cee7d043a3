"""Statements about a column of the target that holds parts of names: it is no column of the source.

Executed, they would take the parts away, or count as done and leave the source's rows without a place.
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.errors import DMError
from dm.rules.table_rules import TableRules
from dm.sql.operation import (
    AddColumn,
    AlterDefault,
    AlterVisibility,
    ChangeColumn,
    DropColumn,
    ModifyColumn,
    RenameColumn,
)
from dm.sql.piece import Piece

_OF_A_COLUMN = AddColumn | AlterDefault | AlterVisibility | ChangeColumn | DropColumn | ModifyColumn | RenameColumn


def refuse_extracted(piece: Piece, rules: TableRules) -> None:
    """Raise DMError `extract-column-altered` where a source's statement names such a column."""
    named = {name.lower() for name in _named(piece)}
    if not named or not rules.wanted(piece.table):
        return
    for each in rules.extracted(piece.table):
        if each.column.lower() in named:
            raise DMError(
                "extract-column-altered",
                column=each.column,
                table=piece.table,
                target=rules.route(piece.table),
                statement=piece.text,
            )


def _named(piece: Piece) -> Iterator[str]:
    for operation in piece.operations:
        if isinstance(operation, _OF_A_COLUMN):
            yield operation.column
        if isinstance(operation, ChangeColumn | RenameColumn):
            yield operation.name
