"""Whether the target has computed what the source has: the rows of a batch, asked for once they are written.

A STORED column over a TIMESTAMP has the value of the session that wrote the row. The target computes in the zone of the
source's server (`computing.py`). A session of the source in another zone has stored something else, and no replica
computes that. But the source's value is in the row's image, so the two are compared where the expression may depend on
the zone. Of a table without a key the question is for a row of the same values with another computed one. It takes a
pass over the table, unless an index finds one of the values.

A column of a unique key is compared even if it is VIRTUAL: the image has it. In safe mode a REPLACE removes the row
that holds the key, which is the right one only where target and source have computed the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dm.changes.event_form import read_all
from dm.changes.row_change import RowChange
from dm.changes.statement import holds, row_of, shown
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row

_ROWS = 200


@dataclass(frozen=True, slots=True)
class ComputedCheck:
    """The question about some rows of one table: it finds a row whose computed columns are not the source's."""

    sql: bytes
    changes: tuple[RowChange, ...]


def computed_checks(changes: Sequence[RowChange]) -> Iterator[ComputedCheck]:
    """The questions about the rows that these changes leave, and of which columns are to be compared."""
    concerned = [change for change in changes if change.plan.computed]
    if not concerned:
        return
    read_all(concerned)
    left: dict[tuple[object, ...], RowChange] = {}
    for change in concerned:
        if change.before is not None and change.plan.keyed:
            left.pop(_key(change, change.before), None)
        if change.after is not None:
            left[_key(change, _left(change))] = change
    by_plan: dict[int, list[RowChange]] = {}
    for change in left.values():
        by_plan.setdefault(id(change.plan), []).append(change)
    for of_plan in by_plan.values():
        for at in range(0, len(of_plan), _ROWS):
            some = of_plan[at : at + _ROWS]
            found = dict.fromkeys(map(_condition, some))
            conditions = [condition for condition in found if condition is not None]
            if conditions:
                table = some[0].plan.target.sql.encode()
                sql = b"SELECT 1 FROM " + table + b" WHERE " + b" OR ".join(conditions) + b" LIMIT 1"
                yield ComputedCheck(sql, tuple(some))


def alone(check: ComputedCheck) -> Iterator[ComputedCheck]:
    """The question about each of the rows."""
    for change in check.changes:
        yield from computed_checks([change])


def computed_otherwise(change: RowChange) -> DMError:
    """The error for the row of a change."""
    plan, row = change.plan, _left(change)
    stored = ", ".join(f"{column.target.name} = {shown(row[column.at])}" for column, _ in plan.computed)
    virtual = all(column.target.generated == "virtual" for column, _ in plan.computed)
    name = "computed-key-differs" if virtual else "computed-value-differs"
    key = row_of(change) or ", ".join(f"{column.target.name} = {shown(row[column.at])}" for column in plan.columns)
    return DMError(name, table=plan.target, key=key, stored=stored)


def _left(change: RowChange) -> Row:
    """The row that the change leaves: an image may have no more than the values that have changed."""
    before, after = change.before, change.after
    assert after is not None
    if before is None or ABSENT not in after:
        return after
    return tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))


def _key(change: RowChange, row: Row) -> tuple[object, ...]:
    if not change.plan.keyed:
        return (id(change),)
    return (change.plan.target, *(row[column.at] for column in change.plan.row_key))


def _condition(change: RowChange) -> bytes | None:
    row = _left(change)
    columns = [compare(row[column.at]) for column, compare in change.plan.computed if row[column.at] is not ABSENT]
    if not columns:
        return None
    plan = change.plan
    if plan.keyed:
        found = holds(plan, plan.row_key, row)
    else:
        found = b" AND ".join([compare(row[at]) for at, compare in plan.computed_of])
    return b"(" + found + b" AND (" + b" AND ".join(columns) + b") IS NOT TRUE)"
