"""Table maps that come again are the same object, whatever the table's id is now."""

from __future__ import annotations

import pytest

from dm.mysql.binlog import reader
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.header import parse_header
from dm.mysql.binlog.reader import EventParser, TableMapEvent
from tests.unit.sourcelog.relaylog.binlog_bytes import format_description, table_map


def read(parser: EventParser, data: bytes) -> TableMapEvent:
    found = parser.parse(RawEvent(parse_header(data), data))
    assert isinstance(found, TableMapEvent)
    return found


def opened() -> EventParser:
    parser = EventParser()
    parser.parse(RawEvent(parse_header(format_description()), format_description()))
    return parser


@pytest.mark.usefixtures("twin")
def test_a_table_that_the_source_opened_again_is_the_same_table_under_another_id() -> None:
    parser = opened()
    first, other = read(parser, table_map(7)), read(parser, table_map(8, table=b"b"))
    again = read(parser, table_map(9))
    assert (first.table_id, other.table_id, again.table_id) == (7, 8, 9)
    assert again.table_map is first.table_map is read(parser, table_map(7)).table_map
    assert read(parser, table_map(8, table=b"b")).table_map is other.table_map is not first.table_map


@pytest.mark.usefixtures("twin")
def test_what_is_kept_of_table_maps_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = opened()
    each = read(parser, table_map(1, table=b"t00")).table_map.memory
    monkeypatch.setattr(reader, "_TABLE_MAPS_BYTES", 5 * each)
    maps = [read(parser, table_map(number, table=b"t%02d" % number)).table_map for number in range(2, 6)]
    assert read(parser, table_map(90, table=b"t05")).table_map is maps[-1], "five of them may be kept"
    read(parser, table_map(6, table=b"t06"))
    assert read(parser, table_map(91, table=b"t05")).table_map is not maps[-1], "the sixth was one too many"
