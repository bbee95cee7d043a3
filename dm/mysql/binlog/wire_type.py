"""A column's type from a table map: a type code and a few bytes of metadata, resolved for reading the bytes.

ENUM, SET and CHAR/BINARY all have the code STRING. The metadata's first byte is the real type, but for strings longer
than 255 bytes it also contains two bits of the length, inverted (MySQL source, Field_string::do_save_field_metadata and
Table_map_event). BIT's two bytes are (bits modulo 8, whole bytes).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from dm.mysql.binlog.cursor import ByteCursor, Malformed


class WireCode(IntEnum):
    """Type codes of both families (MySQL source, enum_field_types; 140 and 141 are MariaDB's)."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    BLOB_COMPRESSED = 140
    VARCHAR_COMPRESSED = 141
    VECTOR = 242
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class UnknownType(Malformed):
    """Raised for a type code that no known server writes."""


class WireType(NamedTuple):
    """A resolved type; what the numbers mean depends on the code.

    size: bytes of an ENUM's or SET's number; the greatest byte length of CHAR, BINARY, VARCHAR, VARBINARY; bytes of a
    BLOB's, JSON's, GEOMETRY's or VECTOR's length; bits of a BIT; precision of a DECIMAL; fractional digits of a time.
    scale: of a DECIMAL.
    """

    code: int
    size: int = 0
    scale: int = 0


NUMERIC: Final = frozenset(
    (
        WireCode.TINY, WireCode.SHORT, WireCode.INT24, WireCode.LONG, WireCode.LONGLONG, WireCode.NEWDECIMAL,
        WireCode.FLOAT, WireCode.DOUBLE, WireCode.DECIMAL,
    )
)  # fmt: skip
CHARACTER: Final = frozenset(
    (WireCode.STRING, WireCode.VAR_STRING, WireCode.VARCHAR, WireCode.BLOB, WireCode.VECTOR)
)  # is_character_type of MySQL's log_event.cc
# In its optional metadata MariaDB counts GEOMETRY and COMPRESSED columns as character columns, too.
MORE_CHARACTER: Final = CHARACTER | {WireCode.GEOMETRY, WireCode.VARCHAR_COMPRESSED, WireCode.BLOB_COMPRESSED}

_BARE = frozenset(
    (
        WireCode.TINY, WireCode.SHORT, WireCode.LONG, WireCode.NULL, WireCode.TIMESTAMP, WireCode.LONGLONG,
        WireCode.INT24, WireCode.DATE, WireCode.TIME, WireCode.DATETIME, WireCode.YEAR, WireCode.NEWDATE,
    )
)  # fmt: skip
_LENGTH_BYTES = frozenset(
    (
        WireCode.BLOB, WireCode.TINY_BLOB, WireCode.MEDIUM_BLOB, WireCode.LONG_BLOB, WireCode.JSON, WireCode.GEOMETRY,
        WireCode.VECTOR, WireCode.BLOB_COMPRESSED,
    )
)  # fmt: skip
_FRACTION = frozenset((WireCode.TIMESTAMP2, WireCode.DATETIME2, WireCode.TIME2))
_VARIABLE = frozenset((WireCode.VARCHAR, WireCode.VARCHAR_COMPRESSED))


def _string(first: int, second: int) -> WireType:
    if first & 0x30 != 0x30:
        return WireType(WireCode.STRING, second | (first & 0x30 ^ 0x30) << 4)
    if first in (WireCode.ENUM, WireCode.SET):
        if not 1 <= second <= 8:
            raise Malformed(f"an ENUM or SET takes {second} bytes")
        return WireType(first, second)
    if first in (WireCode.STRING, WireCode.VAR_STRING):
        return WireType(WireCode.STRING, second)
    raise Malformed(f"type {first} is no kind of string")


def resolve(code: int, metadata: ByteCursor) -> WireType:
    """The type of one column; reads its bytes from the table map's metadata block."""
    if code in _BARE:
        return WireType(code)
    if code == WireCode.STRING:
        return _string(metadata.uint(1), metadata.uint(1))
    if code in (WireCode.ENUM, WireCode.SET):
        metadata.take(1)
        return _string(code, metadata.uint(1))
    if code in _VARIABLE or code == WireCode.VAR_STRING:
        return WireType(WireCode.VARCHAR if code == WireCode.VAR_STRING else code, metadata.uint(2))
    if code in _LENGTH_BYTES:
        size = metadata.uint(1)
        if not 1 <= size <= 4:
            raise Malformed(f"a BLOB's length takes {size} bytes")
        return WireType(code, size)
    if code in _FRACTION:
        size = metadata.uint(1)
        if size > 6:
            raise Malformed(f"{size} fractional digits")
        return WireType(code, size)
    if code == WireCode.NEWDECIMAL:
        precision, scale = metadata.uint(1), metadata.uint(1)
        if not (1 <= precision <= 65 and scale <= min(precision, 38)):
            raise Malformed(f"DECIMAL({precision},{scale})")
        return WireType(code, precision, scale)
    if code == WireCode.BIT:
        bits, whole = metadata.uint(1), metadata.uint(1)
        size = whole * 8 + bits
        if bits > 7 or not 1 <= size <= 64:
            raise Malformed(f"BIT({size})")
        return WireType(code, size)
    if code in (WireCode.FLOAT, WireCode.DOUBLE):
        if (size := metadata.uint(1)) != (4 if code == WireCode.FLOAT else 8):
            raise Malformed(f"a floating-point number takes {size} bytes")
        return WireType(code, size)
    raise UnknownType(f"column type {code} is not known")
