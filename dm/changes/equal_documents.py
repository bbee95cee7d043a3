"""A row in which nothing changes but the types of numbers in JSON documents, as from {"n": 11} to {"n": 11.0}.

MySQL compares documents by value, numbers of any type with each other. So an UPDATE to a row that is equal to the one
that is there changes nothing (`compare_records` in sql/sql_update.cc), and the document keeps its old types. A source's
UPDATE leaves such a row alone as well, but its REPLACE writes it, and so does a MariaDB, whose documents are texts. The
target's documents are made others first, and then what they shall be.

A row without a key is found by its values, the second time by those that the first statement left. No UPDATE of a MySQL
says such a thing of it, so its documents are a MariaDB's then: texts, which an array holds as they are.
"""

from __future__ import annotations

import json
from dataclasses import replace

from dm.changes.column_map import MappedColumn
from dm.changes.plan import TablePlan
from dm.changes.statement import ApplyStatement, Expected, find, update_row
from dm.mysql.binlog.value import ABSENT, Row, Value


def equal_documents(plan: TablePlan, before: Row, after: Row) -> list[MappedColumn]:
    """The columns that change, if all are documents that may be equal to the old ones; else none."""
    if not plan.documents:
        return []
    changed = [column for column in plan.columns if after[column.at] is not ABSENT and _changes(column, before, after)]
    return changed if all(_may_be_equal(column, before[column.at], after[column.at]) for column in changed) else []


def make_others(plan: TablePlan, columns: list[MappedColumn], row: Row) -> bytes:
    """An UPDATE of the row that puts each document into an array."""
    assignments = b",".join([column.sql + b"=JSON_ARRAY(" + column.sql + b")" for column in columns])
    return b"UPDATE %b SET %b WHERE %b LIMIT 1" % (plan.target.sql.encode(), assignments, find(plan, row))


def after_others(plan: TablePlan, before: Row, after: Row, update: ApplyStatement) -> ApplyStatement:
    """The UPDATE of a row that keeps its keys, after another one where the server would take it for none."""
    columns = equal_documents(plan, before, after)
    if not columns:
        return update
    second = replace(update, not_found=())
    if not plan.keyed:
        second = replace(second, sql=update_row(plan, in_arrays(columns, before), after))
    expected = Expected(matched=update.expected.matched)
    return ApplyStatement(make_others(plan, columns, before), expected, update.changes, (second,), update.not_found)


def in_arrays(columns: list[MappedColumn], row: Row) -> Row:
    """The row as `make_others` leaves it."""
    places = {column.at for column in columns}
    return tuple(_in_array(value) if at in places else value for at, value in enumerate(row))


def _in_array(value: Value) -> Value:
    return b"[%b]" % value if isinstance(value, bytes) else f"[{value}]"


def _changes(column: MappedColumn, before: Row, after: Row) -> bool:
    old, new = before[column.at], after[column.at]
    return type(old) is not type(new) or old != new or (column.document and _tree(old) != _tree(new))


def _tree(value: Value) -> object:
    return getattr(value, "tree", None)


def _may_be_equal(column: MappedColumn, old: Value, new: Value) -> bool:
    if not column.document or not isinstance(new, str | bytes):
        return False
    if old is ABSENT:  # nobody knows
        return True
    if not isinstance(old, str | bytes):
        return False
    try:
        return bool(json.loads(old, parse_int=float) == json.loads(new, parse_int=float))
    except ValueError:
        return True  # a number that is none here
