"""Bytes: BINARY, VARBINARY and the four BLOBs.

BINARY pads with zero bytes, which row events leave out. An index pads too, whichever side's column is the BINARY: so
zeros at the end are no part of a key.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Final

from dm.mysql.binlog.charset import max_bytes
from dm.mysql.binlog.table_map import WireColumn, WireForm
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode, WireType
from dm.mysql.dialect import Dialect
from dm.mysql.sql.cursor import Cursor
from dm.mysql.types.family import (
    ColumnType,
    DataType,
    Fold,
    TypedColumn,
    TypeFamily,
    as_it_is,
    length_of,
    plainly,
    unlimited,
    with_length,
    written_length,
)
from dm.mysql.types.numbers import in_digits

# Each prefix of TEXT and BLOB, with the most bytes of a value.
LONG_SIZES: Final = (("tiny", 255), ("", 65_535), ("medium", 16_777_215), ("long", 4_294_967_295))
TINY: Final = 255
LARGEST_VARCHAR: Final = 65_535
_LONG_PART: Final = 64


def sized(kind: str, size: int) -> str:
    """The smallest of the four BLOB or TEXT types that holds so many bytes."""
    for prefix, limit in LONG_SIZES:
        if size <= limit:
            return prefix + kind
    return "long" + kind


def sized_by_converting(column: TypedColumn, before: TypedColumn, width: int) -> str | None:
    """The TEXT or BLOB that MySQL makes of a changed column beside CONVERT TO CHARACTER SET; None: the written one.

    It chooses by the length that the column had before, whatever size is written (but for LONGTEXT and LONGBLOB): that
    of a VARCHAR in characters, of a TEXT in bytes, each divided by the most bytes that a character had. `width`: the
    most that one has now. Found by trying MySQL 9.7 (`tests/live/schema/test_converted_sizes.py`).
    """
    longest = LONG_SIZES[-1][1]
    if column.type.most_bytes in (None, longest) or not (before.type.is_text or before.type.is_bytes):
        return None
    length = before.type.most_bytes or before.length or 1
    characters = length // max_bytes(before.charset)
    return sized("text", characters * width) if column.type.is_text else sized("blob", characters)


def settle_long(data_type: DataType, width: int) -> None:
    """BLOB(n) and TEXT(n) are the smallest type that holds n characters."""
    if data_type.length is not None:
        data_type.base, data_type.length = sized(data_type.base, data_type.length * width), None


def settle_variable(kind: str, data_type: DataType, width: int) -> None:
    """A type of variable length that is too long becomes a BLOB or TEXT, if the mode is not strict."""
    # No error without strict mode (prepare_blob_field in sql/sql_table.cc of both).
    size = (data_type.length or 0) * width
    if size > LARGEST_VARCHAR:
        data_type.base, data_type.length = sized(kind, size), None


def length_mismatch(wire: WireType, most: int | None) -> str | None:
    """The difference of the greatest byte length, where that is known."""
    if most is not None and wire.code != WireCode.VARCHAR_COMPRESSED and most != wire.size:
        return f"it takes up to {most} bytes and the binlog has {wire.size}"
    return None


def long_wire(size: int) -> tuple[tuple[WireCode, ...], int]:
    """The codes of a BLOB or TEXT, and the bytes of its length."""
    return (WireCode.BLOB, WireCode.BLOB_COMPRESSED), (size.bit_length() + 7) // 8


def width_mismatch(width: int, wire: WireType) -> str | None:
    """The difference in the bytes of a BLOB's length."""
    if wire.code == WireCode.BLOB and wire.size != width:
        return f"its lengths take {width} bytes and the binlog's take {wire.size}"
    return None


def short_part(part: bytes) -> bytes:
    """A part of a key, its hash where it is long."""
    return part if len(part) <= _LONG_PART else blake2b(part, digest_size=16).digest()


def by_sum(column: TypedColumn) -> tuple[bytes, bytes]:
    """A hash of long bytes."""
    return b"SHA2(CAST(", b" AS BINARY),256)"


