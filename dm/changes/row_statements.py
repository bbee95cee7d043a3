"""One row change as statements, and a list of changes one by one: the reference that every grouping must equal.

A TiDB takes two values of an ENUM or SET for one: none at all, and the member whose name is empty. It compares them by
their names. So an UPDATE from one to the other leaves the column, and its place in the keys, as it was, and says that
it has found its row; a REPLACE leaves a row alone that differs in nothing else (tested with the server that `make tidb`
builds: `tests/live/syncer/tidb/test_tidb.py`). Read and inserted they are two. MySQL and MariaDB compare the numbers.
Rows of tables that have such columns are removed, and written anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from dm.changes.column_map import MappedColumn
from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.changes.safe_mode import safe_delete, safe_insert, safe_update
from dm.changes.statement import (
    ANY,
    ONE_AFFECTED,
    ONE_MATCHED,
    ApplyStatement,
    after_others,
    delete_row,
    insert_row,
    update_row,
    without_constraints,
    written,
)
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row


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


def by_namesakes(change: RowChange) -> list[ApplyStatement] | None:
    """The statements of a change that a TiDB might take for none; None for any other one. Raises DMError."""
    plan, before, after = change.plan, change.before, change.after
    if not plan.namesakes or after is None:
        return None
    exchanged = () if before is None else tuple(exchanges(plan, before, after))
    whole = not plan.upsert and not any(value is ABSENT for value in after)
    if exchanged and not whole:
        raise DMError("member-missing", column=exchanged[0].target.name, label="")
    replaces = (change.safe and plan.keyed) or (before is None and plan.insert_replaces)
    if replaces and whole:
        old = [] if before is None else [safe_delete(change, before)]
        return [*old, safe_delete(change, after), *safe_insert(change, after)]
    if before is None or not exchanged:
        return None
    anew = written(insert_row(plan, after), plan, after, ANY, change)
    return [ApplyStatement(delete_row(plan, before), ONE_AFFECTED, (change,), found=(anew,))]


def exchanges(plan: TablePlan, before: Row, after: Row) -> Iterable[MappedColumn]:
    """The columns that change from one such value to the other, as far as it is known."""
    for column in plan.namesakes:
        empty = column.source.members.index("")
        both = (0, 1 << empty if column.source.type.several_members else empty + 1)
        old, new = before[column.at], after[column.at]
        if new in both and old != new and (old in both or old is ABSENT):  # of an absent one nobody knows
            yield column
