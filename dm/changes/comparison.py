"""Conditions that find a row again: by its key, or by all of its bytes.

For a key, the server's own equality is right: the unique index uses the same. But the column itself must be compared,
and ENUM, SET and BIT are written as numbers:

- In a list of tuples MySQL compares an ENUM or a SET with the *text* of the number, and MariaDB compares a BIT of 64
  bits as signed: `(e, n) IN ((1, 5))` finds nothing where `e = 1 AND n = 5` does. Such keys are spelled out.
- A SET of many members equals its number in no simple way (`dm.mysql.sql.literal`).

Without a key the condition must find exactly *that* row, so every column is compared for the same bytes:

- `=` on text follows the collation ("a" = "A "), and even the `_bin` ones ignore trailing spaces. So the bytes are
  compared instead, after the literal is converted to the column's character set as an INSERT would do. If the column is
  indexed, the plain comparison is added, so that the index can be used.
- JSON compares numbers by value (1 = 1.0); its printed form does not. The literal is converted through the type.
- A FLOAT is compared with the exact decimal expansion of its double, which the literal encoder writes.
- 0 and -0 are equal to MySQL: the printed sign tells them apart. MariaDB and TiDB store 0 for both.
- Geometries and vectors are compared as bytes, since `=` compares them as shapes or not at all.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Callable, Sequence
from time import gmtime, strftime, strptime

from dm.changes.column_map import MappedColumn
from dm.changes.computing import ZERO, moment_text
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, Value
from dm.mysql.dialect import Dialect, Flavor, dialect
from dm.mysql.sql.literal import EXACT_BITS, equal_members
from dm.type_family import BYTES, CHARACTERS, FIXED_BYTES, FLOATS, INTEGERS, TEMPORAL, TEXTS

Comparison = Callable[[Value], bytes]

_DAY = 86400

_NUMBERED = frozenset({"enum", "set", "bit"})
_SIMPLE = INTEGERS | TEMPORAL | frozenset(FIXED_BYTES) | {"decimal", "bit", "year", "enum"}


def equal(column: MappedColumn, literal: bytes) -> bytes:
    """The condition that a key column has the value of the literal; the server may use an index for it."""
    if literal == b"NULL":
        return column.sql + b"<=>NULL"
    if column.moment:
        return _moment(column.sql, literal)
    return equal_members(column.sql, literal) if column.target.base == "set" else column.sql + b"=" + literal


def listed(columns: Sequence[MappedColumn]) -> bool:
    """Whether a list of literals, or of tuples of them, finds the same as comparing column by column."""
    if any(column.moment for column in columns):
        return False
    if len(columns) == 1:
        target = columns[0].target
        return target.base != "set" or len(target.members) <= EXACT_BITS
    return all(column.target.base not in _NUMBERED for column in columns)


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
    base, there = column.target.base, dialect(flavor)
    if base in TEXTS and column.target.charset != "binary":
        return _null_safe(table, column, _text(column, there, indexed=indexed))
    if base in FLOATS:
        return _null_safe(table, column, _floating(column, signed_zero=there.keeps_negative_zero))
    if base == "json":
        return _null_safe(table, column, _json(column))
    if base == "set":
        return _null_safe(table, column, _members(column))
    if base in _SIMPLE or base in BYTES or base in CHARACTERS:
        return _null_safe(table, column, _plain(column))
    return _null_safe(table, column, _hexadecimal(column))


def _null_safe(table: TableName, column: MappedColumn, compare: Comparison) -> Comparison:
    is_null = column.sql + b" IS NULL"

    def condition(value: Value) -> bytes:
        if value is None:
            return is_null
        if value is ABSENT:
            raise DMError("partial-row-image", table=table, column=column.source.name)
        return compare(value)

    return condition


def _plain(column: MappedColumn) -> Comparison:
    start, encode = column.sql + b"=", column.encode
    if column.moment:
        return lambda value: _moment(column.sql, encode(value))

    def compare(value: Value) -> bytes:
        return start + encode(value)

    return compare


def _members(column: MappedColumn) -> Comparison:
    encode = column.encode

    def compare(value: Value) -> bytes:
        return equal(column, encode(value))

    return compare


def _text(column: MappedColumn, there: Dialect, *, indexed: bool) -> Comparison:
    encode, charset = column.encode, column.target.charset or "utf8mb4"
    if there.stores_texts_in_utf8 and charset == "latin1":  # which it keeps in UTF-8, and takes for ASCII in CONVERT
        charset = "utf8mb4"
    # A TiDB casts a text to as many bytes as the column has characters, and ends the statement where it has more.
    before, closing = (b"HEX(", b")") if there.casts_cut_texts else (b"CAST(", b" AS BINARY)")
    start = before + column.sql + closing + b"=" + before + b"CONVERT("
    end = b" USING " + charset.encode() + b")" + closing
    plain = column.sql + b"=" if indexed else b""

    def compare(value: Value) -> bytes:
        literal = encode(value)
        condition = start + literal + end
        return plain + literal + b" AND " + condition if plain else condition

    return compare


def _floating(column: MappedColumn, *, signed_zero: bool) -> Comparison:
    # With digits (FLOAT(10,0)) MySQL compares with no number beyond the largest of so many, though it stores that one
    # rounded: 10000000000. A sum is compared as it is.
    start = column.sql + (b"=" if column.target.length is None else b"+0e0=")
    encode = column.encode
    sign = b" AND LEFT(CONCAT(" + column.sql + b"),1)="

    def compare(value: Value) -> bytes:
        condition = start + encode(value)
        if value == 0 and signed_zero:
            condition += sign + (b"'-'" if str(value).startswith("-") else b"'0'")
        return condition

    return compare


def _json(column: MappedColumn) -> Comparison:
    encode = column.encode
    start = b"CAST(CAST(" + column.sql + b" AS CHAR) AS BINARY)=CAST(CAST(CAST("
    end = b" AS JSON) AS CHAR) AS BINARY)"

    def compare(value: Value) -> bytes:
        return start + encode(value) + end

    return compare


def _hexadecimal(column: MappedColumn) -> Comparison:
    start, encode = b"HEX(" + column.sql + b")=HEX(", column.encode

    def compare(value: Value) -> bytes:
        return start + encode(value) + b")"

    return compare
