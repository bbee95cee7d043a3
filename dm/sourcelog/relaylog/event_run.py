"""The fast path for nearly all events: from the received packets straight to the next write.

The calls for a single event cost more than its bytes: one to cut it out, one to place it, one to check it, one to store
it. So one loop does all of this for runs of usual events. An event is usual if it is one packet long, states its own
size, ends where the byte count says, has a correct checksum, and its type is not about files. Everything else stops the
run before it and takes the slow path, which judges it: rotations, format descriptions, heartbeats, holes, long events,
and whatever a damaged or hostile stream sends. An event that may leave its end to the byte count
(`dm/mysql/binlog/frame.py`) gets it here.

The compiled `cut` is the same loop (`dm/accelerator/event_run.c`). It moves the events together in place.

Rows inside a transaction, and table maps of known tables, do not affect the index. All other events are passed to the
index.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from dm.accelerator.native import Native, shared
from dm.accelerator.switch import Twins
from dm.mysql.binlog.frame import CRC_RESIDUE, WITHOUT_END, ending_at
from dm.mysql.binlog.header import HEADER_SIZE, LOG_EVENT_ARTIFICIAL_F, ROWS_AND_THEIR_TEXT, EventType
from dm.mysql.binlog.transaction import INSIDE
from dm.sourcelog.relaylog.index import ID, IndexBuilder


@shared
class EventTreatment(IntEnum):
    """How the run treats an event of a type."""

    SHOWN = 0  # to the index
    ROWS = 1  # shown between transactions only
    TABLE_MAP = 2  # the same, where the table is known
    UNUSUAL = 3  # it ends the run
    WITHOUT_END = 4  # a bit: it may have no log_pos


_WAYS: Final = bytearray(256)  # of the event types
for _kind in ROWS_AND_THEIR_TEXT:
    _WAYS[_kind] = EventTreatment.ROWS
_WAYS[EventType.TABLE_MAP] = EventTreatment.TABLE_MAP
for _kind in (EventType.FORMAT_DESCRIPTION, EventType.ROTATE, EventType.HEARTBEAT, EventType.HEARTBEAT_V2):
    _WAYS[_kind] = EventTreatment.UNUSUAL
for _kind in WITHOUT_END:
    _WAYS[_kind] |= EventTreatment.WITHOUT_END
# Length and number of the packet, status; of the event's header its type, size, end and flags.
_heads = Struct("<IB4xB4xIIH").unpack_from
_HEADS_SIZE: Final = 5 + HEADER_SIZE
_LONGEST: Final = 0xFFFFFF - 1  # the next packet continues a longer one, so no run goes further


class Packets(Protocol):
    """What arrived: packets from `start` on; the first one has the number `sequence`."""

    start: int
    sequence: int

    @property
    def data(self) -> bytearray | memoryview:
        """The bytes; those before `start` belong to the code that moved it."""
        ...

    @property
    def inside(self) -> bool:
        """Whether an event longer than one packet is being received."""
        ...


@shared
class Cut(NamedTuple):
    """What the compiled loop has cut."""

    size: int  # of the events, which begin where the packets did
    start: int  # of the packets, after it
    sequence: int
    offset: int  # the file's
    failure: BaseException | None  # what ended it


class EventRun:
    """Cuts runs of usual events; `parts` are their bytes, up to `offset` in the file.

    They may be views of the packets' own memory: write them before more arrives there.
    """

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.offset = 0

    def cut(self, packets: Packets, builder: IndexBuilder) -> None:
        """Take the usual events, and move the start of the packets after them."""
        _TWINS()(self, packets, builder)


class _CutRun(Protocol):
    """The loop."""

    def __call__(self, run: EventRun, packets: Packets, builder: IndexBuilder, /) -> None:
        """Move the usual events from the packets to the run."""
        ...


def _compiled(native: Native) -> _CutRun:
    def cut(run: EventRun, packets: Packets, builder: IndexBuilder) -> None:
        boundary, data, start = builder.boundary, packets.data, packets.start
        found: Cut = native.cut(
            data,
            start,
            packets.sequence,
            run.offset,
            boundary.checksum,
            _WAYS,
            boundary,
            INSIDE,
            builder.table_ids,
            builder.feed,
        )
        packets.start, packets.sequence, run.offset = found.start, found.sequence, found.offset
        if found.size:
            run.parts.append(memoryview(data)[start : start + found.size])
        if found.failure is not None:
            raise found.failure

    return cut


def _cut(run: EventRun, packets: Packets, builder: IndexBuilder) -> None:
    data, at, sequence = bytes(packets.data), packets.start, packets.sequence
    end = min(len(data), at + _LONGEST)
    boundary = builder.boundary
    events: list[bytes] = []
    try:
        while end - at >= _HEADS_SIZE:
            head, status, kind, size, log_pos, flags = _heads(data, at)
            stop, following = at + 5 + size, run.offset + size
            if head != (sequence << 24) + size + 1 or status or stop > end or size < HEADER_SIZE:
                break  # not one event in one packet
            way, unsaid = (
                _WAYS[kind] & ~EventTreatment.WITHOUT_END,
                not log_pos and _WAYS[kind] & EventTreatment.WITHOUT_END,
            )
            if (log_pos != following & 0xFFFFFFFF and not unsaid) or flags & LOG_EVENT_ARTIFICIAL_F:
                break  # not from the place of the file
            event = data[at + 5 : stop]
            if way == EventTreatment.UNUSUAL or (boundary.checksum and crc32(event) != CRC_RESIDUE):
                break
            if unsaid:
                event = ending_at(event, following, checksum=boundary.checksum)
            events.append(event)
            at, run.offset, sequence = stop, following, sequence + 1 & 0xFF
            known = way == EventTreatment.ROWS or (way == EventTreatment.TABLE_MAP and event[ID] in builder.table_ids)
            if boundary.state != INSIDE or not known:
                builder.feed(event, run.offset)
    finally:
        packets.start, packets.sequence = at, sequence
        if events:
            run.parts.append(b"".join(events))


_TWINS: Final[Twins[_CutRun]] = Twins(_cut, _compiled)
