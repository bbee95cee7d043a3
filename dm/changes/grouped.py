"""Many changes in few statements, with the result of applying them one by one.

Everything follows from one rule: *a change may move past another only if they have no key in common* (`keys.py`). For
each change the last statement that touches one of its keys is known. The change may join any later statement of its own
table, operation and column list; otherwise it starts a new one at the end. It joins no statement that touches its keys,
so within a statement all keys are disjoint and the order of rows has no meaning.

Why disjoint keys commute, even on a target that differs from the source:

- In safe mode every statement is a REPLACE, or a DELETE by the row key. REPLACE(r) removes every row that holds a key
  of r. Two of them with disjoint keys never touch each other's row, whatever else they remove: they commute in any
  state.
- Outside safe mode the claim "this change touches these keys only" holds if the row really has the keys of the before
  image. On a table with one unique key that is so by construction. With several, the statement requires it: the WHERE
  of a grouped UPDATE or DELETE compares the columns of all unique keys, and REPLACE (`insert-mode: replace`) must
  replace nothing. The counts prove it for every row.
- If safe mode ends inside a batch, nothing moves across that border. Nothing moves past a row of a table with triggers,
  past a change with an unknown key, or past an INSERT that replaces other rows without a REPLACE (`insert-mode:
  replace` where that is not allowed).

An unexpected count or error ends the attempt. The transaction is rolled back and the changes are applied one by one, so
the outcome, the error included, is the serial one.

UPDATE becomes INSERT .. ON DUPLICATE KEY UPDATE if the plan allows it and all keys keep their bytes. The server counts
2 for a row it changed, 1 for one it inserted, 0 for an unchanged one (MySQL Reference Manual, "INSERT ... ON DUPLICATE
KEY UPDATE"; without CLIENT_FOUND_ROWS), so only the sum 2n proves n changed rows. With several unique keys the server
may find another row that holds one of the keys. So each assignment checks whether the row has *all* keys of the image,
and leaves it alone if not. The count shows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Protocol

from dm.accelerator.native import Native, shared
from dm.accelerator.switch import Twins
from dm.changes.column_map import MappedColumn
from dm.changes.keys import WILD, Key, keys_of, table_key
from dm.changes.plan import TablePlan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_hash import RowText, listed_text
from dm.changes.row_keys import listed
from dm.changes.safe_mode import removes_others, row_statements
from dm.changes.statement import (
    ANY,
    ApplyStatement,
    Expected,
    has_zero_enum,
    holds,
    insert_head,
    key_changed,
    known,
    without_constraints,
)
from dm.ident import Ident
from dm.mysql.binlog.value import ABSENT, Row

DEFAULT_BYTES: Final = 1 << 20

_ONE_ROW: Final = b" LIMIT 1"


@shared
class StatementVerb(IntEnum):
    """What a group's statement does."""

    INSERT = 0
    REPLACE = 1
    UPDATE = 2  # INSERT .. ON DUPLICATE KEY UPDATE
    DELETE = 3
    NOTHING = 4  # a DELETE that must find no row


@shared
@dataclass(slots=True, eq=False)
class StatementGroup:
    """An unfinished statement."""

    verb: StatementVerb
    plan: TablePlan
    safe: bool
    changes: list[RowChange]
    rows: list[bytes]
    images: list[Row]
    size: int


