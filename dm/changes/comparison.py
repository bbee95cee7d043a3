"""Conditions that find a row again: by its key, or by all of its bytes.

For a key, the server's own equality is right: the unique index uses the same. Without a key the condition must find
exactly *that* row, so every column is compared for the same bytes. How that is done for a type its file in
`dm.mysql.types` says. Here is the rest: a TIMESTAMP in a session of any zone, NULL, and values that are not there.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Sequence
from time import gmtime, strftime, strptime

from dm.changes.column_map import MappedColumn
from dm.changes.computing import ZERO, moment_text
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, Value
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.types.family import Comparison
from dm.mysql.types.members import EXACT_BITS

_DAY = 86400


def equal(column: MappedColumn, literal: bytes) -> bytes:
    """The condition that a key column has the value of the literal; the server may use an index for it."""
    if literal == b"NULL":
        return column.sql + b"<=>NULL"
    if column.moment:
        return _moment(column.sql, literal)
    return column.equals(column.sql, literal)


def listed(columns: Sequence[MappedColumn]) -> bool:
    """Whether a list of literals, or of tuples of them, finds the same as comparing column by column."""
    if any(column.moment for column in columns):
        return False
    if len(columns) == 1:
        target = columns[0].target
        return not target.type.several_members or len(target.members) <= EXACT_BITS
    return all(column.target.type.in_lists for column in columns)


def _moment(name: bytes, literal: bytes) -> bytes:
    """The condition that a TIMESTAMP is this moment, in a session of any zone.

    A server compares local times, which may stand for two moments; the seconds do not. Any zone is less than a day from
    UTC, so the index finds few others. Where the source's column is no time, the server reads the value, as it does for
    an INSERT; that literal is refused where it would be one of two moments.
    """
    told = moment_text(literal)
    if told is None:
        return name + b"=" + literal
    if told.startswith(ZERO):
        return b"UNIX_TIMESTAMP(" + name + b")=0"
    text, _, fraction = told.decode().partition(".")
    try:
        seconds = timegm(strptime(text, "%Y-%m-%d %H:%M:%S"))
    except ValueError:  # a DATETIME's month of zero, or February 31st, which no TIMESTAMP is
        return b"FALSE"
    first, last = (strftime("%Y-%m-%d %H:%M:%S", gmtime(max(0, seconds + day))) for day in (-_DAY, _DAY))
    moment = f"{seconds}.{fraction}" if fraction else f"{seconds}"
    return (
        name
        + f">='{first}' AND ".encode()
        + name
        + f"<='{last}' AND UNIX_TIMESTAMP(".encode()
        + name
        + (f")={moment}".encode())
    )


def exact(column: MappedColumn, flavor: Flavor, table: TableName, *, indexed: bool) -> Comparison:
    """The condition that the target's column holds exactly the value of a row of this source table."""
    if column.moment:
        return _null_safe(table, column, lambda value: _moment(column.sql, column.encode(value)))
    target, there = column.target, dialect(flavor)
    return _null_safe(table, column, target.type.exact(column.sql, column.encode, target, there, indexed))


def _null_safe(table: TableName, column: MappedColumn, compare: Comparison) -> Comparison:
    is_null = column.sql + b" IS NULL"

    def condition(value: Value) -> bytes:
        if value is None:
            return is_null
        if value is ABSENT:
            raise DMError("partial-row-image", table=table, column=column.source.name)
        return compare(value)

    return condition
