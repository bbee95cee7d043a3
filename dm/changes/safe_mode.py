"""One row change as statements. In safe mode an INSERT becomes a REPLACE, an UPDATE a DELETE and a REPLACE.

In safe mode the target may be anywhere between two positions, so a statement only says what the row shall be in the
end:

    INSERT    REPLACE
    UPDATE    DELETE of the old row (only if a key column changed), REPLACE of the new one
    DELETE    DELETE

Tables that must not get a REPLACE (`plan.upsert`) get a small program with the same result. It deletes rows that hold
another unique key of the new row. Then it updates the new row, or turns the old row into it, or inserts it.

That holds for a single change. `dm.changes.grouped` and its compiled twin put many rows together, and decide the same
there: what changes here changes there. `dm.syncer.apply.safe_mode_window` decides when safe mode is on, and why.

`row_statements` is the reference that every grouping must equal.

A TiDB takes two values of an ENUM or SET for one: none at all, and the member whose name is empty. It compares them by
their names. So an UPDATE from one to the other leaves the column, and its place in the keys, as it was, and says that
it has found its row; a REPLACE leaves a row alone that differs in nothing else (tested with the server that `make tidb`
builds: `tests/live/syncer/tidb/test_tidb.py`). As results of a SELECT and as values of an INSERT they are two different
values. MySQL and MariaDB compare the numbers. Rows of tables that have such columns are removed, and written anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from dm.changes.column_map import MappedColumn
from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.changes.statement import (
    ANY,
    ONE_AFFECTED,
    ONE_MATCHED,
    ApplyStatement,
    after_others,
    delete_row,
    find,
    holds,
    insert_row,
    key_changed,
    partial_row_image,
    replace_row,
    update_row,
    without_constraints,
    written,
)
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row


def safe_insert(change: RowChange, after: Row) -> list[ApplyStatement]:
    """INSERT as REPLACE: afterwards the row is `after`, whichever row held a key of it."""
    if change.plan.upsert:
        return _upsert(change, None, after)
    return [written(replace_row(change.plan, after), change.plan, after, ANY, change)]


def safe_update(change: RowChange, before: Row, after: Row) -> list[ApplyStatement]:
    """UPDATE as DELETE of the old row, where a key changed, and REPLACE of the new one."""
    plan = change.plan
    if any(value is ABSENT for value in after):
        return _partial_update(change, before, after)
    if plan.upsert:
        return _upsert(change, before, after)
    replaced = written(replace_row(plan, after), plan, after, ANY, change)
    if not key_changed(plan, before, after):
        return [replaced]
    return [safe_delete(change, before), replaced]


def safe_delete(change: RowChange, before: Row) -> ApplyStatement:
    """DELETE of a row that may already be gone."""
    return ApplyStatement(delete_row(change.plan, before), ANY, (change,))


def _upsert(change: RowChange, before: Row | None, after: Row) -> list[ApplyStatement]:
    """Make the row `after`, whatever was applied already, keeping columns that the source lacks."""
    plan = change.plan
    insert = written(insert_row(plan, after), plan, after, ANY, change)
    update = written(update_row(plan, after, after), plan, after, ANY, change)
    others = _delete_holders(change, after, (after,))
    if before is None or all(before[column.at] == after[column.at] for column in plan.row_key + plan.identity):
        update = replace(update, not_found=(insert,))
        return [*others, update if before is None else after_others(plan, before, after, update)]
    # The row has moved. If the new one exists, it is the later row, and the old one is a leftover.
    leftover = ApplyStatement(_delete_old(plan, before, after), ANY, (change,))
    move = written(update_row(plan, before, after), plan, after, ANY, change, not_found=(insert,))
    return [
        ApplyStatement(
            _touch(plan, after),
            ANY,
            (change,),
            found=(leftover, *others, update),
            not_found=(*_delete_holders(change, after, (after, before)), move),
        )
    ]


def _touch(plan: TablePlan, row: Row) -> bytes:
    """An UPDATE that changes nothing: it tells whether the row is there, and locks it."""
    column = plan.row_key[0].sql
    return b"UPDATE " + plan.target.sql.encode() + b" SET " + column + b"=" + column + b" WHERE " + find(plan, row)


def _delete_old(plan: TablePlan, before: Row, after: Row) -> bytes:
    """DELETE of the old row, unless the server treats old and new key as equal ("a" became "A")."""
    where = find(plan, before) + b" AND NOT (" + find(plan, after) + b")"
    return b"DELETE FROM " + plan.target.sql.encode() + b" WHERE " + where


def _delete_holders(change: RowChange, after: Row, but: Sequence[Row]) -> tuple[ApplyStatement, ...]:
    """Delete the rows that hold another unique key of the new row, but not those found by these images."""
    plan = change.plan
    holders = [
        b"(" + holds(plan, key, after) + b")"
        for key in plan.other_keys
        if all(after[column.at] is not None for column in key)
    ]
    if not holders:
        return ()
    conditions = [b"(" + b" OR ".join(holders) + b")", *(b"NOT (" + find(plan, image) + b")" for image in but)]
    sql = b"DELETE FROM " + plan.target.sql.encode() + b" WHERE " + b" AND ".join(conditions)
    return (ApplyStatement(sql, ANY, (change,)),)


def _partial_update(change: RowChange, before: Row, after: Row) -> list[ApplyStatement]:
    """Safe mode with a partial image: exact as long as the row keeps its keys."""
    plan = change.plan
    if key_changed(plan, before, after):
        raise partial_row_image(plan, next(column for column in plan.columns if after[column.at] is ABSENT))
    return [after_others(plan, before, after, written(update_row(plan, before, after), plan, after, ANY, change))]


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
