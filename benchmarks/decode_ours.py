"""`python -m benchmarks.decode_ours`: decode a binlog file; stdin says which, stdout how many rows in how much CPU.

Once through takes some hundredths of a second, in which the first touch of everything counts; so it is done anew, from
the reading of the file on, until that is a second, and what is told is the time of one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import checked_events, frames
from dm.mysql.binlog.reader import EventParser
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap, TableMapEvent
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, wire_columns
from dm.mysql.sql.context import SourceContext
from dm.position import MAGIC_SIZE

_LEAST_SECONDS = 1.0
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


def _decode(path: Path, columns: Sequence[Column]) -> int:
    """Decode everything once; gives the rows."""
    data = path.read_bytes()
    parser = EventParser()
    maps: dict[int, TableMap] = {}
    decoders: dict[int, RowDecoder] = {}
    rows = 0
    for raw in _raw_events(data, parser):
        event = parser.parse(raw)
        if isinstance(event, Rows):
            rows += len(decoders[event.table_id].decode(event))
        elif isinstance(event, TableMapEvent) and maps.get(event.table_id) is not event.table_map:
            maps[event.table_id] = event.table_map
            decoders[event.table_id] = RowDecoder(event.table_map, columns)
    return rows


def main() -> None:
    """Decode the file as often as it takes."""
    order = json.load(sys.stdin)
    columns = wire_columns(
        parse_create_table(order["structure"], SourceContext("mysql", order["version"], order["schema"])), "mysql"
    )
    times = rows = 0
    began = time.process_time()
    while not times or time.process_time() - began < _LEAST_SECONDS:
        rows = _decode(Path(order["file"]), columns)
        times += 1
    print(json.dumps({"rows": rows, "seconds": (time.process_time() - began) / times}))


if __name__ == "__main__":
    main()
