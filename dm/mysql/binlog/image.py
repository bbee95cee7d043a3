"""Row images to tuples, one column after another.

An image is the bitmap of its NULLs and the values of the other columns. A value has a fixed size or follows its length.
Nothing here checks the end of the bytes: slicing past it is silent, so the caller compares the end of an image with the
end of the rows.

The compiled decoder (`dm.mysql.binlog.native_rows`) reads nearly all rows. This module is its reference and reads the
rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from dm.errors import DMError
from dm.mysql.binlog import value
from dm.mysql.binlog.compression import decompress_column
from dm.mysql.binlog.json_tree import json_value
from dm.mysql.binlog.table_map import WireColumn
from dm.mysql.binlog.value import ABSENT, Row, Value, decimal_decoder, decimal_size
from dm.mysql.binlog.wire_type import WireCode, WireType

Append = Callable[[Value], None]
Reader = Callable[[bytes, int, Append], int]
"""Appends the value at a place of the bytes; gives the place after it."""


class Fixed(NamedTuple):
    """A column of fixed size: its `struct` layout, and the function that makes a value of its parts."""

    layout: Struct
    function: Callable[..., Any] | None = None  # None: the only part is the value

    def reader(self) -> Reader:
        """The reader of a value."""
        unpack, size, function = self.layout.unpack_from, self.layout.size, self.function

        def part(data: bytes, at: int, append: Append) -> int:
            append(unpack(data, at)[0])
            return at + size

        def made(data: bytes, at: int, append: Append) -> int:
            assert function is not None
            append(function(*unpack(data, at)))
            return at + size

        return part if function is None else made


class SizedColumn(NamedTuple):
    """A column after its length of `width` bytes; `function` makes the value if it is not the bytes."""

    width: int
    function: Callable[[bytes], Any] | None = None

    def reader(self) -> Reader:
        """The reader of a value."""
        width, function = self.width, self.function

        def short(data: bytes, at: int, append: Append) -> int:
            end = at + 1 + data[at]
            append(data[at + 1 : end])
            return end

        def read(data: bytes, at: int, append: Append) -> int:
            begin = at + width
            end = begin + int.from_bytes(data[at:begin], "little")
            value = data[begin:end]
            append(value if function is None else function(value))
            return end

        return short if width == 1 and function is None else read


Step = Fixed | SizedColumn


def fixed(fields: str, function: Callable[..., Any] | None = None) -> Fixed:
    """A column of these little-endian `struct` characters."""
    return Fixed(Struct("<" + fields), function)


_INTEGERS: Final = {
    WireCode.TINY: ("b", "B"),
    WireCode.SHORT: ("h", "H"),
    WireCode.LONG: ("i", "I"),
    WireCode.LONGLONG: ("q", "Q"),
}
_NUMBER_FIELDS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _called(size: int, function: Callable[[bytes], Any]) -> Fixed:
    return fixed(f"{size}s", function)


def _big_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _three_bytes(low: int, high: int) -> int:
    return low | high << 16


def _year(number: int) -> int:
    return number and number + 1900


def _date(low: int, high: int) -> str:
    return value.DATES[low | high << 16]


def _padded(size: int) -> Callable[[bytes], bytes]:
    def pad(raw: bytes) -> bytes:
        return raw.ljust(size, b"\0")

    return pad


def _mariadb_json(raw: bytes) -> str:
    return raw.decode()


def _old_temporal(code: int, digits: int) -> Fixed:
    """TIMESTAMP, DATETIME and TIME from before the version 2 types; those with digits are MariaDB's."""
    if code == WireCode.TIMESTAMP:
        if digits:
            return _called(value.hires_timestamp_size(digits), value.hires_timestamp_decoder(digits))
        return fixed("I", value.old_timestamp)
    if code == WireCode.DATETIME:
        if digits:
            return _called(value.HIRES_DATETIME_SIZE[digits], value.hires_datetime_decoder(digits))
        return fixed("Q", value.old_datetime)
    if digits:
        return _called(value.HIRES_TIME_SIZE[digits], value.hires_time_decoder(digits))
    return _called(3, value.old_time)


