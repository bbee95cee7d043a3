"""Files as versions write them of which no capture could be had, built from what is documented of them.

These are no captures. They hold the forms of events by which MySQL 5.7 and 8.4 differ from what the captured files
have (MySQL source, release notes of 5.7.2, 8.0.1, 8.0.14, 8.3.0):

5.7   a GTID event ends after the logical clock; rows of version 2; a table map has no optional metadata at all; the
      status variables of a query end with the microseconds or the list of updated schemas
8.4   the GTID event has commit times, the transaction's length and server versions after them; tagged GTIDs have an
      event of their own; table maps say signs and, with FULL metadata, everything else
"""

from __future__ import annotations

import struct
from zlib import crc32

import pytest

from dm.gtid import Gtid, GtidSet
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.gtid_history import GtidHistory
from dm.mysql.binlog.header import EventType, parse_header
from dm.mysql.binlog.reader import Event, EventParser, FormatDescription, GtidEvent, Query, Rows, TableMapEvent
from dm.mysql.binlog.transaction import TransactionBoundary
from dm.mysql.schema.table import Column
from tests.testbed.decoders import decoded

UUID = bytes(range(16))
TEXT = "00010203-0405-0607-0809-0a0b0c0d0e0f"
COLUMNS = (Column("a", "int", unsigned=True), Column("b", "varchar", 20, charset="utf8mb4"), Column("c", "datetime"))
# Lengths of the fixed parts by event type, as 5.7 has them (38 types) and 8.0 (41).
_LENGTHS_57 = bytes.fromhex(
    "380d0008001200040404041200005f00041a08000000080808020000000a0a0a2a2a00123400"
)  # fmt: skip
_LENGTHS_84 = bytes.fromhex(
    "000d00080000000004000400000062 00041a08000000080808020000000a0a0a2a2a001234000a2800"
)  # fmt: skip


class File:
    """Writes events with checksums, one after the other."""

    def __init__(self, version: str, lengths: bytes) -> None:
        self.events: list[RawEvent] = []
        self._end = 4
        body = struct.pack("<H50sIB", 4, version.encode(), 0, 19) + lengths + b"\1"
        self.add(EventType.FORMAT_DESCRIPTION, body)

    def add(self, kind: EventType, body: bytes) -> None:
        """One event."""
        size = 19 + len(body) + 4
        self._end += size
        data = struct.pack("<IBIIIH", 1_700_000_000, kind, 1, size, self._end, 0) + body
        data += crc32(data).to_bytes(4, "little")
        self.events.append(RawEvent(parse_header(data), data))

    def typed(self) -> list[Event]:
        """The events as the parser reads them."""
        parser = EventParser()
        return [parser.parse(raw) for raw in self.events]


def query(text: bytes, variables: bytes) -> bytes:
    return struct.pack("<IIBHH", 7, 0, 1, 0, len(variables)) + variables + b"d\0" + text


def previous(upto: int) -> bytes:
    return struct.pack("<Q16sQQQ", 1, UUID, 1, 1, upto + 1)


_TABLE_MAP = (
    struct.pack("<IHH", 70, 0, 1) + b"\1d\0\1t\0\3" + bytes((3, 15, 18)) + b"\3" + struct.pack("<HB", 80, 0) + b"\6"
)
_ROW = b"\0" + struct.pack("<I", 4_000_000_000) + b"\2\xc3\xa4" + (
    (0x8000000000 + (((2024 * 13 + 2) << 5 | 3) << 17 | 4 << 12 | 5 << 6 | 6)).to_bytes(5, "big")
)  # fmt: skip
_ROWS = struct.pack("<IHHH", 70, 0, 1, 2) + b"\3\7" + _ROW
_VARIABLES_57 = (
    b"\0" + bytes(4) + b"\1" + bytes(8) + b"\6\3std" + b"\4\x21\0\x21\0\x08\0" + b"\x0c\1d\0" + b"\x0d\1\2\3"
)