def tiny_prefix(column: TypedColumn, prefix: int, width: int) -> bool:
    """Whether a prefix has the whole of a TINYBLOB or TINYTEXT."""
    return prefix >= TINY // width


def _read_binary(cursor: Cursor, word: str) -> DataType:
    length = length_of(cursor)
    return DataType("binary", 1 if length is None else length)


def _mismatch(wire: WireType, column: WireColumn) -> str | None:
    return length_mismatch(wire, column.length)


def _widens(before: TypedColumn, after: TypedColumn) -> bool:
    if after.type is VARBINARY:
        return before.type is VARBINARY and (before.length or 1) <= (after.length or 1)
    if after.type not in BLOBS or before.type is BINARY:
        return False
    most = before.type.most_bytes
    return (before.length or 1 if most is None else most) <= (after.type.most_bytes or 0)


def _faithful(source: TypedColumn, target: TypedColumn) -> bool:
    """Where nothing is padded."""
    return target.type.is_bytes and target.type is not BINARY


def _as_long_or_variable(source: TypedColumn, target: TypedColumn) -> bool:
    return _faithful(source, target) or (target.type is BINARY and source.length == target.length)


def _fold(source: TypedColumn, target: TypedColumn, prefix: int | None) -> Fold:
    def fold(value: Value) -> Value:
        return short_part(value[:prefix].rstrip(b"\0")) if isinstance(value, bytes) else value

    return fold


def _bound(column: TypedColumn, value: bytes) -> str:
    return f"x'{value.hex()}'"


def _computed_binary(column: TypedColumn, value: str, there: Dialect) -> str:
    return f"CAST({value} AS BINARY({column.length or 1}))"


def _empty(column: TypedColumn) -> str:
    return "''"


VARBINARY: Final = ColumnType(
    name="varbinary",
    is_bytes=True,
    wire=WireForm((WireCode.VARCHAR, WireCode.VARCHAR_COMPRESSED), _mismatch, content="bytes", provable=True),
    parameters=written_length,
    settled=lambda data_type, width: settle_variable("blob", data_type, width),
    implicit_default=_empty,
    widens=_widens,
    faithful=_faithful,
    keeps=_faithful,
    fold=_fold,
    exact=plainly,
    hashed=in_digits,
    compared="bytes",
    shown=as_it_is,
    sorted_alike=True,
    ordered=True,
    bound=_bound,
    operand="text",
)
BINARY: Final = replace(
    VARBINARY,
    name="binary",
    pads_with_zeros=True,
    wire=WireForm((WireCode.STRING,), _mismatch, content="bytes", provable=True, padded=lambda size: size),
    settled=lambda data_type, width: None,
    default_text=lambda column, text: text.rstrip("\0"),
    faithful=_as_long_or_variable,
    keeps=_as_long_or_variable,
    computed=_computed_binary,
)


def _blob(prefix: str, size: int) -> ColumnType:
    codes, width = long_wire(size)
    tiny = size == TINY
    return replace(
        VARBINARY,
        name=f"{prefix}blob",
        wire=WireForm(codes, lambda wire, column: width_mismatch(width, wire), content="bytes", provable=True),
        parameters=lambda column: "",
        settled=settle_long if not prefix else lambda data_type, width: None,
        most_bytes=size,
        needs_prefix=True,
        whole_prefix=lambda column, part: tiny and tiny_prefix(column, part, 1),
        implicit_default=lambda column: None,
        value_size=(lambda column: (column.length or 1, column.decimals or 0)) if tiny else unlimited,
        hashed=in_digits if tiny else by_sum,
        long=not tiny,
        outside=True,
        large=size > LARGEST_VARCHAR,
    )


BLOBS: Final = tuple(_blob(prefix, size) for prefix, size in LONG_SIZES)
FAMILY: Final = TypeFamily(
    (BINARY, VARBINARY, *BLOBS),
    {
        "BINARY": _read_binary,
        "VARBINARY": with_length,
        "BLOB": with_length,
        **dict.fromkeys(("TINYBLOB", "MEDIUMBLOB", "LONGBLOB"), lambda cursor, word: DataType(word.lower())),
    },
)
