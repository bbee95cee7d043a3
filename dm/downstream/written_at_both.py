"""Finds rows that were written at the target, too, before a change of the source is applied to them (`conflicts`).

With tasks in both directions, applications may write one row on both sides before either side has the other's change.
The two changes have no order. So before a change its row at the target must be what the source's was before it:

    UPDATE, DELETE    a row with the before image's key and all of its values, byte by byte
    INSERT            no row with a key of the after image; the unique keys prove that themselves

Why comparing values is enough, if both sides do so. Think of a row's values as places (that there is no row is one,
too) and of each change as a road from its before image to its after image. A change that is applied where its before
image is goes its road. As long as neither side finds another row, both go the same roads, each once, from the same
place, in whatever order. A walk over all roads of a map, each once, ends in one place, which the roads alone determine.
So both sides end with the same row, and each write was made to the row that its writer had seen. Once the two differ,
some change meets another row on one of the sides.

The look and the change are one transaction, and the look locks the rows: nothing comes between. It asks for all changes
of a batch together, since what it asks for is true of nearly all. If it is not, the batch is applied one change at a
time, each with its own look, and the first that meets another row is the error. A row that an earlier change of the
batch leaves is not there before the batch, and needs no look: that change was looked at, or its key proves it.

A change that is applied again (safe mode) meets what an earlier run has left, so nothing can be told of it. That is why
`conflicts` takes the lane of `atomic-transactions`, whose row commits with the changes and says exactly which are done
(I9 of `dm.progress.protocol`): it applies nothing again, whatever crashed. Safe mode remains after a load without a
lock, up to the dump's end.

A table without a key needs no look: an UPDATE or DELETE finds its row by all of its values in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange, by_plan, row_left
from dm.changes.statement import find, holds, key_of, operation_of, row_of, shown
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.session.answers import reads_answers

_ASKED_TOGETHER: Final = 100
_IMAGE: Final = 1000  # characters of a row in a message


def looked_at(changes: Iterable[RowChange]) -> Iterator[tuple[TablePlan, list[RowChange]]]:
    """The changes of a batch whose rows have to be looked at, by table; few enough for one question each."""
    found, left = list[RowChange](), set[tuple[object, ...]]()  # left: by changes so far, as the source's log has them
    for change in changes:
        if change.before is not None and _looks(change) and _row(change.plan, change.before) not in left:
            found.append(change)
        if change.after is not None and change.plan.keyed:
            left.add(_row(change.plan, row_left(change)))
    for of_table in by_plan(found):
        for at in range(0, len(of_table), _ASKED_TOGETHER):
            yield of_table[0].plan, of_table[at : at + _ASKED_TOGETHER]


def _row(plan: TablePlan, row: Row) -> tuple[object, ...]:
    return (plan.target, *(row[column.at] for column in plan.row_key))


def lacks_values(changes: Iterable[RowChange]) -> bool:
    """Whether a value to look for is not in the source's log."""
    return any(change.before is not None and ABSENT in change.before for change in changes)


@reads_answers
def as_before(connection: TargetConnection, plan: TablePlan, changes: Sequence[RowChange]) -> bool:
    """Lock the rows of changes, each another one; whether each is what the source's was. Raises DMError."""
    conditions = [b"(" + _as_source_had(plan, change.before) + b")" for change in changes if change.before is not None]
    sql = b"SELECT COUNT(*) FROM " + _table(plan) + b" WHERE " + b" OR ".join(conditions) + b" FOR UPDATE"
    return int(connection.query(sql)[0][0]) == len(changes)


def demand_as_before(connection: TargetConnection, change: RowChange) -> None:
    """Lock the change's row; raises DMError `write-conflict` where it is not what the source's was."""
    if change.safe or not change.plan.keyed:
        return
    if change.before is None:
        demand_free(connection, change)
    elif _looks(change) and not as_before(connection, change.plan, [change]):
        raise _conflict(connection, change, find(change.plan, change.before))


