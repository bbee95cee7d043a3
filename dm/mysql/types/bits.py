"""BIT: a number of so many bits, which prints as bytes.

So it is read with a sum, and written as a number: bytes in quotes are a text to a comparison. MariaDB compares a BIT of
64 bits in a list of tuples as signed.
"""

from __future__ import annotations

from typing import Final

from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.sql.cursor import Cursor
from dm.mysql.types.family import ColumnType, DataType, TypedColumn, TypeFamily, length_of, plainly, written_length
from dm.mysql.types.numbers import (
    DECIMAL,
    DOUBLE,
    FLOAT,
    as_integer,
    as_sum,
    exact_bound,
    fold_itself,
    in_digits,
    integers,
    number_text,
    rounded,
)

_FLOAT_BITS: Final = 16  # fewer than six digits have
_DOUBLE_BITS: Final = 53
_LONGEST: Final = 64


def _read(cursor: Cursor, word: str) -> DataType:
    return DataType("bit", length_of(cursor) or 1)


def _mismatch(wire: WireType, column: WireColumn) -> str | None:
    if (column.length or 1) != wire.size:
        return f"it has {column.length or 1} bits and the binlog has {wire.size}"
    return None


def _widens(before: TypedColumn, after: TypedColumn) -> bool:
    return after.type is BIT and (before.length or 1) <= (after.length or 1)


def _keeps(source: TypedColumn, target: TypedColumn) -> bool:
    length, to = source.length or 1, target.type
    if to is DOUBLE:
        return length <= _DOUBLE_BITS
    if to is FLOAT:
        return length <= _FLOAT_BITS
    return to.is_integer or to is BIT or to is DECIMAL


BIT: Final = ColumnType(
    name="bit",
    is_bits=True,
    fills_64_bits=True,
    wire=WireForm((WireCode.BIT,), _mismatch),
    parameters=written_length,
    default_text=lambda column, text: number_text(text, lambda value: value),
    default_is_number=True,
    implicit_default=lambda column: "b'0'",
    widens=_widens,
    keeps=_keeps,
    fold=fold_itself,
    encodes=integers,
    usual=as_integer,
    in_lists=False,
    exact=plainly,
    hashed=in_digits,
    numbered=True,
    compared="number",
    reads_as_number=True,
    shown=as_sum,
    shown_as_text=True,
    value_of=int,
    sorted_alike=True,
    ordered=True,
    selected=lambda name: f"{name} + 0",
    bound=exact_bound,
    computed=rounded,
    operand="integer",
    spark="bits",
    spark_type=lambda column: "decimal(20,0)" if column.length == _LONGEST else "bigint",
)
FAMILY: Final = TypeFamily((BIT,), {"BIT": _read})
