"""Binlog files that servers of other versions wrote; scripts/fetch_captures.sh puts them in place.

They stand for the versions that can't be run here. What they cover: MySQL 5.1 (row format version 1), 5.5, 5.6
(version 2, LOAD DATA as statement), 5.7.11, 8.0.13 and 8.0.40 (compressed transactions, partial JSON); MariaDB 5.5,
10.0, 10.3. Of MySQL 5.7 there is a statement-format file only, and of 8.4 none; how these differ from what is there is
built byte by byte in test_versions.py. MariaDB 11.8.9 is a capture of our own: the statements of
tests/live/binlog/capture.py and a few more, run once on the server that Debian unstable had then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dm.demo.installation import cache_directory
from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import Event, EventParser, Rows, TableMap, TableMapEvent, TransactionPayload
from dm.mysql.schema.table import Column
from tests.testbed.decoders import decoded

_ROOT = Path("captures/usr/share/mysql/mysql-test")


def capture(name: str) -> Path:
    """The path of one of the files."""
    path = cache_directory() / _ROOT / name
    assert path.exists(), f"{path} is missing: run scripts/fetch_captures.sh"
    return path


def typed_events(path: Path) -> list[Event]:
    """All events of a file, payloads unpacked after themselves."""
    data, parser, found, end = path.read_bytes(), EventParser(), list[Event](), 4
    for at, header in frames(data, 4, len(data)):
        end = at + header.size
        event = parser.parse(RawEvent(header, data[at:end]))
        found.append(event)
        if isinstance(event, TransactionPayload):
            found.extend(parser.parse(inner) for inner in event.events())
    assert end == len(data)
    return found


def changes(path: Path, tables: Mapping[str, Sequence[Column]]) -> list[tuple[str, str, list[RowPair]]]:
    """Table, kind and rows of every rows event of these tables."""
    maps: dict[int, TableMap] = {}
    found: list[tuple[str, str, list[RowPair]]] = []
    for event in typed_events(path):
        if isinstance(event, TableMapEvent):
            maps[event.table_id] = event.table_map
        elif isinstance(event, Rows):
            table_map = maps[event.table_id]
            if table_map.table in tables:
                # A column that was added later stands at the end.
                columns = tables[table_map.table][: len(table_map.columns)]
                rows = decoded(table_map, columns, event)
                found.append((table_map.table, event.kind, rows))
    return found
