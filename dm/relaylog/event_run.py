"""The relay's way of nearly all events: from the packets that arrived straight into what is written next.

An event by itself costs more than its bytes: a call to cut it out, one to place it, one to check it, one to store it.
So runs of usual events are taken in one loop that does all of it. An event is usual when it is one packet long, says
its own size, ends where the count of bytes says, has a right checksum, and is not of a type that is about files.
Everything else (rotations, format descriptions, heartbeats, holes, long events, whatever a damaged or hostile stream
brings) stops the run in front of it and goes the long way, which judges it.

The compiled `cut` is the same loop (`dm/accelerator/packets.c`), and moves the events together where they lie.

Rows inside a transaction, and table maps of known tables, change nothing that is kept of a file; the other events are
shown to the index.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol
from zlib import crc32

from dm import accelerator
from dm.binlog.boundary import INSIDE
from dm.binlog.frame import CRC_RESIDUE
from dm.binlog.header import HEADER_SIZE, LOG_EVENT_ARTIFICIAL_F, ROWS_AND_THEIR_TEXT, EventType
from dm.relaylog.index_builder import ID, IndexBuilder

_SHOWN, _ROWS, _TABLE_MAP, _UNUSUAL = range(4)
_WAYS: Final = bytearray(256)  # of the event types
for _kind in ROWS_AND_THEIR_TEXT:
    _WAYS[_kind] = _ROWS
_WAYS[EventType.TABLE_MAP] = _TABLE_MAP
for _kind in (EventType.FORMAT_DESCRIPTION, EventType.ROTATE, EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
    _WAYS[_kind] = _UNUSUAL
# Length and number of the packet, status; of the event's header its type, size, end and flags.
_heads = Struct("<IB4xB4xIIH").unpack_from
_HEADS_SIZE: Final = 5 + HEADER_SIZE
_LONGEST: Final = 0xFFFFFF - 1  # a longer packet is continued by the next one, so no run goes further


class Packets(Protocol):
    """What arrived: packets from `start` on, the first one with the number `sequence`."""

    start: int
    sequence: int

    @property
    def data(self) -> bytearray | memoryview:
        """The bytes; what lies in front of `start` belongs to whoever moved it there."""
        ...

    @property
    def inside(self) -> bool:
        """Whether an event is under way that is longer than one packet."""
        ...


class EventRun:
    """Cuts runs of usual events; `parts` are their bytes, up to `offset` in the file.

    They may lie in the packets' own memory, and are to be written before more arrives there.
    """

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.offset = 0

    def cut(self, packets: Packets, builder: IndexBuilder) -> None:
        """Take what is usual, and move the start of the packets behind it."""
        if accelerator.native is None:
            self._cut(packets, builder)
            return
        boundary, data, start = builder.boundary, packets.data, packets.start
        size, packets.start, packets.sequence, self.offset, failure = accelerator.native.cut(
            data,
            start,
            packets.sequence,
            self.offset,
            boundary.checksum,
            _WAYS,
            boundary,
            INSIDE,
            builder.table_ids,
            builder.feed,
        )
        if size:
            self.parts.append(memoryview(data)[start : start + size])
        if failure is not None:
            raise failure

    def _cut(self, packets: Packets, builder: IndexBuilder) -> None:
        # Slices of bytes are the cheapest way to cut.
        data, at, number = bytes(packets.data), packets.start, packets.sequence << 24
        end = min(len(data), at + _LONGEST)
        boundary, table_ids, feed = builder.boundary, builder.table_ids, builder.feed
        events: list[bytes] = []
        append, offset, ways, residue = events.append, self.offset, _WAYS, CRC_RESIDUE
        checksum, inside = boundary.checksum, boundary.state == INSIDE
        try:
            while end - at >= _HEADS_SIZE:
                word, status, kind, size, log_pos, flags = _heads(data, at)
                stop = at + 5 + size
                following = offset + size
                if (
                    word != number + size + 1
                    or log_pos != following & 0xFFFFFFFF
                    or stop > end
                    or size < HEADER_SIZE
                    or status
                    or flags & LOG_EVENT_ARTIFICIAL_F
                ):
                    break
                event = data[at + 5 : stop]
                way = ways[kind]
                if way == _UNUSUAL or (checksum and crc32(event) != residue):
                    break
                append(event)
                at, offset, number = stop, following, number + 0x1000000 & 0xFF000000
                if not inside or way == _SHOWN or (way == _TABLE_MAP and event[ID] not in table_ids):
                    feed(event, offset)
                    inside = boundary.state == INSIDE
        finally:
            packets.start = at
            packets.sequence = number >> 24
            self.offset = offset
            if events:
                self.parts.append(b"".join(events))
