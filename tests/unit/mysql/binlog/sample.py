"""Binlog files captured from real servers (tests/live/binlog/capture.py), and the structures of their tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dm.errors import DMError
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import Event, EventParser, Rows, TableMap, TableMapEvent, TransactionPayload
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import Column
from tests.testbed.decoders import decoded as decoded_by_both

SAMPLES = Path(__file__).parent / "samples"
UTF8 = "utf8mb4"
_WIDE = (
    Column("id", "int", unsigned=True),
    Column("a", "tinyint"),
    Column("b", "smallint", unsigned=True),
    Column("c", "mediumint"),
    Column("d", "bigint"),
    Column("e", "float"),
    Column("f", "double"),
    Column("g", "decimal", 20, 6),
    Column("h", "bit", 10),
    Column("i", "year"),
    Column("j", "date"),
    Column("k", "time", decimals=3),
    Column("l", "datetime", decimals=6),
    Column("m", "timestamp", decimals=2),
    Column("n", "enum", charset=UTF8, members=("x", "y")),
    Column("o", "set", charset=UTF8, members=("p", "q", "r")),
    Column("p", "char", 10, charset=UTF8),
    Column("q", "varchar", 300, charset=UTF8),
    Column("r", "binary", 4),
    Column("s", "varbinary", 20),
    Column("t", "blob"),
    Column("u", "text", charset=UTF8),
    Column("v", "geometry"),
    Column("w", "json"),
    Column("x", "mediumint", unsigned=True),
)
TABLES: dict[str, tuple[Column, ...]] = {
    "wide": _WIDE,
    "vec": (Column("a", "vector", 2), Column("b", "int")),
    "own": (
        Column("a", "uuid"),
        Column("b", "inet6"),
        Column("c", "inet4"),
        Column("d", "varchar", 100, charset=UTF8),
        Column("e", "blob"),
    ),
}


@cache
def raw_events(name: str) -> tuple[RawEvent, ...]:
    """The sample's events as they stand in the file."""
    data = (SAMPLES / f"{name}.binlog").read_bytes()
    return tuple(RawEvent(header, data[at : at + header.size]) for at, header in frames(data, 4, len(data)))


def typed_events(flavor: Flavor) -> list[Event]:
    """The sample's events, payloads unpacked in place."""
    parser = EventParser()
    found: list[Event] = []
    for raw in raw_events(flavor):
        event = parser.parse(raw)
        found.append(event)
        if isinstance(event, TransactionPayload):
            found.extend(parser.parse(inner) for inner in event.events())
    return found


def decoded(flavor: Flavor, table: str) -> list[tuple[str, RowPair]]:
    """Kind and images of every change of one table, in order."""
    maps: dict[int, TableMap] = {}
    found: list[tuple[str, RowPair]] = []
    for event in typed_events(flavor):
        if isinstance(event, TableMapEvent):
            maps[event.table_id] = event.table_map
        elif isinstance(event, Rows) and maps[event.table_id].table == table:
            rows = decoded_by_both(maps[event.table_id], TABLES[table], event)
            found.extend((event.kind, pair) for pair in rows)
    return found


def outcome(parser: EventParser, raw: RawEvent) -> Event | None:
    """The event, with all that is lazy in it unpacked, or None where the bytes are refused as they should be."""
    try:
        event = parser.parse(raw)
        if isinstance(event, TransactionPayload):
            for inner in event.events():
                parser.parse(inner)
        return event
    except DMError as error:
        str(error)  # its templates have all their details
        return None
