"""`python -m benchmarks.decode_ours`: decode a binlog file; stdin says which, stdout how many rows in how much CPU."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dm.binlog.decode import RowDecoder
from dm.binlog.event import RawEvent
from dm.binlog.frame import checked_events, frames
from dm.binlog.reader import EventParser
from dm.binlog.rows import Rows
from dm.binlog.table_map import TableMap
from dm.position import MAGIC_SIZE
from dm.schema.parse import parse_create_table
from dm.schema.wire import wire_columns
from dm.sql.context import SourceContext

_PIECE = 1 << 15  # so much is cut at once; more events at a time are work for the garbage collector


def _raw_events(data: bytes, parser: EventParser) -> Iterator[RawEvent]:
    """The events of a file, their checksums proven."""
    at = MAGIC_SIZE
    while at < len(data):
        found, at = checked_events(data, at, min(at + _PIECE, len(data)), parser.checksum)
        yield from found
        if not found:  # one that is longer than a piece, or that the parser has to look at
            at, header = next(frames(data, at, len(data)))
            yield RawEvent(header, data[at : at + header.size])
            at += header.size


def main() -> None:
    """Decode everything once."""
    order = json.load(sys.stdin)
    columns = wire_columns(
        parse_create_table(order["structure"], SourceContext("mysql", order["version"], order["schema"])), "mysql"
    )
    began = time.process_time()
    data = Path(order["file"]).read_bytes()
    parser = EventParser()
    maps: dict[int, TableMap] = {}
    decoders: dict[int, RowDecoder] = {}
    rows = 0
    for raw in _raw_events(data, parser):
        event = parser.parse(raw)
        if isinstance(event, Rows):
            rows += len(decoders[event.table_id].decode(event))
        elif isinstance(event, TableMap) and maps.get(event.table_id) is not event:
            maps[event.table_id] = event
            decoders[event.table_id] = RowDecoder(event, columns)
    print(json.dumps({"rows": rows, "seconds": time.process_time() - began}))


if __name__ == "__main__":
    main()
