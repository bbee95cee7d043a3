"""A new column whose namesake was dropped at the source only: the target's has the old values."""

from __future__ import annotations

from dm.errors import DMError
from dm.sql.operation import AddColumn
from dm.syncer.ddl.checks.checked_step import CheckedStep


def refuse_kept_columns(checked: CheckedStep) -> None:
    """Raise DMError where the target has the column of an ADD COLUMN still, with rows."""
    piece, target = checked.piece, checked.table_now
    if checked.step.by_hand or target is None:
        return
    kept = checked.source.tracker.kept_columns(piece.table)
    for each in piece.operations:
        if not isinstance(each, AddColumn) or each.column.lower() not in kept:
            continue
        if target.column(each.column) is not None and checked.target.session.has_rows(target.name, 1):
            raise DMError(
                "ddl-column-kept",
                column=each.column,
                target=target.name,
                statement=piece.text,
                position=checked.position,
            )