def step_of(wire: WireType, column: WireColumn) -> Step:
    """How to read one column."""
    code, size = wire.code, wire.size
    if code in _INTEGERS:
        return fixed(_INTEGERS[WireCode(code)][column.unsigned])
    if code == WireCode.INT24:
        return fixed("HB" if column.unsigned else "Hb", _three_bytes)
    if code == WireCode.FLOAT:
        return fixed("f")
    if code == WireCode.DOUBLE:
        return fixed("d")
    if code == WireCode.YEAR:
        return fixed("B", _year)
    if code == WireCode.NEWDECIMAL:
        return _called(decimal_size(size, wire.scale), decimal_decoder(size, wire.scale))
    if code == WireCode.BIT:
        return _called((size + 7) // 8, _big_endian)
    if code in (WireCode.DATE, WireCode.NEWDATE):
        return fixed("HB", _date)
    if code == WireCode.DATETIME2:
        return _called(5 + value.fraction_size(size), value.datetime2_decoder(size))
    if code == WireCode.TIMESTAMP2:
        return _called(4 + value.fraction_size(size), value.timestamp2_decoder(size))
    if code == WireCode.TIME2:
        return _called(3 + value.fraction_size(size), value.time2_decoder(size))
    if code in (WireCode.TIMESTAMP, WireCode.DATETIME, WireCode.TIME):
        return _old_temporal(code, column.decimals or 0)
    if code in (WireCode.ENUM, WireCode.SET):
        fields = _NUMBER_FIELDS.get(size)
        return fixed(fields) if fields else _called(size, _little_endian)
    if code == WireCode.STRING:
        # Trailing pad characters are not sent; for binary strings these are zero bytes (MySQL source,
        # Field_string::pack).
        padded = column.wire.padded(size)
        return SizedColumn(1 if size <= 255 else 2, _padded(padded) if padded else None)
    if code == WireCode.VARCHAR:
        return SizedColumn(1 if size <= 255 else 2)
    if code == WireCode.VARCHAR_COMPRESSED:
        return SizedColumn(1 if size <= 255 else 2, decompress_column)
    if code == WireCode.BLOB_COMPRESSED:
        return SizedColumn(size, decompress_column)
    if code == WireCode.JSON:
        return SizedColumn(size, json_value)
    if code == WireCode.BLOB and column.wire.document:
        return SizedColumn(size, _mariadb_json)
    if code in (WireCode.BLOB, WireCode.GEOMETRY, WireCode.VECTOR):
        return SizedColumn(size)
    raise DMError(
        "event-unsupported",
        event=f"of a row with a {WireCode(code).name} column",
        why=f"column {column.name} has a type that servers no longer write",
        way_out="rebuild the table at the source (ALTER TABLE .. FORCE), and start after this event",
    )


def _absent(data: bytes, at: int, append: Append) -> int:
    append(ABSENT)
    return at


class ImageReader:
    """Reads the images that hold one set of columns; a step of None is a missing column."""

    def __init__(self, steps: Sequence[Step | None]) -> None:
        self._readers = [_absent if step is None else step.reader() for step in steps]
        self.width = (sum(step is not None for step in steps) + 7) // 8  # bytes of the null bitmap
        self._no_nulls = bytes(self.width)

    def image(self, data: bytes, at: int) -> tuple[Row, int]:
        """The row of the image at data[at] and the end of the image, which may be past the data's end."""
        body = at + self.width
        bitmap = data[at:body]
        at = body
        row: list[Value] = []
        append = row.append
        if bitmap == self._no_nulls:  # most images, at two thirds of the time
            for read in self._readers:
                at = read(data, at, append)
            return tuple(row), at
        nulls = int.from_bytes(bitmap, "little")
        for read in self._readers:
            if read is _absent:
                append(ABSENT)
                continue
            if nulls & 1:
                append(None)
            else:
                at = read(data, at, append)
            nulls >>= 1
        return tuple(row), at
