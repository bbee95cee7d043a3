"""Damaged events by the million: seeded, aware of the structure, for every event type.

Random bytes alone fail at the first length they meet. So most damage is done to events of captured files, and inside
what is packed in them: compressed bytes are unpacked, damaged and packed again with right lengths and checksums, so
that the readers after the decompression meet it too. Types that the captured files lack stand beside them with a body
of the right form.
"""

from __future__ import annotations

import random
import zlib
from collections import Counter
from functools import cache

import zstandard

from dm.errors import DMError
from dm.mysql.binlog.event import InnerEvent, RawEvent
from dm.mysql.binlog.header import HEADER_SIZE, EventType, parse_header
from dm.mysql.binlog.reader import Event, EventParser, Query, Rows, TableMapEvent, TransactionPayload
from dm.mysql.dialect import Flavor
from tests.testbed.decoders import decoded
from tests.unit.mysql.binlog.sample import TABLES, raw_events

_COMPRESSED = frozenset(range(EventType.MARIADB_QUERY_COMPRESSED, EventType.MARIADB_DELETE_ROWS_COMPRESSED + 1))
_TELLING = (0, 1, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)  # where lengths and signs change their meaning
_UUID = bytes(range(16))
_BODIES: dict[int, bytes] = {
    EventType.STOP: b"",
    EventType.ROTATE: (4).to_bytes(8, "little") + b"mysql-bin.000002",
    EventType.INTVAR: b"\2" + (7).to_bytes(8, "little"),
    EventType.RAND: bytes(range(16)),
    EventType.USER_VAR: b"\1\0\0\0v\0\0\x21\0\0\0\1\0\0\0x",
    EventType.BEGIN_LOAD_QUERY: b"\1\0\0\0a,b\n",
    EventType.APPEND_BLOCK: b"\1\0\0\0c,d\n",
    EventType.DELETE_FILE: b"\1\0\0\0",
    EventType.EXECUTE_LOAD_QUERY: bytes(8) + b"\1\0\0\0\0" + bytes(13) + b"d\0LOAD DATA INFILE 'x' INTO TABLE t",
    EventType.INCIDENT: b"\1\0\4lost",
    EventType.HEARTBEAT: b"mysql-bin.000001",
    EventType.HEARTBEAT_V2: b"\1\x10mysql-bin.000001\2\3\xfc\0\1\0",
    EventType.IGNORABLE: b"what",
    EventType.TRANSACTION_CONTEXT: bytes(30),
    EventType.VIEW_CHANGE: bytes(52),
    EventType.PREVIOUS_GTIDS: (1).to_bytes(8, "little") + _UUID + (1).to_bytes(8, "little") + b"\1" + bytes(7) + b"\5"
    + bytes(7),
    EventType.WRITE_ROWS_V1: b"\7" + bytes(5) + b"\1\0\1\xff\0\5\0\0\0",
    EventType.MARIADB_START_ENCRYPTION: bytes(17),
}  # fmt: skip
# The form of the set that a server with tagged GTIDs writes: the count one byte higher, a tag after each uuid.
_TAGGED_SET = (
    b"\0\1" + bytes(5) + b"\1" + _UUID + b"\6tag" + (1).to_bytes(8, "little") + b"\1" + bytes(7) + b"\5" + bytes(7)
)


def packed_event(code: int, body: bytes) -> RawEvent:
    """An event without a checksum."""
    data = bytes(4) + bytes((code,)) + bytes(4) + (HEADER_SIZE + len(body)).to_bytes(4, "little") + bytes(6) + body
    return RawEvent(parse_header(data), data)


@cache
def _templates(flavor: Flavor) -> tuple[RawEvent, ...]:
    made = [packed_event(code, body) for code, body in _BODIES.items()]
    made.append(packed_event(EventType.PREVIOUS_GTIDS, _TAGGED_SET))
    plain = [packed_event(raw.header.type, raw.body(checksum=True)) for raw in raw_events(flavor)]
    return (*plain, *made)


def _inner(raw: RawEvent) -> list[InnerEvent]:
    event = EventParser(verify=False).parse(raw)
    assert isinstance(event, TransactionPayload)
    return list(event.events())


