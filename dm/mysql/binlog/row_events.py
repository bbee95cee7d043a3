"""Row events: read up to the rows themselves, and made anew for the BINLOG statement.

Events are **read** up to the table, the columns and the place of the row images. `dm.mysql.binlog.decode` decodes the
images when a row is wanted; the images of a filtered table stay unread. Layout: MySQL source, Rows_event; version 2
adds the length-prefixed extra data to version 1's fixed part.

Consecutive events may be read together: rows events, and whole transactions of rows. Only the extension does that.
Python, the reference, reads one event after another (`dm.mysql.binlog.reader`), so the Python twins here find nothing.

Events are **made anew** for a server that is handed them. The images are the source's, byte for byte. Everything around
them is made here: so nothing of an event reaches the target that nobody has looked at, and the events are in the form
of the target's own version, whatever the source's is.

- A format description comes first, once in each session. It names the target's own version, and says that events have
  no checksum: they come from this process over a session of their own, and are gone afterwards.
- A table map is cut down to what rows are read by: names (the target's), types, their metadata, and which columns take
  NULL. What else a source says of a table (signs, character sets, names of columns) no server asks for here.
- A rows event holds all columns, but for a before image that is cut (`dm.mysql.binlog.image_cut`). MySQL has it in
  version 2 of the format, MariaDB in version 1, as each writes it.

Layouts: MySQL source, libs/mysql/binlog/event (Format_description_event, Table_map_event, Rows_event); MariaDB source,
sql/log_event.h.
"""

from __future__ import annotations

import struct
import zlib
from binascii import b2a_base64
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from dm.accelerator.native import shared
from dm.accelerator.switch import Twins
from dm.gtid import Gtid
from dm.ident import TableName
from dm.mysql.binlog.compression import LARGEST_UNPACKED, decompress_event
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER, HEADER_SIZE, EventType
from dm.mysql.binlog.table_map import TABLE_ID_SIZE, TableMap
from dm.mysql.binlog.transaction import uuid_texts
from dm.mysql.dialect import dialect

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


STMT_END_F: Final = 0x1  # the server closes the table after the event

_TABLE_ID: Final = (1).to_bytes(TABLE_ID_SIZE, "little")  # one table at a time
_BIT_LENGTHS_F: Final = 0x1  # the metadata of BIT columns is exact, as it is of every server of today
_GENERATED_KEY_F: Final = 0x4  # MySQL: the source has made the primary key by itself
_NO_EXTRA_DATA: Final = struct.pack("<H", 2)  # version 2: its own length
_VERSION_BYTES: Final = 50
# Bytes of the fixed part of each event, by type, up to the last that is sent here (MySQL 5.6 and MariaDB 10 agree on
# them); the server takes a shorter list than its own as one of an older version.
_FIXED_PARTS: Final = bytes(
    [56, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 92, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 42, 42, 0]
)
_ROWS: Final[dict[RowsKind, EventType]] = {
    "insert": EventType.WRITE_ROWS,
    "update": EventType.UPDATE_ROWS,
    "delete": EventType.DELETE_ROWS,
}
_ROWS_V1: Final[dict[RowsKind, EventType]] = {
    "insert": EventType.WRITE_ROWS_V1,
    "update": EventType.UPDATE_ROWS_V1,
    "delete": EventType.DELETE_ROWS_V1,
}


def _header(code: EventType, size: int) -> bytes:
    return HEADER.pack(0, code, 0, HEADER_SIZE + size, 0, 0)


def format_description(version_text: str) -> bytes:
    """The format description of a stream of events without checksums, in the name of a server of this version."""
    version = version_text.encode("ascii", "replace")[: _VERSION_BYTES - 1]
    body = struct.pack("<H", 4) + version.ljust(_VERSION_BYTES, b"\0") + bytes(4) + bytes([HEADER_SIZE]) + _FIXED_PARTS
    # The algorithm, then the checksum that this event has in any case.
    event = HEADER.pack(0, EventType.FORMAT_DESCRIPTION, 0, HEADER_SIZE + len(body) + 1 + CHECKSUM_SIZE, 0, 0)
    event += body + b"\0"
    return event + struct.pack("<I", zlib.crc32(event))