Overwrites = Callable[[RowChange, Sequence[bytes]], None]
"""Told of a change, and of the conditions that find the target's other rows, before these are set."""


@reads_answers
def others_at(connection: TargetConnection, change: RowChange) -> list[bytes]:
    """Lock the rows of a change; gives the conditions of those that are not what the source had. Raises DMError."""
    plan, before, after = change.plan, change.before, change.after
    if change.safe or not plan.keyed or change.kind is ChangeKind.NOTHING:
        return []
    found = []
    if before is not None and not as_before(connection, plan, [change]):
        found.append(find(plan, before))
    if after is not None:
        condition = find(plan, row_left(change))
        if before is not None:
            condition += b" AND NOT (" + find(plan, before) + b")"
        sql = b"SELECT COUNT(*) FROM " + _table(plan) + b" WHERE " + condition + b" FOR UPDATE"
        if int(connection.query(sql)[0][0]):
            found.append(condition)
    return found


def setting(change: RowChange) -> RowChange:
    """A change that makes its row what it shall be, whatever is there; another row with one of its keys is an error."""
    return replace(change, safe=True, plan=replace(change.plan, upsert=True, other_keys=()))


def demand_free(connection: TargetConnection, change: RowChange) -> None:
    """Raise DMError `write-conflict` where another row has a key of the row that the change writes."""
    plan, after = change.plan, change.after
    if change.safe or not plan.keyed or after is None:
        return
    keys = [plan.row_key + plan.identity, *plan.other_keys]
    taken = [
        b"(" + holds(plan, key, after) + b")"
        for key in keys
        if all(after[column.at] is not None and after[column.at] is not ABSENT for column in key)
    ]
    condition = b"(" + b" OR ".join(taken) + b")"
    if change.before is not None:
        condition += b" AND NOT (" + find(plan, change.before) + b")"
    if connection.query(b"SELECT 1 FROM " + plan.target.sql.encode() + b" WHERE " + condition + b" LIMIT 1"):
        raise _conflict(connection, change, condition)


def _looks(change: RowChange) -> bool:
    return change.before is not None and change.kind is not ChangeKind.NOTHING and change.plan.keyed and not change.safe


def _as_source_had(plan: TablePlan, before: Row) -> bytes:
    return b" AND ".join([find(plan, before), *(compare(before[at]) for at, compare in plan.comparisons)])


def _table(plan: TablePlan) -> bytes:
    """The table, read by the row key's index: of a table that it takes for a small one, a server may lock every row."""
    index = f" FORCE INDEX ({Ident(plan.row_index).sql})" if plan.row_index else ""
    return (plan.target.sql + index).encode()


@reads_answers
def _conflict(connection: TargetConnection, change: RowChange, condition: bytes) -> DMError:
    plan = change.plan
    names = b",".join([column.sql for column in plan.columns])
    rows = connection.query(
        b"SELECT " + names + b" FROM " + plan.target.sql.encode() + b" WHERE " + condition + b" LIMIT 1"
    )
    return DMError(
        "write-conflict",
        operation=operation_of(change),
        table=plan.target,
        key=key_of(change) if change.before is not None else row_of(change),
        before=_image(plan, change.before),
        after=_image(plan, change.after),
        found=_told(zip((column.target.name for column in plan.columns), rows[0], strict=True)) if rows else "no row",
    )


def _image(plan: TablePlan, row: Row | None) -> str:
    if row is None:
        return "no row"
    return _told((column.target.name, row[column.at]) for column in plan.columns if row[column.at] is not ABSENT)


def _told(values: Iterable[tuple[str, Value]]) -> str:
    text = ", ".join(f"{name} = {'NULL' if value is None else shown(value)}" for name, value in values)
    return f"({text})" if len(text) <= _IMAGE else f"({text[:_IMAGE]}...)"