class _StatementBatch:
    """The statements of one batch, in order, and which of them touched a key last."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.done: list[StatementGroup | list[ApplyStatement]] = []
        self._open: dict[tuple[int, StatementVerb, bool], int] = {}
        self._last: dict[Key, int] = {}
        self._floor = -1  # nothing may join a statement at or before this one
        self._safe: bool | None = None

    def add(self, change: RowChange) -> None:
        plan = change.plan
        if change.safe != self._safe:
            self._safe = change.safe
            self._fence()
        keys = keys_of(change)
        if not plan.groupable or WILD in keys or removes_others(change):
            self._fence()
            self._append(row_statements(change), ())
            self._fence()
        elif plan.upsert and change.safe:
            # A column missing at the source depends on which of two statements meets the row first.
            self._append(row_statements(change), (*keys, table_key(plan.target)))
        elif change.before is None:
            self._insert(change, keys)
        elif change.kind is ChangeKind.NOTHING:
            self._join(
                StatementVerb.NOTHING, change, change.before, _listed(plan, plan.key_values, change.before), keys
            )
        elif change.after is None:
            self._delete(change, change.before, keys)
        else:
            self._update(change, change.before, change.after, keys)

    def _insert(self, change: RowChange, keys: tuple[Key, ...]) -> None:
        plan, after = change.plan, change.after
        assert after is not None
        rendered = _whole(plan, after)
        if rendered is None:
            self._append(_alone(change), keys)
            return
        replaces = (change.safe and plan.keyed) or plan.insert_replaces
        self._join(StatementVerb.REPLACE if replaces else StatementVerb.INSERT, change, after, rendered, keys)

    def _delete(self, change: RowChange, before: Row, keys: tuple[Key, ...]) -> None:
        plan = change.plan
        if not plan.keyed or (not change.safe and any(before[column.at] is None for column in plan.verified)):
            self._append(_alone(change), keys)
            return
        self._join(StatementVerb.DELETE, change, before, _listed(plan, plan.key_values, before), keys)

    def _update(self, change: RowChange, before: Row, after: Row, keys: tuple[Key, ...]) -> None:
        plan = change.plan
        # An unchanged row can't be counted in an INSERT .. ON DUPLICATE KEY UPDATE.
        by_insert = (
            plan.updates_by_insert and not change.safe and not key_changed(plan, before, after) and before != after
        )
        rendered = _whole(plan, after) if plan.keyed and (change.safe or by_insert) else None
        if rendered is None:
            self._append(_alone(change), keys)
        elif by_insert:
            self._join(StatementVerb.UPDATE, change, after, rendered, keys)
        else:
            if key_changed(plan, before, after):
                self._join(StatementVerb.DELETE, change, before, _listed(plan, plan.key_values, before), keys)
            self._join(StatementVerb.REPLACE, change, after, rendered, keys)

    def _join(self, verb: StatementVerb, change: RowChange, image: Row, rendered: bytes, keys: tuple[Key, ...]) -> None:
        last, plan = self._last, change.plan
        after = self._floor
        for key in keys:
            at = last.get(key, -1)
            after = at if at > after else after
        if verb is StatementVerb.INSERT and not plan.keyed:
            after -= 1  # rows of a keyless table stay in order inside one INSERT, too
        signature = (id(plan), verb, change.safe)
        at = self._open.get(signature, -1)
        if at > after and at > self._floor:
            group = self.done[at]
            assert isinstance(group, StatementGroup)
            if group.size + len(rendered) < self._limit and len(group.rows) < plan.statement_rows:
                group.changes.append(change)
                group.rows.append(rendered)
                group.images.append(image)
                group.size += len(rendered) + 1
                for key in keys:
                    last[key] = at
                return
        self.done.append(StatementGroup(verb, plan, change.safe, [change], [rendered], [image], len(rendered)))
        at = len(self.done) - 1
        self._open[signature] = at
        for key in keys:
            last[key] = at

    def _append(self, statements: list[ApplyStatement], keys: tuple[Key, ...]) -> None:
        self.done.append(statements)
        for key in keys:
            self._last[key] = len(self.done) - 1

    def _fence(self) -> None:
        self._floor = len(self.done) - 1


def grouped(changes: Sequence[RowChange], *, limit: int = DEFAULT_BYTES) -> list[ApplyStatement]:
    """The changes in as few statements as the rule allows, none much longer than `limit` bytes."""
    result: list[ApplyStatement] = []
    for item in _TWINS()(changes, limit):
        if isinstance(item, StatementGroup):
            statement = _statement(item)
            result.append(without_constraints(statement) if item.plan.unconstrained else statement)
        else:
            result.extend(item)
    return result


class _GroupChanges(Protocol):
    """Groups the changes of a batch."""

    def __call__(self, changes: Sequence[RowChange], limit: int, /) -> Sequence[StatementGroup | list[ApplyStatement]]:
        """The groups in order; the statements of a change without a group."""
        ...


def _group(changes: Sequence[RowChange], limit: int) -> Sequence[StatementGroup | list[ApplyStatement]]:
    batch = _StatementBatch(limit)
    for change in changes:
        batch.add(change)
    return batch.done


def _compiled(native: Native) -> _GroupChanges:
    def group(changes: Sequence[RowChange], limit: int) -> Sequence[StatementGroup | list[ApplyStatement]]:
        found = native.grouped(changes, limit, keys_of, _alone, ABSENT, WILD)
        return _group(changes, limit) if found is None else found

    return group


_TWINS: Final[Twins[_GroupChanges]] = Twins(_group, _compiled)


def _statement(group: StatementGroup) -> ApplyStatement:
    plan, changes, count = group.plan, tuple(group.changes), len(group.rows)
    if group.verb is StatementVerb.NOTHING:
        return ApplyStatement(_delete(group, plan.row_key), Expected(affected=0), changes)
    if group.verb is StatementVerb.DELETE:
        expected = ANY if group.safe else Expected(affected=count)
        columns = plan.row_key + (plan.identity if group.safe else plan.verified)
        return ApplyStatement(_delete(group, columns), expected, changes)
    head = insert_head(plan, b"REPLACE" if group.verb is StatementVerb.REPLACE else b"INSERT", plan.columns)
    sql = head + b",".join(group.rows)
    if group.verb is StatementVerb.UPDATE:
        return ApplyStatement(sql + _on_duplicate(plan), Expected(affected=2 * count), changes)
    if group.verb is StatementVerb.REPLACE and (group.safe or plan.unique_indexes == 1):
        return ApplyStatement(sql, ANY, changes)
    return ApplyStatement(sql, Expected(affected=count), changes)


def _delete(group: StatementGroup, columns: tuple[MappedColumn, ...]) -> bytes:
    """DELETE of the rows that have the images' values in these columns, the row key's first."""
    plan = group.plan
    if len(group.images) == 1:
        # MariaDB reads the whole table for a list of one tuple: `(a,b) IN ((1,2))`, but not for two (10.11, EXPLAIN).
        return b"DELETE FROM " + plan.target.sql.encode() + b" WHERE " + holds(plan, columns, group.images[0])
    if not listed(columns):
        where = b" OR ".join([b"(" + holds(plan, columns, image) + b")" for image in group.images])
        return _delete_by_index(plan) + where
    where = _names(plan.row_key) + b" IN (" + b",".join(group.rows) + b")"
    if len(columns) > len(plan.row_key):
        # The first condition is for the optimizer, which only makes ranges of a key's own columns.
        text = plan.all_key_values if columns[len(plan.row_key) :] == plan.verified else listed_text(columns)
        where += b" AND " + _names(columns) + b" IN ("
        where += b",".join([_listed(plan, text, image) for image in group.images]) + b")"
    return _delete_by_index(plan) + where


def _delete_by_index(plan: TablePlan) -> bytes:
    """DELETE of several rows up to its condition.

    A server that takes the table for a small one (just filled or renamed, with old statistics) reads all of it and
    locks every row on the way: lanes then wait for each other's rows, or deadlock. MariaDB has no hint for that in a
    DELETE: FORCE INDEX is for the form with several tables, and is ignored there (10.11, EXPLAIN; the same in MySQL).
    """
    table, index = plan.target.sql, plan.row_index
    if not plan.dialect.hints_indexes or "*/" in plan.target.table + index:
        return f"DELETE FROM {table} WHERE ".encode()
    hint = f"INDEX({Ident(plan.target.table).sql} {Ident(index).sql})"
    return f"DELETE /*+ {hint} */ FROM {table} WHERE ".encode()


def _alone(change: RowChange) -> list[ApplyStatement]:
    """The statements of a movable change: only for a row that has all the keys of the before image."""
    plan, before, single = change.plan, change.before, row_statements(change)
    if before is None or change.safe or not (plan.keyed and plan.verified):
        return single
    sql = single[0].sql.removesuffix(_ONE_ROW) + b" AND " + holds(plan, plan.verified, before) + _ONE_ROW
    return [replace(single[0], sql=sql)]


def _whole(plan: TablePlan, row: Row) -> bytes | None:
    """The row as one of many in an INSERT; None if it needs a statement of its own."""
    if plan.zero_enums and has_zero_enum(plan, row):
        return None
    try:
        return plan.values(row)
    except TypeError:  # encoders raise this for ABSENT; checking for it first would cost time per row
        if any(value is ABSENT for value in row):
            return None
        raise


def _names(columns: tuple[MappedColumn, ...]) -> bytes:
    names = b",".join([column.sql for column in columns])
    return b"(" + names + b")" if len(columns) > 1 else names


def _listed(plan: TablePlan, text: RowText, row: Row) -> bytes:
    """Columns of the row's keys as an element of a list."""
    try:
        return text(row)
    except TypeError:
        for column in plan.row_key + plan.verified:
            known(plan, column, row)  # raises the proper error for a column that the image lacks
        raise


def _on_duplicate(plan: TablePlan) -> bytes:
    new = {column.at: b"VALUES(" + column.sql + b")" for column in plan.columns}
    if plan.unique_indexes > 1 or plan.identity:
        same = b" AND ".join([column.sql + b"<=>" + new[column.at] for column in plan.row_key + plan.verified])
        # Assignments run from left to right: a key column that was set still compares as equal.
        new = {column.at: b"IF(" + same + b"," + new[column.at] + b"," + column.sql + b")" for column in plan.columns}
    return b" ON DUPLICATE KEY UPDATE " + b",".join([column.sql + b"=" + new[column.at] for column in plan.columns])
