"""Names that a statement gives to tables, and that are another table's at the target.

A target that folds names takes two of the source's for one. And a table that an online DDL moved away at the source is
still at the target under its old name, with its rows.
"""

from __future__ import annotations

from dm.errors import DMError
from dm.syncer.ddl.checks.checked_step import CheckedStep


def refuse_folded(checked: CheckedStep) -> None:
    """Raise DMError where two followed tables would be one at the target."""
    checked.target.names.demand_apart(checked.piece.tables, checked.piece.made, checked.position)


def refuse_successor(checked: CheckedStep) -> None:
    """Raise DMError where another table would get the name of one that is still there."""
    moved = checked.step.moved_away
    if moved is None:
        return
    target = checked.source.rules.route(moved.real)
    if checked.now.get(target) is not None:
        raise DMError(
            "online-ddl-table-moved",
            position=checked.position,
            real=moved.real,
            trash=moved.trash,
            target=target,
            target_sql=target.sql,
            statement=checked.piece.text,
        )
