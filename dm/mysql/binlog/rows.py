"""Row events, up to the rows themselves: the table, the columns, the place of the row images.

`dm.mysql.binlog.decode` decodes the images when a row is wanted; the images of a filtered table stay unread. Layout:
MySQL source, Rows_event; version 2 adds the length-prefixed extra data to version 1's fixed part.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Literal, NamedTuple

from dm.accelerator.structures import shared
from dm.mysql.binlog.compression import LARGEST_UNPACKED, decompress_event
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.header import EventType

RowsKind = Literal["insert", "update", "delete"]

NO_FOREIGN_KEY_CHECKS_F: Final = 0x2
NO_CHECK_CONSTRAINT_CHECKS_F: Final = 0x80  # MariaDB's alone (sql/log_event.h); MySQL has no such flag
TIME_SIZE: Final = 4
"""Bytes of the time that stands first in an event."""

_FIXED_V1 = Struct("<IHH")  # table id (4 + 2 bytes), flags
_FIXED_V2 = Struct("<IHHH")  # the same, length of the extra data (its own two bytes included)


@shared
class RowsForm(NamedTuple):
    """What a type of rows events implies for all its events."""

    kind: RowsKind
    version2: bool  # it has extra data
    compressed: bool
    partial: bool  # partial JSON


_TYPES: Final[dict[EventType, RowsForm]] = {
    EventType.WRITE_ROWS_V1: RowsForm("insert", False, False, False),
    EventType.UPDATE_ROWS_V1: RowsForm("update", False, False, False),
    EventType.DELETE_ROWS_V1: RowsForm("delete", False, False, False),
    EventType.WRITE_ROWS: RowsForm("insert", True, False, False),
    EventType.UPDATE_ROWS: RowsForm("update", True, False, False),
    EventType.DELETE_ROWS: RowsForm("delete", True, False, False),
    EventType.PARTIAL_UPDATE_ROWS: RowsForm("update", True, False, True),
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1: RowsForm("insert", False, True, False),
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1: RowsForm("update", False, True, False),
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1: RowsForm("delete", False, True, False),
    EventType.MARIADB_WRITE_ROWS_COMPRESSED: RowsForm("insert", True, True, False),
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED: RowsForm("update", True, True, False),
    EventType.MARIADB_DELETE_ROWS_COMPRESSED: RowsForm("delete", True, True, False),
}

# Plain integers are the faster keys.
ROWS_TYPES: Final = {int(code): form for code, form in _TYPES.items()}


@shared
class Rows(NamedTuple):
    """Row changes of one statement in one table: images between data[start:end], not decoded.

    `data` begins with the first bytes of the event's header, its time, wherever the images come from.
    `present` and `present_after` are the bitmaps of the columns the images hold; `present_after` is that of the
    second image of an update and equals `present` otherwise.
    """

    kind: RowsKind
    table_id: int
    column_count: int
    present: bytes
    present_after: bytes
    data: bytes
    start: int
    end: int
    flags: int
    partial: bool

    @property
    def timestamp(self) -> int:
        """When the statement began at the source, in seconds: its NOW()."""
        return int.from_bytes(self.data[:TIME_SIZE], "little")

    @property
    def foreign_keys_unchecked(self) -> bool:
        """Whether the source checked no foreign key: checks were off, or a foreign key made this change."""
        return bool(self.flags & NO_FOREIGN_KEY_CHECKS_F)

    @property
    def constraints_unchecked(self) -> bool:
        """Whether the source looked at no CHECK: the session had `check_constraint_checks` off."""
        return bool(self.flags & NO_CHECK_CONSTRAINT_CHECKS_F)

    @property
    def whole(self) -> bool:
        """Whether the images hold every column."""
        bits = int.from_bytes(self.present, "little") & int.from_bytes(self.present_after, "little")
        return (bits & (1 << self.column_count) - 1) == (1 << self.column_count) - 1

    @property
    def body(self) -> memoryview:
        """The bytes of the row images."""
        return memoryview(self.data)[self.start : self.end]


def parse_rows(data: bytes, at: int, end: int, event_type: int, largest: int = LARGEST_UNPACKED) -> Rows:
    """Read a rows event's fixed part and bitmaps."""
    kind, version2, compressed, partial = ROWS_TYPES[event_type]
    if version2:
        low, high, flags, extra = _FIXED_V2.unpack_from(data, at)
        if extra < 2:
            raise Malformed("the extra data is shorter than its own length")
        at += 8 + extra
    else:
        low, high, flags = _FIXED_V1.unpack_from(data, at)
        at += 8
    count = data[at]
    if count < 0xFB:
        at += 1
    else:
        cursor = ByteCursor(data, at, end)
        count = cursor.packed()
        at = cursor.at
    width = (count + 7) >> 3
    present = present_after = data[at : at + width]
    at += width
    if kind == "update":
        present_after = data[at : at + width]
        at += width
    if at > end or count == 0:
        raise Malformed("it is shorter than its bitmaps")
    if compressed:
        data = data[:TIME_SIZE] + decompress_event(data[at:end], largest)
        at, end = TIME_SIZE, len(data)
    return Rows(kind, low | high << 32, count, present, present_after, data, at, end, flags, partial)
