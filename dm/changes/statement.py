"""The statements that write one row at the target, each with the count that the server must report.

Outside safe mode a statement says what the source did, and its count proves that the target matched the source: an
UPDATE must match one row and a DELETE must delete one (an INSERT proves itself by the unique keys).

A strict target refuses an ENUM's error value (number 0, which a lax sql_mode of the source let in). Such a row gets its
own statement with a lax sql_mode, which must cause exactly that many warnings. A TiDB heeds a mode of the session only,
so the statement says that it needs one (`lenient`).

A MariaDB source may have written a row without a look at its CHECKs, and the rows event says so. The plan of such a row
is `unconstrained`: each of its statements has the target's session look at none (`without_constraints`), as a replica
does. A MySQL target can't leave them out, and refuses the row.

In a row nothing may change but the types of numbers in JSON documents, as from {"n": 11} to {"n": 11.0}. MySQL compares
documents by value, numbers of any type with each other. So an UPDATE to a row that is equal to the one that is there
changes nothing (`compare_records` in sql/sql_update.cc), and the document keeps its old types. A source's UPDATE leaves
such a row alone as well, but its REPLACE writes it, and so does a MariaDB, whose documents are texts. The target's
documents are made others first, and then what they shall be.

A row without a key is found by its values, the second time by those that the first statement left. No UPDATE of a MySQL
says such a thing of it, so its documents are a MariaDB's then: texts, which an array holds as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from dm.changes.column_map import MappedColumn
from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.changes.row_hash import row_text
from dm.changes.row_keys import equal
from dm.errors import DMError
from dm.mysql.binlog.value import ABSENT, Row, Value
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.sql.literal import quoted
from dm.session.state import USUAL_MODE, lenient


@dataclass(frozen=True, slots=True)
class Expected:
    """What the server must report for a statement; None: anything."""

    affected: int | None = None
    matched: int | None = None
    warnings: int | None = None
    columns: tuple[str, ...] = ()  # names, without case, of the first columns of its answer
    key: frozenset[str] = frozenset()  # names, likewise, of those that are of their table's primary key; none: any


ANY: Final = Expected()
ONE_MATCHED: Final = Expected(matched=1)
ONE_AFFECTED: Final = Expected(affected=1)


@dataclass(frozen=True, slots=True)
class ApplyStatement:
    """One statement for the target, the count it must report, and the changes it covers."""

    sql: bytes
    expected: Expected
    changes: tuple[RowChange, ...]
    found: tuple[ApplyStatement, ...] = ()  # to be executed next if the statement matched a row
    not_found: tuple[ApplyStatement, ...] = ()  # to be executed next if it matched none
    lenient: bool = False  # to be executed while the session has no strict mode


def key_changed(plan: TablePlan, before: Row, after: Row) -> bool:
    """Whether a column of a unique index has another value, byte by byte."""
    return any(after[at] != before[at] and after[at] is not ABSENT for at in plan.key_columns)


def operation_of(change: RowChange) -> str:
    """The change's name in messages."""
    return change.kind.name


_SHOWN: Final = 64


def key_of(change: RowChange) -> str:
    """The row that an UPDATE or DELETE looks for, in messages: column = target value of its key, cut short."""
    plan, before = change.plan, change.before
    if before is None or not plan.keyed:
        return "(a table without a key: all values are compared)"
    return _keyed(plan, before)


def row_of(change: RowChange) -> str:
    """The row that an INSERT or UPDATE writes, in messages; empty for a table without a key."""
    return _keyed(change.plan, change.after) if change.after is not None and change.plan.keyed else ""


def _keyed(plan: TablePlan, row: Row) -> str:
    return ", ".join(f"{column.target.name} = {shown(row[column.at])}" for column in plan.row_key)


def shown(value: Value) -> str:
    """A value in messages, cut short."""
    text = repr(value.decode("utf-8", "backslashreplace")) if isinstance(value, bytes) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


# ---- statements ----


def insert_row(plan: TablePlan, row: Row) -> bytes:
    """INSERT of one row."""
    columns = present(plan, row)
    return insert_head(plan, b"INSERT", columns) + row_text(columns, b"(", plan.closing)(row)


def replace_row(plan: TablePlan, row: Row) -> bytes:
    """REPLACE of one row."""
    columns = present(plan, row)
    return insert_head(plan, b"REPLACE", columns) + row_text(columns, b"(", plan.closing)(row)


def update_row(plan: TablePlan, before: Row, after: Row) -> bytes:
    """UPDATE of one row to its after image; columns that the image lacks stay as they are."""
    assignments = b",".join(
        [
            column.sql + b"=" + (column.sql if after[column.at] is ABSENT else column.encode(after[column.at]))
            for column in plan.columns
            # The source did not change it, so the target must not set it to its own time.
            if after[column.at] is not ABSENT or column.target.on_update
        ]
        + [column.sql + b"=" + column.updated for column in plan.own if column.updated is not None]
    )
    where = find(plan, before)
    return b"UPDATE " + plan.target.sql.encode() + b" SET " + assignments + b" WHERE " + where + b" LIMIT 1"


def delete_row(plan: TablePlan, before: Row) -> bytes:
    """DELETE of one row."""
    return b"DELETE FROM " + plan.target.sql.encode() + b" WHERE " + find(plan, before) + b" LIMIT 1"