class RowEvents:
    """Makes the events of one table's rows under the table's name at the target."""

    def __init__(self, table_map: TableMap, target: TableName, found_by: Sequence[int] = ()) -> None:
        """`found_by`: the places of the columns that images before have; none: they have all."""
        extra = dialect(table_map.flavor).rows_have_extra_data
        self._codes = _ROWS if extra else _ROWS_V1
        count = len(table_map.columns)
        named = _named(table_map, target)
        self._table_map = _header(EventType.TABLE_MAP, len(named)) + named
        self._count = _packed(count)
        after = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
        before = sum(1 << at for at in found_by).to_bytes((count + 7) // 8, "little") if found_by else after
        self._bitmaps: dict[RowsKind, bytes] = {"insert": after, "update": before + after, "delete": before}
        self._extra = _NO_EXTRA_DATA if extra else b""

    def pieces(self, kind: RowsKind, images: Sequence[bytes], *, foreign_keys: bool) -> list[bytes]:
        """The table map and the rows event of these images, an update's before and after by turns, in order."""
        flags = STMT_END_F | (0 if foreign_keys else NO_FOREIGN_KEY_CHECKS_F)
        body = _TABLE_ID + struct.pack("<H", flags) + self._extra + self._count + self._bitmaps[kind]
        header = _header(self._codes[kind], len(body) + sum(map(len, images)))
        return [self._table_map, header, body, *images]


def binlog_statement(pieces: Sequence[bytes]) -> bytes:
    """The statement that has a server execute the events, which come in pieces."""
    return _TWINS()(pieces)


def _joined(pieces: Sequence[bytes]) -> bytes:
    return b"BINLOG '" + b2a_base64(b"".join(pieces), newline=False) + b"'"


_TWINS: Final[Twins[Callable[[Sequence[bytes]], bytes]]] = Twins(_joined, lambda native: native.binlog_statement)


def statement_room(limit: int) -> int:
    """How many bytes of images a statement of so many bytes may hold."""
    return max(limit // 4 * 3 - _AROUND_IMAGES, 0)


_AROUND_IMAGES: Final = (
    4096 + 64
)  # headers and bitmaps; a table map of 4096 columns goes beyond, and so may a statement


def _named(table_map: TableMap, target: TableName) -> bytes:
    """The body of the table map under another name, without what stands after its columns."""
    cursor = ByteCursor(table_map.content)
    kept = _BIT_LENGTHS_F | (_GENERATED_KEY_F if dialect(table_map.flavor).flags_generated_key else 0)
    flags = cursor.uint(2) & kept
    for _ in ("schema", "table"):
        cursor.short_bytes()
        cursor.nul()
    start = cursor.at
    count = cursor.packed()
    cursor.take(count)
    cursor.packed_bytes()
    cursor.take((count + 7) // 8)
    names = b"".join(_short(name) + b"\0" for name in (target.schema, target.table))
    return _TABLE_ID + struct.pack("<H", flags) + names + table_map.content[start : cursor.at]


def _short(name: str) -> bytes:
    raw = name.encode()
    if len(raw) > 255:
        raise Malformed("a name is longer than its length's byte")
    return bytes([len(raw)]) + raw


def _packed(number: int) -> bytes:
    """A length-encoded integer (MySQL source documentation, "Basic data types": int<lenenc>)."""
    return bytes([number]) if number < 0xFB else b"\xfc" + struct.pack("<H", number)


PLAIN_ROWS: Final = {code: form for code, form in ROWS_TYPES.items() if not form.compressed}
"""The types of rows events that are read so."""

_RowsItem = TypeVar("_RowsItem", bound=tuple[TableMap, Rows])


@shared
class StreamState(NamedTuple):
    """The compiled readers' state of a stream."""

    trailing: int  # bytes after the body of an event
    bodies: dict[bytes, TableMap]  # the table maps by their bodies, after the table's number
    wanted: dict[bytes, TableMap]  # of these, those of tables that are wanted under any number
    maps: dict[int, TableMap | None]  # by their numbers; None: skip the rows
    forms: dict[int, RowsForm]  # of the types of rows events
    sessions: Mapping[bytes, object]  # known sessions, by their bytes


@shared
class FoundRows(NamedTuple, Generic[_RowsItem]):
    """Consecutive rows events."""

    items: list[_RowsItem]
    rows_size: int  # bytes of the items' events
    size: int  # bytes of all events read
    end: int  # the place of the first event not read


@shared
class FoundTransaction(NamedTuple, Generic[_RowsItem]):
    """A transaction of rows alone, in the terms of its events."""

    source: bytes | int | None  # of its GTID: MySQL's number of the server, MariaDB's domain
    number: int
    server_id: int
    timestamp: int  # of its end
    items: list[_RowsItem]
    rows_size: int  # bytes of the items' events
    size: int  # bytes of the events after the GTID
    length: int  # bytes of all its events


class RowsOf(Protocol):
    """The loop over consecutive rows events."""

    def __call__(
        self, events: Sequence[RawEvent], at: int, state: StreamState, made: type[_RowsItem], /
    ) -> FoundRows[_RowsItem]:
        """The events at a place."""
        ...


class TransactionsOf(Protocol):
    """The loop over transactions."""

    def __call__(
        self, events: Sequence[RawEvent], at: int, state: StreamState, largest: int, made: type[_RowsItem], /
    ) -> tuple[list[FoundTransaction[_RowsItem]], int]:
        """The transactions at a place, and their end."""
        ...


def no_rows(
    events: Sequence[RawEvent], at: int, state: StreamState | None, made: type[_RowsItem]
) -> FoundRows[_RowsItem]:
    """Finds none."""
    return FoundRows([], 0, 0, at)


def _no_transactions(
    events: Sequence[RawEvent], at: int, state: StreamState, largest: int, made: type[_RowsItem]
) -> tuple[list[FoundTransaction[_RowsItem]], int]:
    return [], at


ROWS_OF: Final[Twins[RowsOf]] = Twins(no_rows, lambda native: native.rows_of)
TRANSACTIONS_OF: Final[Twins[TransactionsOf]] = Twins(_no_transactions, lambda native: native.transactions_of)


def gtid_of(found: FoundTransaction[Any]) -> Gtid | None:
    """The GTID of a transaction."""
    source = found.source
    if source is None:
        return None
    if isinstance(source, bytes):
        return Gtid("mysql", uuid_texts[source], found.number)
    return Gtid("mariadb", str(source), found.number, found.server_id)
