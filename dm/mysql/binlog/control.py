"""Events about the stream itself: its format, its files, its liveness."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.header import HEADER_SIZE, EventHeader, EventType
from dm.mysql.dialect import Flavor, dialect, flavor_of

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
