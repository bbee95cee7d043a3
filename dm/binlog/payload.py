"""Transaction payloads: the events of a whole transaction in one event, compressed (binlog_transaction_compression).

The inner events have headers but no checksums, and their log_pos means nothing outside. They are unpacked one by one
while the consumer reads, so a transaction of a gigabyte needs no gigabyte here. Layout (MySQL source,
Transaction_payload_event): tagged fields up to an end mark, then the payload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zstandard

from dm.binlog.cursor import ByteCursor, Malformed
from dm.binlog.event import InnerEvent
from dm.binlog.header import HEADER_SIZE, EventType, parse_header, type_name
from dm.binlog.unpacking import LARGEST_UNPACKED, demand_room
from dm.errors import DMError

_ZSTD: Final = 0
_NONE: Final = 255
_LARGEST_EVENT: Final = 1 << 30  # the upper limit of the servers' max_allowed_packet
_CHUNK: Final = 1 << 18
_NEVER_INSIDE: Final = (EventType.FORMAT_DESCRIPTION, EventType.TRANSACTION_PAYLOAD, EventType.ROTATE)


@dataclass(slots=True)
class TransactionPayload:
    """A compressed transaction; `events` unpacks it."""

    compression: int
    uncompressed_size: int | None
    payload: bytes | memoryview
    end: int  # log_pos of the event, for messages

    def events(self, largest: int = LARGEST_UNPACKED) -> Iterator[InnerEvent]:
        """Yield the inner events in order; raises DMError when it is damaged, or one is larger than there is room."""
        try:
            yield from self._events(largest)
        except (zstandard.ZstdError, Malformed) as error:
            raise DMError(
                "event-corrupt", event=type_name(EventType.TRANSACTION_PAYLOAD), end=self.end, what=str(error)
            ) from error

    def _chunks(self) -> Iterator[bytes]:
        if self.compression == _NONE:
            for at in range(0, len(self.payload), _CHUNK):
                yield bytes(self.payload[at : at + _CHUNK])
            return
        with zstandard.ZstdDecompressor().stream_reader(self.payload, read_across_frames=True) as reader:
            while chunk := reader.read(_CHUNK):
                yield chunk

    def _events(self, largest: int) -> Iterator[InnerEvent]:
        held: list[bytes] = []  # pieces not cut into events yet; joined when an event is complete
        have, need, total = 0, HEADER_SIZE, 0
        for chunk in self._chunks():
            total += len(chunk)
            if self.uncompressed_size is not None and total > self.uncompressed_size:
                raise Malformed("the payload is longer than it tells")
            held.append(chunk)
            have += len(chunk)
            if have < need:
                continue
            joined = b"".join(held)
            at = 0
            need = HEADER_SIZE
            while have - at >= HEADER_SIZE:
                header = parse_header(joined, at)
                if not HEADER_SIZE <= header.size <= _LARGEST_EVENT or header.type in _NEVER_INSIDE:
                    raise Malformed(f"an inner event is of type {type_name(header.type)} with {header.size} bytes")
                if at + header.size > have:
                    name = f"{type_name(header.type)} in the transaction ending at {self.end}"
                    demand_room(name, header.size, len(self.payload), largest)
                    need = header.size
                    break
                yield InnerEvent(header, joined[at : at + header.size])
                at += header.size
            held = [joined[at:]]
            have -= at
        if have:
            raise Malformed("the payload ends inside an event")
        if self.uncompressed_size is not None and total != self.uncompressed_size:
            raise Malformed("the payload is shorter than it tells")


def parse_payload(cursor: ByteCursor, end: int) -> TransactionPayload:
    """Read a transaction payload's fields; the payload itself stays compressed."""
    compression, size, uncompressed = _NONE, None, None
    while (tag := cursor.packed()) != 0:
        field = ByteCursor(cursor.packed_bytes())
        if tag == 1:
            size = field.packed()
        elif tag == 2:
            compression = field.packed()
        elif tag == 3:
            uncompressed = field.packed()
    if compression not in (_ZSTD, _NONE):
        raise Malformed(f"payload compression {compression} is not known")
    if compression == _ZSTD and uncompressed is None:
        raise Malformed("a compressed payload does not tell its size")  # nothing would bound its unpacked size
    payload = memoryview(cursor.data)[cursor.at : cursor.end]  # avoids a copy of what may be a gigabyte
    if size is not None and size != len(payload):
        raise Malformed(f"a payload of {len(payload)} bytes tells a size of {size}")
    return TransactionPayload(compression, uncompressed, payload, end)
