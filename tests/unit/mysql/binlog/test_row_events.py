"""Events made anew are read as what they were made of, under the other name; captured files of both families."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.frame import frames
from dm.mysql.binlog.reader import Event, EventParser, FormatDescription, Rows, TableMap, TableMapEvent
from dm.mysql.binlog.row_events import RowEvents, RowsKind, format_description
from dm.mysql.dialect import FLAVORS, Flavor
from tests.testbed.decoders import decoded
from tests.unit.mysql.binlog.sample import TABLES, typed_events

ELSEWHERE = TableName("anders`wo", "täble" * 20)
# One image is as good for a row that is there from now on as for one that is not.
KINDS: dict[RowsKind, tuple[RowsKind, ...]] = {
    "insert": ("insert", "delete"),
    "update": ("update",),
    "delete": ("insert", "delete"),
}
VERSIONS = {"mysql": "9.7.4", "mariadb": "10.11.19-MariaDB-log"}


def read_again(flavor: Flavor, pieces: Sequence[bytes]) -> list[Event]:
    """What a reader makes of the events of a session."""
    parser = EventParser()
    data = b"".join([format_description(VERSIONS[flavor]), *pieces])
    return [parser.parse(RawEvent(header, data[at : at + header.size])) for at, header in frames(data, 0, len(data))]


def whole_rows(flavor: Flavor) -> Iterator[tuple[TableMap, Rows]]:
    maps: dict[int, TableMap] = {}
    for event in typed_events(flavor):
        if isinstance(event, TableMapEvent):
            maps[event.table_id] = event.table_map
        elif isinstance(event, Rows) and event.whole and not event.partial:
            yield maps[event.table_id], event


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("foreign_keys", [True, False])
def test_the_rows_are_those_they_were_made_of(flavor: Flavor, foreign_keys: bool) -> None:
    built = set()
    for table_map, rows in whole_rows(flavor):
        if table_map.table not in TABLES:
            continue
        columns = TABLES[table_map.table]
        for kind in KINDS[rows.kind]:
            events = RowEvents(table_map, ELSEWHERE)
            pieces = events.pieces(kind, [bytes(rows.body)] * 2, foreign_keys=foreign_keys)
            description, map_event, again = read_again(flavor, pieces)
            assert isinstance(description, FormatDescription)
            assert (description.flavor, description.checksum) == (flavor, False)
            assert isinstance(map_event, TableMapEvent)
            routed = map_event.table_map
            assert isinstance(again, Rows)
            assert TableName(routed.schema, routed.table) == ELSEWHERE
            assert (routed.columns, routed.nullable) == (table_map.columns, table_map.nullable)
            assert (again.kind, again.table_id) == (kind, map_event.table_id)
            assert again.foreign_keys_unchecked is not foreign_keys
            expected = decoded(table_map, columns, rows._replace(kind=kind))
            assert decoded(routed, columns, again) == expected * 2
            built.add(kind)
    assert built == {"insert", "update", "delete"}


def test_nothing_that_a_source_says_beside_types_goes_on() -> None:
    for table_map, rows in whole_rows("mysql"):
        pieces = RowEvents(table_map, ELSEWHERE).pieces(rows.kind, [b""], foreign_keys=True)
        _, routed, _ = read_again("mysql", pieces)
        assert isinstance(routed, TableMapEvent)
        assert routed.table_map.names is None
        assert routed.table_map.optional.unsigned is None


@pytest.mark.parametrize("flavor", FLAVORS)
def test_rows_that_end_inside_of_an_image_are_damaged(flavor: Flavor) -> None:
    refused = 0
    for table_map, rows in whole_rows(flavor):
        if table_map.table not in TABLES:
            continue
        with pytest.raises(DMError) as error:
            decoded(table_map, TABLES[table_map.table], rows._replace(end=rows.end - 1))
        assert error.value.name == "row-corrupt"
        refused += 1
    assert refused
