"""One row change as statements, and a list of changes one by one: the reference that every grouping must equal."""

from __future__ import annotations

from collections.abc import Iterable

from dm.changes.equal_documents import after_others
from dm.changes.namesakes import by_namesakes
from dm.changes.row_change import RowChange
from dm.changes.safe_mode import safe_delete, safe_insert, safe_update
from dm.changes.statement import (
    ANY,
    ONE_AFFECTED,
    ONE_MATCHED,
    ApplyStatement,
    delete_row,
    insert_row,
    update_row,
    without_constraints,
    written,
)


def statements(changes: Iterable[RowChange]) -> list[ApplyStatement]:
    """The changes one after another, row by row."""
    return [statement for change in changes for statement in row_statements(change)]


def row_statements(change: RowChange) -> list[ApplyStatement]:
    """The statements of one change, in order."""
    found = _row_statements(change)
    return [without_constraints(one) for one in found] if change.plan.unconstrained else found


def _row_statements(change: RowChange) -> list[ApplyStatement]:
    plan, before, after = change.plan, change.before, change.after
    safe = change.safe and plan.keyed
    anew = by_namesakes(change)
    if anew is not None:
        return anew
    if before is None:
        assert after is not None
        if safe or plan.insert_replaces:
            return safe_insert(change, after)
        return [written(insert_row(plan, after), plan, after, ANY, change)]
    if after is None:
        if safe:
            return [safe_delete(change, before)]
        return [ApplyStatement(delete_row(plan, before), ONE_AFFECTED, (change,))]
    if safe:
        return safe_update(change, before, after)
    update = written(update_row(plan, before, after), plan, after, ONE_MATCHED, change)
    return [after_others(plan, before, after, update)]


def removes_others(change: RowChange) -> bool:
    """Whether, outside safe mode, the change deletes rows that hold its keys without the server counting them."""
    plan = change.plan
    return plan.insert_replaces and plan.upsert and change.before is None and not change.safe
