"""Events as servers write them, those about the stream itself, and the stream that the syncer reads.

Two implementations share one contract: the relay's files on this host (`RelayEventSource`) and our own dump connection
(`RemoteEventSource`). For one range of a binlog both yield the same events. A reader must know:

- `start` is the end of a transaction (or the start of a file). Offset 4 means from the file's first event on. A start
  without a file is found by its GTID set, and transactions of that set may still come: the caller knows its set.
- A start inside a file first yields the file's format description, marked artificial, with the start itself as its end.
- The stream includes the files' rotations and format descriptions, but not the dump thread's fake rotations: file and
  end offset are on every event. It includes heartbeats, as proof that there is nothing else. All events that are in no
  file carry LOG_EVENT_ARTIFICIAL_F or have a heartbeat type, and their end offset is the previous event's.
- None means: no more for the moment. The stream yields it whenever the reader has everything, and again with each
  period of silence.
- After a lost connection the stream continues with the next event; nothing is repeated or left out. If that is
  impossible, it raises a DMError, and the reader has to start from its own checkpoint.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, Self

from dm.accelerator.native import shared
from dm.errors import DMError
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, EventHeader, EventType, parse_header
from dm.mysql.dialect import Flavor, dialect, flavor_of
from dm.position import Position

BinlogType = Literal["local", "remote"]


class SourceEvent(NamedTuple):
    """An event and its end; `end_offset` is counted in the file, so it is right above 4 GiB, too."""

    raw: RawEvent
    server_uuid: str
    file: str
    end_offset: int


class SourceRun(NamedTuple):
    """Consecutive events of a file, none of them artificial, from `offset` to `end_offset`."""

    events: Sequence[RawEvent]
    server_uuid: str
    file: str
    offset: int
    end_offset: int

    def apart(self) -> Iterator[SourceEvent]:
        """The events, one at a time."""
        end = self.offset
        for event in self.events:
            end += len(event.data)
            yield SourceEvent(event, self.server_uuid, self.file, end)


class EventSource(Protocol):
    """Where events come from."""

    @property
    def status(self) -> BinlogType:
        """DM's `binlogType`: from relay files or from the server itself."""
        ...

    @property
    def trouble(self) -> DMError | None:
        """Why no event comes now, while the source retries."""
        ...

    def complete(self, start: Position) -> Position:
        """The start with server uuid, file and GTID set filled in from what the source knows."""
        ...

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        """Everything after `start`, endlessly, until `stop` is set."""
        ...

    def runs(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """The same, with events that are available together in one piece."""
        ...


class RawEvent(NamedTuple):
    """A header and the whole event: header, body, and the checksum where the stream has checksums."""

    header: EventHeader
    data: bytes

    @classmethod
    def of(cls, data: bytes) -> Self:
        """The event in these bytes; they must hold at least a header."""
        return cls(parse_header(data), data)

    def body(self, checksum: bool) -> bytes:
        """The bytes between header and checksum."""
        return self.data[HEADER_SIZE : len(self.data) - CHECKSUM_SIZE if checksum else None]


@shared
class CheckedEvent(RawEvent):
    """An event whose reader has verified the checksum, so that it is not computed again."""

    __slots__ = ()


class InnerEvent(RawEvent):
    """An event from a transaction payload: it has no checksum, whatever the stream has."""

    __slots__ = ()


# Events about the stream itself: its format, its files, its liveness.

_VERSION = re.compile(r"^(\d+)\.(\d+)\.(\d+)")

# The fixed parts this package reads; another length means another format (MySQL source, Format_description_event).
_POST_HEADER: Final = {
    EventType.QUERY: 13,
    EventType.TABLE_MAP: 8,
    EventType.WRITE_ROWS_V1: 8,
    EventType.UPDATE_ROWS_V1: 8,
    EventType.DELETE_ROWS_V1: 8,
    EventType.WRITE_ROWS: 10,
    EventType.UPDATE_ROWS: 10,
    EventType.DELETE_ROWS: 10,
}


@dataclass(frozen=True, slots=True)
class FormatDescription:
    """The server's description of itself and of the file's format, at the start of every file."""

    server_version: str
    checksum: bool
    flavor: Flavor
    version: tuple[int, int, int]
    created: int  # 0 unless the server wrote it at its start
    post_header_lengths: bytes


@dataclass(frozen=True, slots=True)
class Rotate:
    """The stream continues in another file; an artificial one only names the file that follows."""

    next_file: str
    next_offset: int
    artificial: bool


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Everything up to here was sent and the source is idle; `position` is 0 if it is unknown."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The server closed the file at its shutdown."""


@dataclass(frozen=True, slots=True)
class Ignorable:
    """An event that may be ignored, or that matters only inside its replication group."""

    type: int


@dataclass(frozen=True, slots=True)
class MariadbBinlogCheckpoint:
    """MariaDB: crash recovery of the source needs no file older than this one."""

    file: str


@dataclass(frozen=True, slots=True)
class StatementInput:
    """An input of a following statement that is logged as text: INTVAR, RAND, USER_VAR, the file of a LOAD DATA.

    Alone it means nothing: the statement decides whether it can be replicated.
    """

    type: int
    body: bytes


def parse_format_description(data: bytes) -> FormatDescription:
    """Read a format description, header included; it says itself whether a checksum ends it."""
    cursor = ByteCursor(data, HEADER_SIZE)
    if (binlog_version := cursor.uint(2)) != 4:
        raise Malformed(f"its binlog version is {binlog_version}")
    text = cursor.take(50).rstrip(b"\0").decode("ascii")
    created = cursor.uint(4)
    if (header_size := cursor.uint(1)) != HEADER_SIZE:
        raise Malformed(f"events have headers of {header_size} bytes")
    match = _VERSION.match(text)
    if not match:
        raise Malformed(f"{text!r} is no server version")
    version = (int(match[1]), int(match[2]), int(match[3]))
    flavor = flavor_of(text)
    checksum = False
    if dialect(flavor, version[0] * 10000 + version[1] * 100 + version[2]).format_tells_checksum:
        # The algorithm byte and 4 checksum bytes end this event even when checksums are off.
        lengths = cursor.take(cursor.left - 5)
        algorithm = cursor.uint(1)
        if algorithm not in (0, 1):
            raise Malformed(f"checksum algorithm {algorithm} is not known")
        checksum = algorithm == 1
    else:
        lengths = cursor.rest()
    for code, expected in _POST_HEADER.items():
        if code <= len(lengths) and lengths[code - 1] not in (0, expected):
            raise Malformed(f"fixed part of event type {code} has {lengths[code - 1]} bytes, not {expected}")
    return FormatDescription(text, checksum, flavor, version, created, lengths)


def parse_rotate(cursor: ByteCursor, header: EventHeader) -> Rotate:
    """Read a rotate event; the dump thread marks its own with the artificial flag or with timestamp 0."""
    offset = cursor.uint(8)
    return Rotate(cursor.rest().decode(), offset, header.artificial or header.timestamp == 0)


def parse_heartbeat(cursor: ByteCursor, header: EventHeader) -> Heartbeat:
    """Read a heartbeat of the first kind: the file's name; the position is in the header."""
    return Heartbeat(cursor.rest().decode(), header.end)


def parse_heartbeat_v2(cursor: ByteCursor) -> Heartbeat:
    """Read a heartbeat of the second kind: tagged fields, with a 64-bit position (MySQL source, Heartbeat_event_v2)."""
    file, position = "", 0
    while cursor.left:
        tag = cursor.packed()
        if tag == 0:  # OT_HEARTBEAT_HEADER_END_MARK
            break
        field = ByteCursor(cursor.packed_bytes())
        if tag == 1:  # OT_HEARTBEAT_LOG_FILENAME_FIELD
            file = field.rest().decode()
        elif tag == 2:  # OT_HEARTBEAT_LOG_POSITION_FIELD
            position = field.packed()
    return Heartbeat(file, position)


def parse_binlog_checkpoint(cursor: ByteCursor) -> MariadbBinlogCheckpoint:
    """Read MariaDB's binlog checkpoint: a name after its 4-byte length."""
    return MariadbBinlogCheckpoint(cursor.take(cursor.uint(4)).decode())
