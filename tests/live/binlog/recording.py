"""What a server wrote into its binlog while a block ran, read from its own file, offline."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import Event, EventParser, Rows, TableMap, TableMapEvent, TransactionPayload
from dm.mysql.schema.table import Column
from tests.testbed.decoders import decoded

_MEMBER = re.compile(r"'((?:[^']|'')*)'")


@dataclass
class Recording:
    """The raw and the typed events of the block, once it has ended; payloads are unpacked in place."""

    file: Path  # the server's own
    raw: list[RawEvent] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    _changes: dict[str, list[tuple[TableMap, Rows]]] = field(default_factory=lambda: defaultdict(list))

    def rows(self, table: str, columns: Sequence[Column]) -> list[RowPair]:
        """Every row change of one table."""
        if not self._changes:
            maps: dict[int, TableMap] = {}
            for event in self.events:
                if isinstance(event, TableMapEvent):
                    maps[event.table_id] = event.table_map
                elif isinstance(event, Rows):
                    self._changes[maps[event.table_id].table].append((maps[event.table_id], event))
        return [
            pair for table_map, event in self._changes.get(table, ()) for pair in decoded(table_map, columns, event)
        ]

    def of(self, kind: type) -> list[Event]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def flush(server: ThrowawayServer) -> str:
    """Start a new binlog file and give its name."""
    server.execute("FLUSH BINARY LOGS")
    return str(server.query("SHOW BINARY LOGS")[-1][0])


@contextmanager
def recording(server: ThrowawayServer) -> Iterator[Recording]:
    """Record the events of this block; they are there when it ends."""
    recorded = Recording(server.data / flush(server))
    yield recorded
    flush(server)
    data = recorded.file.read_bytes()
    parser = EventParser()
    end = 4
    for at, header in frames(data, 4, len(data)):
        end = at + header.size
        raw = RawEvent(header, data[at:end])
        event = parser.parse(raw)
        recorded.raw.append(raw)
        recorded.events.append(event)
        if isinstance(event, TransactionPayload):
            recorded.events.extend(parser.parse(inner) for inner in event.events())
    assert end == len(data)


def columns_of(server: ThrowawayServer, schema: str, table: str) -> list[Column]:
    """The table's columns as the server describes them."""
    return _columns(server, "table_schema = %s AND table_name = %s", schema, table)[table]


def columns_of_schema(server: ThrowawayServer, schema: str) -> dict[str, list[Column]]:
    """The same of all tables of a schema."""
    return _columns(server, "table_schema = %s", schema)


def _columns(server: ThrowawayServer, condition: str, *values: str) -> dict[str, list[Column]]:
    found: dict[str, list[Column]] = defaultdict(list)
    for table, name, base, length, precision, scale, fraction, charset, full in server.query(
        "SELECT table_name, column_name, data_type, character_maximum_length, numeric_precision, numeric_scale,"
        " datetime_precision, character_set_name, column_type FROM information_schema.columns"
        f" WHERE {condition} ORDER BY table_name, ordinal_position",
        values,
    ):
        members = tuple(text.replace("''", "'") for text in _MEMBER.findall(full)) if base in ("enum", "set") else ()
        found[table].append(
            Column(
                name=name,
                base="geometrycollection" if base == "geomcollection" else base,
                length=length if length is not None else precision,
                decimals=scale if scale is not None else fraction,
                unsigned="unsigned" in full,
                charset=charset,
                members=members,
            )
        )
    return found