def find(plan: TablePlan, row: Row) -> bytes:
    """The condition that finds the row."""
    if not plan.keyed:
        return b" AND ".join([compare(row[at]) for at, compare in plan.comparisons])
    return holds(plan, plan.row_key + plan.identity, row)


def holds(plan: TablePlan, columns: Sequence[MappedColumn], row: Row) -> bytes:
    """The condition that the target's row has the image's values in these key columns."""
    return b" AND ".join([equal(column, known(plan, column, row)) for column in columns])


def known(plan: TablePlan, column: MappedColumn, row: Row) -> bytes:
    """The literal of a key column, which must be in the image."""
    value = row[column.at]
    if value is ABSENT:
        raise partial_row_image(plan, column)
    return column.encode(value)


def insert_head(plan: TablePlan, verb: bytes, columns: Sequence[MappedColumn]) -> bytes:
    """Everything of INSERT or REPLACE before the first row."""
    own = [column.sql for column in plan.own if column.inserted is not None]
    names = b",".join([*(column.sql for column in columns), *own])
    return verb + b" INTO " + plan.target.sql.encode() + b" (" + names + b") VALUES "


def present(plan: TablePlan, row: Row) -> tuple[MappedColumn, ...]:
    """The columns that an INSERT of this image names: all, unless the source logs less and the defaults agree."""
    if not any(value is ABSENT for value in row):
        return plan.columns
    columns = []
    for column in plan.columns:
        if row[column.at] is not ABSENT:
            columns.append(column)
        elif column.at not in plan.defaults_agree:
            raise partial_row_image(plan, column)
    return tuple(columns)


def partial_row_image(plan: TablePlan, column: MappedColumn) -> DMError:
    """The error for an image that lacks a column."""
    return DMError("partial-row-image", table=plan.source, column=column.source.name)


# ---- the error value of ENUM ----


def has_zero_enum(plan: TablePlan, row: Row) -> bool:
    """Whether some ENUM column of the row has the error value."""
    return bool(plan.zero_enums) and any(row[at] == 0 for at in plan.zero_enums)


def written(
    sql: bytes,
    plan: TablePlan,
    row: Row,
    expected: Expected,
    change: RowChange,
    *,
    found: tuple[ApplyStatement, ...] = (),
    not_found: tuple[ApplyStatement, ...] = (),
) -> ApplyStatement:
    """The statement that writes this row; lenient if the row has the error value."""
    if has_zero_enum(plan, row):
        count = sum(row[at] == 0 for at in plan.zero_enums)
        expected = Expected(expected.affected, expected.matched, count)
        # A MySQL warns of some modes as it takes them, also with a statement, and warnings are counted.
        if not plan.dialect.hints_modes or plan.mode != USUAL_MODE:
            return ApplyStatement(sql, expected, (change,), found, not_found, lenient=True)
        sql = without_strict_modes(plan.flavor, sql)
    return ApplyStatement(sql, expected, (change,), found, not_found)


def without_strict_modes(flavor: Flavor, sql: bytes) -> bytes:
    """The statement as a session takes it that takes what it can of each value, with a warning for what it can't.

    For a session of our usual mode: any other one may decide what the target computes. There, and at a TiDB, which has
    neither of these forms, the session leaves its strict modes: `dm.downstream.exchange`, and `lenient_script`.
    """
    return _lenient_mariadb(sql) if dialect(flavor).has_set_statement else _lenient_mysql(sql)


def lenient_script(flavor: Flavor, sql: bytes) -> bytes:
    """The same for a file that a client reads: what the statement needs around it, without the last one's end."""
    if dialect(flavor).hints_modes:
        return without_strict_modes(flavor, sql)
    before = b"SET @dm_mode = @@SESSION.sql_mode, SESSION sql_mode = " + _LAX
    return b";\n".join((before, sql, b"SET SESSION sql_mode = @dm_mode"))


_LAX: Final = quoted(lenient(USUAL_MODE).encode())


def _lenient_mysql(sql: bytes) -> bytes:
    verb, rest = sql.split(b" ", 1)
    return verb + b" /*+ SET_VAR(sql_mode=" + _LAX + b") */ " + rest


def _lenient_mariadb(sql: bytes) -> bytes:
    return _with_variable(b"sql_mode=" + _LAX, sql)


def without_constraints(statement: ApplyStatement) -> ApplyStatement:
    """The statement, and those that may follow it, as a MariaDB executes it without a look at CHECKs."""
    return replace(
        statement,
        sql=_with_variable(b"check_constraint_checks=0", statement.sql),
        found=tuple(map(without_constraints, statement.found)),
        not_found=tuple(map(without_constraints, statement.not_found)),
    )


def _with_variable(assignment: bytes, sql: bytes) -> bytes:
    """The statement with a session variable of its own; SET STATEMENT takes several, and no other one within it."""
    if sql.startswith(_SET_STATEMENT):
        return _SET_STATEMENT + assignment + b", " + sql.removeprefix(_SET_STATEMENT)
    return _SET_STATEMENT + assignment + b" FOR " + sql


_SET_STATEMENT: Final = b"SET STATEMENT "  # MariaDB since 10.1; CHECKs came with 10.2


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
