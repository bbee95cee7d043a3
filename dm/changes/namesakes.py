"""Two values of an ENUM or SET that a TiDB takes for one: none at all, and the member whose name is empty.

A TiDB compares such values by their names. So an UPDATE from one to the other leaves the column, and its place in the
keys, as it was, and says that it has found its row; a REPLACE leaves a row alone that differs in nothing else
(tested with the server that `make tidb` builds: `tests/live/syncer/tidb/test_tidb.py`). Read and inserted they are two.
MySQL and MariaDB compare the numbers. Rows of tables that have such columns are removed, and written anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from dm.changes.column_map import MappedColumn
from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.changes.safe_mode import safe_delete, safe_insert
from dm.changes.statement import ANY, ONE_AFFECTED, ApplyStatement, delete_row, insert_row, written
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row


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
