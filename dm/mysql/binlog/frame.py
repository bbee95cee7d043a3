"""Cuts a file's bytes into events, verifies checksums, writes ends into events that lack one; parses no event.

The relay and the file reader use this on every byte they move, so it does nothing else.

Events that do not say where they end in their file, and the end that is written into them.

MariaDB computes the checksums of a transaction's events before it knows the transaction's place since 11.4 (MDEV-31273,
`binlog_legacy_event_pos`): its rows, table maps and statements have log_pos 0 in the file itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Protocol

from dm.accelerator.native import Native
from dm.accelerator.switch import Twins
from dm.errors import DMError
from dm.mysql.binlog.event import CheckedEvent
from dm.mysql.binlog.header import (
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    LOG_EVENT_BINLOG_IN_USE_F,
    ROWS_AND_THEIR_TEXT,
    EventHeader,
    EventType,
    new_header,
)

MAGIC: Final = b"\xfebin"
_FLAGS_AT: Final = 17
_TYPE, _SIZE, _END = 1, 3, 4  # of a header's fields
_FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION)
_checked: Final[Callable[[tuple[EventHeader, bytes]], CheckedEvent]] = partial(tuple.__new__, CheckedEvent)

# The CRC-32 of any bytes followed by their own CRC-32 is this number, so one call verifies an event.
CRC_RESIDUE: Final = 0x2144DF1C

_NOWHERE: Final = -1  # no place of a file


def frames(buf: bytes | bytearray | memoryview, at: int, end: int) -> Iterator[tuple[int, EventHeader]]:
    """Yield (offset, header) of every complete event of buf[at:end]; stops before an incomplete event.

    A caller that knows that `end` ends the data compares it with the last event's end: leftover bytes mean a torn
    event.
    """
    unpack = HEADER.unpack_from
    while at + HEADER_SIZE <= end:
        header = new_header(unpack(buf, at))
        if header.size < HEADER_SIZE:
            raise DMError("event-corrupt", event=header.type, end=header.end, what=f"its size is {header.size}")
        if at + header.size > end:
            return
        yield at, header
        at += header.size


def checked_events(
    data: bytes, at: int, end: int, checksum: bool, place: int | None = None
) -> tuple[Sequence[CheckedEvent], int]:
    """The complete events of data[at:end] whose checksums, if there are any, are right; and their end.

    It stops before an event that needs a closer check: one that is incomplete or damaged; one that states another end,
    if data[0] is at a `place` of a file; and a format description, which may turn checksums on or off.
    """
    return _TWINS()(data, at, end, checksum, _NOWHERE if place is None else place)


class _Frames(Protocol):
    """The loop over a piece of a file."""

    def __call__(
        self, data: bytes, at: int, end: int, checksum: bool, place: int, /
    ) -> tuple[Sequence[CheckedEvent], int]:
        """The events, and their end."""
        ...


def _frames(data: bytes, at: int, end: int, checksum: bool, place: int) -> tuple[Sequence[CheckedEvent], int]:
    found: list[CheckedEvent] = []
    unpack = HEADER.unpack_from
    while at + HEADER_SIZE <= end:
        fields = unpack(data, at)
        size = fields[_SIZE]
        stop = at + size
        if stop > end or size < HEADER_SIZE or fields[_TYPE] == _FORMAT_DESCRIPTION:
            break
        if place >= 0 and fields[_END] != (place + stop) & 0xFFFFFFFF:
            break
        event = data[at:stop]
        if checksum and zlib.crc32(event) != CRC_RESIDUE:
            break
        found.append(_checked((new_header(fields), event)))
        at = stop
    return found, at


def _compiled(native: Native) -> _Frames:
    return native.frames


_TWINS: Final[Twins[_Frames]] = Twins(_frames, _compiled)


def verify_crc(event: bytes | bytearray | memoryview) -> bool:
    """Whether the last 4 bytes of the event are the CRC-32 of the bytes before them.

    A format description is summed with its in-use flag off, because the server clears the flag in place when it closes
    the file (MySQL source, Log_event_footer::event_checksum_test).
    """
    if len(event) < HEADER_SIZE + CHECKSUM_SIZE:
        return False
    if event[4] == EventType.FORMAT_DESCRIPTION and event[_FLAGS_AT] & LOG_EVENT_BINLOG_IN_USE_F:
        event = bytearray(event)
        event[_FLAGS_AT] &= ~LOG_EVENT_BINLOG_IN_USE_F & 0xFF
    return zlib.crc32(event) == CRC_RESIDUE


WITHOUT_END: Final = ROWS_AND_THEIR_TEXT | {
    EventType.TABLE_MAP,
    EventType.QUERY,
    EventType.INTVAR,
    EventType.RAND,
    EventType.USER_VAR,
    EventType.BEGIN_LOAD_QUERY,
    EventType.EXECUTE_LOAD_QUERY,
    EventType.MARIADB_QUERY_COMPRESSED,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED,
}
"""The types of these events."""

_LOG_POS: Final = slice(13, 17)  # log_pos of an event


def has_checksum(event: bytes) -> bool:
    """Whether the last four bytes are the CRC-32 of the others."""
    # A STOP event, the last one of a server that was shut down, is a header and a checksum.
    return len(event) >= HEADER_SIZE + CHECKSUM_SIZE and zlib.crc32(event) == CRC_RESIDUE


def with_end(event: bytes, offset: int) -> bytes:
    """The event with its end in the file, if it does not say it; its checksum is made anew, if it has one."""
    if any(event[_LOG_POS]):
        return event
    return ending_at(event, offset, checksum=has_checksum(event))


def ending_at(event: bytes, offset: int, *, checksum: bool) -> bytes:
    """The event with another end, and with the checksum of what it is then."""
    changed = bytearray(event)
    changed[_LOG_POS] = (offset & 0xFFFFFFFF).to_bytes(4, "little")
    if checksum:
        changed[-CHECKSUM_SIZE:] = zlib.crc32(changed[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(changed)
