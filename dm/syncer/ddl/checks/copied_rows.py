"""Rows of a table altered in place that would get other values than those of the copy that an online DDL tool filled.

The tools copy with NO_AUTO_VALUE_ON_ZERO, so a 0 stays what ALTER TABLE would number; and a NULL becomes another time
where a TIMESTAMP may be NULL no more. What the statements alone tell is known before (`dm.syncer.ddl.copied_columns`).
"""

from __future__ import annotations

from itertools import pairwise

from dm.errors import DMError
from dm.ident import Ident
from dm.schema.table import TableSchema
from dm.sql.context import SourceContext
from dm.sql.operation import ChangeColumn, ModifyColumn, Operation
from dm.sql.own_values import numbered
from dm.syncer.ddl.checked_step import CheckedStep


def refuse_other_copy(checked: CheckedStep) -> None:
    """Raise DMError where the target has rows that the piece gives other values than the copy has."""
    piece, ghost, target = checked.piece, checked.step.copied_to, checked.table_now
    if ghost is None or target is None or checked.effective:
        return
    for operation in piece.operations:
        found = _rows_otherwise(operation, target, piece.context)
        if found is not None and checked.target.session.has_rows(target.name, 1, found[0]):
            raise DMError(
                "online-ddl-different",
                position=checked.position,
                ghost=ghost,
                real=piece.table,
                why=found[1],
                statement=piece.text,
            )


def _rows_otherwise(operation: Operation, target: TableSchema, context: SourceContext) -> tuple[str, str] | None:
    """The rows, as a condition, that get another value in place than in a copy, and why."""
    if not isinstance(operation, ModifyColumn | ChangeColumn):
        return None
    name, column = Ident(operation.column).sql, target.column(operation.column)
    if numbered(operation.definition):
        if column is not None and column.auto_increment:
            return None  # both servers keep its zeros
        return f"{name} IS NULL OR {name} = 0", f"the copy has other numbers in column {operation.column}"
    words = operation.definition.words
    never_null = ("NOT", "NULL") in pairwise(words)
    if not context.explicit_defaults_for_timestamp:
        never_null = never_null or "NULL" not in words
    if words[:1] == ["TIMESTAMP"] and never_null:
        return f"{name} IS NULL", f"the copy has other times in column {operation.column} where there was NULL"
    return None
