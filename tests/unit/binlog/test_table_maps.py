"""Table maps that come again: the same object for the same bytes, the same table under another id."""

from __future__ import annotations

from dm.binlog.event import RawEvent
from dm.binlog.header import parse_header
from dm.binlog.reader import EventParser, TableMap
from tests.unit.relaylog.binlog_bytes import format_description, table_map


def read(parser: EventParser, data: bytes) -> TableMap:
    found = parser.parse(RawEvent(parse_header(data), data))
    assert isinstance(found, TableMap)
    return found


def test_a_table_that_the_source_opened_again_is_the_same_table_under_another_id() -> None:
    parser = EventParser()
    parser.parse(RawEvent(parse_header(format_description()), format_description()))
    first, other = read(parser, table_map(7)), read(parser, table_map(8, table=b"b"))
    assert read(parser, table_map(7)) is first
    again = read(parser, table_map(9))
    assert read(parser, table_map(9)) is again
    assert (again.table_id, again.body[:6], again.behind_id) == (9, (9).to_bytes(6, "little"), first.behind_id)
    assert again.columns is first.columns, "nothing of it was read anew"
    assert read(parser, table_map(8, table=b"b")) is other
    old = read(parser, table_map(7))
    assert (old.table_id, old.columns) == (7, first.columns)
