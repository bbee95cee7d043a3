"""Transaction payloads: the events of a whole transaction in one event, compressed (binlog_transaction_compression).

The inner events have headers but no checksums, and their log_pos means nothing outside. They are unpacked one by one
while the consumer reads, so a transaction of a gigabyte needs no gigabyte here. Layout (MySQL source,
Transaction_payload_event): tagged fields up to an end mark, then the payload.

How large a compressed event may become.

Compression lets a few bytes of the network take any memory of who reads them: 33 KB of zstd hold a gigabyte of zeros,
and an event has to be in memory whole. A plain event of that size has at least been sent. So an event that is much
larger than what was sent for it (`_USUAL_RATIO`) has to fit into the memory that its reader gives to what it reads, for
a syncer its `memory-quota`; else it is refused by name before it is unpacked, and the task pauses. Rows compress well,
but nearly all events are small: a source writes rows of 8 KB together (`binlog_row_event_max_size`), and one row alone
where it is larger.

MariaDB's two kinds of zlib compression.

Events (`log_bin_compress`): a byte 0x80 | (number of length bytes), the length, a zlib stream (MariaDB source,
binlog_buf_compress). Columns (`COMPRESSED`): a byte with the method in its high half and, in its low half, 8 for a
stream without zlib's wrapping plus the number of length bytes; the value travels compressed in row events (MariaDB
source, Field_longstr::compress). Both lengths are big-endian.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zstandard

from dm.errors import DMError
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.event import InnerEvent
from dm.mysql.binlog.header import HEADER_SIZE, EventType, parse_header, type_name

LARGEST_UNPACKED: Final = 1 << 26  # where a reader names nothing
_USUAL_RATIO: Final = 8


def demand_room(event: str, size: int, packed: int, largest: int) -> None:
    """Raise DMError where an event of so many bytes came in a few, and is larger than `largest`."""
    if size > max(largest, _USUAL_RATIO * packed):
        # Half of a syncer's quota is for what is read (dm/syncer/resources.py).
        raise DMError("event-unpacks-too-large", event=event, size=size, packed=packed, wanted=2 * size)


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


MAX_PLAIN_SIZE: Final = 1 << 30  # max_allowed_packet's upper limit


def _inflate(data: bytes, size: int, wbits: int) -> bytes:
    if size > MAX_PLAIN_SIZE:
        raise Malformed(f"{size} uncompressed bytes are more than a server writes")
    inflater = zlib.decompressobj(wbits)
    try:
        plain = inflater.decompress(data, size + 1)
    except zlib.error as error:
        raise Malformed("compressed bytes can't be decompressed") from error
    if len(plain) != size or not inflater.eof:
        raise Malformed("compressed bytes do not have the length they tell")
    return plain


def decompress_event(data: bytes, largest: int = LARGEST_UNPACKED) -> bytes:
    """The decompressed rest of a compressed event; raises DMError where that is larger than there is room for."""
    if not data or data[0] & 0xF0 != 0x80:
        raise Malformed("the compression is not known")
    length_size = data[0] & 0x07
    if not 1 <= length_size <= 4:
        raise Malformed("the compressed length is not readable")
    size = int.from_bytes(data[1 : 1 + length_size], "big")
    demand_room("a compressed event", size, len(data), largest)
    return _inflate(data[1 + length_size :], size, zlib.MAX_WBITS)


def decompress_column(stored: bytes) -> bytes:
    """The decompressed value of a COMPRESSED column; an empty value is stored as nothing."""
    if not stored:
        return stored
    method = stored[0] >> 4
    if method == 0:
        return stored[1:]
    if method != 8:
        raise Malformed(f"column compression method {method} is not known")
    length_size = stored[0] & 0x07
    raw = bool(stored[0] & 0x08)  # a deflate stream without zlib's wrapping
    if not 1 <= length_size <= 4:
        raise Malformed("the compressed length is not readable")
    size = int.from_bytes(stored[1 : 1 + length_size], "big")
    return _inflate(stored[1 + length_size :], size, -zlib.MAX_WBITS if raw else zlib.MAX_WBITS)