def payload_of(events: list[bytes]) -> bytes:
    """The body of a transaction payload that holds these events."""
    plain = b"".join(events)
    packed = zstandard.ZstdCompressor().compress(plain)
    fields = [
        (2, b"\0"),
        (3, b"\xfe" + len(plain).to_bytes(8, "little")),
        (1, b"\xfe" + len(packed).to_bytes(8, "little")),
    ]
    return b"".join(bytes((tag, len(value))) + value for tag, value in fields) + b"\0" + packed


class Mutator:
    """Gives damaged events, the same ones for the same seed."""

    def __init__(self, flavor: Flavor, seed: int) -> None:
        self._chance = random.Random(seed)
        self._templates = _templates(flavor)
        self._maps = {event.table_id: event.table_map for event in _table_maps(flavor)}
        self.outcomes: Counter[str] = Counter()
        self._parser = EventParser(verify=False)
        # After a format description without checksums, as the damaged events have none.
        self._opening = packed_event(
            EventType.FORMAT_DESCRIPTION, raw_events(flavor)[0].data[HEADER_SIZE:-5] + bytes(5)
        )

    def run(self, count: int) -> None:
        """Damage that many events and read them; whatever is neither an event nor a DMError is raised."""
        for number in range(count):
            if number % 997 == 0:
                self._parser = EventParser(verify=False)
                self._parser.parse(self._opening)
            self._read(self.event())

    def event(self) -> RawEvent:
        """The next damaged event."""
        template = self._chance.choice(self._templates)
        code, body = template.header.type, template.data[HEADER_SIZE:]
        if code == EventType.TRANSACTION_PAYLOAD and self._chance.random() < 0.8:
            inner = [event.data for event in _inner(template)]
            at = self._chance.randrange(len(inner))
            damaged = self._damaged(inner[at][HEADER_SIZE:])
            inner[at] = packed_event(inner[at][4], damaged).data
            return packed_event(code, payload_of(inner))
        if code in _COMPRESSED and self._chance.random() < 0.8:
            return packed_event(code, self._repacked(body))
        if self._chance.random() < 0.02:
            code = self._chance.randrange(256)  # the body of another type
        return packed_event(code, self._damaged(body))

    def _repacked(self, body: bytes) -> bytes:
        for at in range(len(body) - 6):
            if body[at] & 0xF8 == 0x80 and 1 <= body[at] & 7 <= 4:
                try:
                    plain = zlib.decompress(body[at + 1 + (body[at] & 7) :])
                except zlib.error:
                    continue
                damaged = self._damaged(plain)
                return body[:at] + b"\x84" + len(damaged).to_bytes(4, "big") + zlib.compress(damaged)
        return self._damaged(body)

    def _damaged(self, body: bytes) -> bytes:
        chance, data = self._chance, bytearray(body)
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            at = chance.randrange(len(data) + 1)
            kind = chance.randrange(6)
            if kind == 0 and at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            elif kind == 1 and at < len(data):
                data[at] = chance.choice(_TELLING)
            elif kind == 2:
                data[at:at] = chance.randbytes(chance.choice((1, 2, 8)))
            elif kind == 3:
                del data[at : at + chance.choice((1, 2, 8, 1 << 20))]
            elif kind == 4:
                other = chance.choice(self._templates).data
                start = chance.randrange(len(other))
                data[at : at + chance.choice((0, 4, 16))] = other[start : start + 16]
            else:
                data[at : at + 4] = chance.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4)))
        return bytes(data)

    def _read(self, raw: RawEvent) -> None:
        try:
            event = self._parser.parse(raw)
            if isinstance(event, TransactionPayload):
                for inner in event.events():
                    self._look_into(self._parser.parse(inner))
            self._look_into(event)
            self.outcomes["read"] += 1
        except DMError as error:
            str(error)  # its templates have all their details
            self.outcomes[error.name] += 1

    def _look_into(self, event: Event) -> None:
        if isinstance(event, TableMapEvent):
            self._maps[event.table_id] = event.table_map
        elif isinstance(event, Query):
            _ = event.readable
            _ = event.undecodable
        elif isinstance(event, Rows) and event.table_id in self._maps:
            table_map = self._maps[event.table_id]
            columns = TABLES.get(table_map.table)
            if columns is not None:
                decoded(table_map, columns, event)


def _table_maps(flavor: Flavor) -> list[TableMapEvent]:
    parser = EventParser()
    events = [parser.parse(raw) for raw in raw_events(flavor)]
    return [event for event in events if isinstance(event, TableMapEvent)]
