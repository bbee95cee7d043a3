"""DATE, TIME, DATETIME and TIMESTAMP.

All travel as the text that a server prints; a TIMESTAMP's is in UTC. TIMESTAMP and DATETIME are two things: the one is
a moment, the other a clock reading in an unknown time zone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.dialect import Dialect
from dm.mysql.sql.cursor import Cursor
from dm.mysql.sql.literal import Usual, printed
from dm.mysql.types.family import (
    ColumnType,
    DataType,
    Fold,
    TypedColumn,
    TypeFamily,
    bare,
    length_of,
    plainly,
    same_name,
)
from dm.mysql.types.numbers import as_chars, fold_itself, prints

_WITH_FRACTION: Final = frozenset({WireCode.TIME2, WireCode.DATETIME2, WireCode.TIMESTAMP2})
INSTANT: Final = "(instant)"
"""Stands for the DEFAULT of a TIMESTAMP, which is written and printed in the session's time zone."""


def _read(cursor: Cursor, word: str) -> DataType:
    return DataType(word.lower(), decimals=length_of(cursor) or 0)


def _fraction(column: TypedColumn) -> str:
    return f"({column.decimals})" if column.decimals else ""


def _mismatch(wire: WireType, column: WireColumn) -> str | None:
    if wire.code in _WITH_FRACTION and (column.decimals or 0) != wire.size:
        return f"it has {column.decimals or 0} fractional digits and the binlog has {wire.size}"
    return None


def _default_text(column: TypedColumn, text: str) -> str:
    parts = [int(part) for part in re.findall(r"\d+", text)]
    while parts and parts[-1] == 0:
        parts.pop()
    if column.type.is_moment and parts:
        return INSTANT
    return ("-" if text.startswith("-") else "") + ":".join(map(str, parts))


def _no_fewer_digits(source: TypedColumn, target: TypedColumn) -> bool:
    return (target.decimals or 0) >= (source.decimals or 0)


def _widens(before: TypedColumn, after: TypedColumn) -> bool:
    return after.type is before.type and _no_fewer_digits(before, after)


def _timed_faithful(source: TypedColumn, target: TypedColumn) -> bool:
    return target.type.is_timed and _no_fewer_digits(source, target)


def _keeps(source: TypedColumn, target: TypedColumn) -> bool:
    of, to = source.type, target.type
    if of is to or (of is DATE and to is DATETIME):
        return _no_fewer_digits(source, target)
    return not of.is_moment and prints(target)


def _fold(source: TypedColumn, target: TypedColumn, prefix: int | None) -> Fold:
    return _without_zeros


def _without_zeros(value: Value) -> Value:
    if not isinstance(value, str):
        return value
    if "." in value:
        value = value.rstrip("0").rstrip(".")
    return value.removeprefix("-") if value == "-00:00:00" else value


def text_bound(column: TypedColumn, value: bytes) -> str:
    """A key's value whose text is in ASCII and needs no escape."""
    text = value.decode("ascii")
    if "'" in text or "\\" in text:
        raise ValueError(f"column {column.name}: {value!r} is not a {column.type.name}")
    return f"'{text}'"


def _computed_date(column: TypedColumn, value: str, there: Dialect) -> str:
    return f"CAST({value} AS DATE)"


def _computed_time(column: TypedColumn, value: str, there: Dialect) -> str:
    as_type = "TIME" if column.type is TIME else "DATETIME"
    return f"CAST({value} AS {as_type}({column.decimals or column.length or 0}))"


DATETIME: Final = ColumnType(
    name="datetime",
    is_temporal=True,
    is_timed=True,
    wire=WireForm((WireCode.DATETIME2, WireCode.DATETIME), _mismatch),
    parameters=_fraction,
    default_text=_default_text,
    widens=_widens,
    faithful=_timed_faithful,
    keeps=_keeps,
    fold=_fold,
    encodes=printed,
    usual=lambda charset: (Usual.PRINTED, b""),
    exact=plainly,
    hashed=lambda column: (b"", b""),
    compared="moment",
    scale_place=0,
    shown=as_chars,
    shown_as_text=True,
    value_of=bytes.decode,
    sorted_alike=True,
    ordered=True,
    bound=text_bound,
    computed=_computed_time,
    plain_text=True,
    operand="datetime",
    spark="moment",
    spark_type=lambda column: "timestamp_ntz",
)
TIMESTAMP: Final = replace(
    DATETIME,
    name="timestamp",
    is_moment=True,
    wire=WireForm((WireCode.TIMESTAMP2, WireCode.TIMESTAMP), _mismatch),
    operand="timestamp",
    spark_type=lambda column: "timestamp",
)
DATE: Final = replace(
    DATETIME,
    name="date",
    is_timed=False,
    wire=WireForm((WireCode.DATE, WireCode.NEWDATE)),
    faithful=same_name,
    fold=fold_itself,
    computed=_computed_date,
    operand="date",
    spark_type=lambda column: "date",
)
TIME: Final = replace(
    DATETIME,
    name="time",
    is_timed=False,
    wire=WireForm((WireCode.TIME2, WireCode.TIME), _mismatch),
    faithful=_widens,
    compared="time",
    operand="time",
    spark="duration",
)
FAMILY: Final = TypeFamily(
    (DATE, TIME, DATETIME, TIMESTAMP), {"DATE": bare, **dict.fromkeys(("TIME", "DATETIME", "TIMESTAMP"), _read)}
)