def file_of_5_7() -> File:
    made = File("5.7.44-log", _LENGTHS_57)
    made.add(EventType.PREVIOUS_GTIDS, previous(5))
    made.add(EventType.GTID, struct.pack("<B16sqBqq", 1, UUID, 6, 2, 0, 1))
    made.add(EventType.QUERY, query(b"BEGIN", _VARIABLES_57))
    made.add(EventType.TABLE_MAP, _TABLE_MAP)
    made.add(EventType.WRITE_ROWS, _ROWS)
    made.add(EventType.XID, (99).to_bytes(8, "little"))
    return made


def file_of_8_4() -> File:
    made = File("8.4.3", _LENGTHS_84)
    made.add(EventType.PREVIOUS_GTIDS, previous(5))
    commit = (1_700_000_000_000_000).to_bytes(7, "little")
    after = commit + b"\xfc\x2c\1" + (80403).to_bytes(4, "little") + struct.pack("<q", 0)
    made.add(EventType.GTID, struct.pack("<B16sqBqq", 1, UUID, 6, 2, 0, 1) + after)
    signs = b"\1\1\x80"
    names = b"\1a\1b\1c"
    made.add(EventType.QUERY, query(b"BEGIN", _VARIABLES_57 + b"\x12\xff\0" + b"\x13\0"))
    made.add(EventType.TABLE_MAP, _TABLE_MAP + signs + b"\4" + bytes((len(names),)) + names)
    made.add(EventType.WRITE_ROWS, _ROWS)
    made.add(EventType.XID, (99).to_bytes(8, "little"))
    return made


@pytest.mark.parametrize("made", [file_of_5_7(), file_of_8_4()], ids=["5.7", "8.4"])
def test_a_transaction(made: File) -> None:
    events = made.typed()
    assert [type(event).__name__ for event in events] == [
        "FormatDescription", "PreviousGtids", "GtidEvent", "Query", "TableMapEvent", "Rows", "Xid"
    ]  # fmt: skip
    first, _, gtid, begin, mapped, rows, _ = events
    assert isinstance(first, FormatDescription)
    assert isinstance(gtid, GtidEvent)
    assert isinstance(begin, Query)
    assert isinstance(mapped, TableMapEvent)
    assert isinstance(rows, Rows)
    assert (first.flavor, first.checksum) == ("mysql", True)
    assert gtid.gtid == Gtid("mysql", TEXT, 6)
    assert begin.session.updated_schemas == ("d",)
    assert begin.microseconds == 0x030201
    assert begin.session.complete
    assert decoded(mapped.table_map, COLUMNS, rows) == [(None, (4_000_000_000, "ä".encode(), "2024-02-03 04:05:06"))]


@pytest.mark.parametrize("made", [file_of_5_7(), file_of_8_4()], ids=["5.7", "8.4"])
def test_its_boundary_and_its_history(made: File) -> None:
    boundary, history = TransactionBoundary(), GtidHistory(GtidSet.empty("mysql"))
    between = [(boundary.feed(raw.data), history.feed(raw.data)) for raw in made.events]
    assert between == [(True, True), (True, True), *[(False, False)] * 4, (True, True)]
    assert history.gtid_set == GtidSet.parse(f"{TEXT}:1-6")


def test_what_5_7_does_not_say() -> None:
    _, _, gtid, _, mapped, _, _ = file_of_5_7().typed()
    assert isinstance(gtid, GtidEvent)
    assert isinstance(mapped, TableMapEvent)
    assert (gtid.commit_timestamp_us, gtid.transaction_length, gtid.sequence_number) == (None, None, 1)
    assert (mapped.table_map.names, mapped.table_map.optional.unsigned) == (None, None)


def test_what_8_4_says() -> None:
    _, _, gtid, _, mapped, _, _ = file_of_8_4().typed()
    assert isinstance(gtid, GtidEvent)
    assert isinstance(mapped, TableMapEvent)
    assert (gtid.commit_timestamp_us, gtid.transaction_length) == (1_700_000_000_000_000, 300)
    assert (mapped.table_map.names, mapped.table_map.optional.unsigned) == (("a", "b", "c"), (True, None, None))
