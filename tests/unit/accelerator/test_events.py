"""Events are cut and parsed as without the extension, damaged ones included."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.mysql.binlog.event import CheckedEvent, RawEvent
from dm.mysql.binlog.frame import checked_events
from dm.mysql.binlog.header import EventHeader
from dm.mysql.binlog.reader import EventParser, Rows, TableMap, TableMapEvent, TransactionPayload
from dm.mysql.dialect import FLAVORS, Flavor
from dm.sourcelog.stream.transaction import RowsItem
from tests.testbed.decoders import running
from tests.unit.mysql.binlog.mutation import Mutator
from tests.unit.mysql.binlog.sample import SAMPLES, raw_events

thorough = settings(max_examples=80, deadline=None)


def parsed(parser: EventParser, raw: RawEvent) -> str:
    """The event or the error, in a form that compares."""
    try:
        event = parser.parse(raw)
    except DMError as error:
        return f"{error.name}: {error}"
    if isinstance(event, TransactionPayload):
        event.payload = bytes(event.payload)
    return f"{type(event).__name__} {event!r}"


def opened(native: ModuleType | None, flavor: Flavor) -> EventParser:
    with running(native):
        parser = EventParser(verify=False)
        parser.parse(raw_events(flavor)[0])
    return parser


@pytest.mark.parametrize("flavor", FLAVORS)
def test_events_of_a_server(native: ModuleType, flavor: Flavor) -> None:
    compiled, python = opened(native, flavor), opened(None, flavor)
    for raw in raw_events(flavor):
        assert parsed(compiled, raw) == parsed(python, raw)
        assert parsed(compiled, CheckedEvent(*raw)) == parsed(python, raw)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_damaged_events(native: ModuleType, flavor: Flavor) -> None:
    compiled, python, mutator = opened(native, flavor), opened(None, flavor), Mutator(flavor, 7)
    for _ in range(1500):
        raw = mutator.event()
        assert parsed(compiled, raw) == parsed(python, raw), raw


@pytest.mark.parametrize("flavor", FLAVORS)
@thorough
@given(st.integers(0, 5000), st.integers(0, 5000), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255))))
def test_pieces_of_a_file(
    native: ModuleType, flavor: Flavor, start: int, size: int, edits: list[tuple[int, int]]
) -> None:
    data = bytearray((SAMPLES / f"{flavor}.binlog").read_bytes())
    first = 4 + len(raw_events(flavor)[0].data)
    for at, value in edits:
        data[first + at % (len(data) - first)] = value
    at = first if start % 3 else start % len(data)
    found: list[Any] = []
    for extension in (native, None):
        with running(extension):
            events, end = checked_events(bytes(data), at, min(at + size, len(data)), start % 2 == 0)
            found.append((list(events), end))
    assert found[0] == found[1]
    for event in found[0][0]:
        assert (type(event), type(event.header)) == (CheckedEvent, EventHeader)


def test_what_is_no_call_is_refused(native: ModuleType) -> None:
    chance = random.Random(3)
    values: list[object] = [
        [],
        [None],
        None,
        1,
        -1,
        b"x" * 40,
        "insert",
        "",
        {},
        (),
        tuple,
        int,
        EventHeader,
        True,
        1 << 70,
    ]
    for name in (
        "frames",
        "rows_event",
        "table_map_event",
        "decode_rows",
        "cut",
        "decode",
        "rows_of",
        "transactions_of",
    ):
        for _ in range(1000):
            arguments = [chance.choice(values) for _ in range(chance.randrange(12))]
            try:
                getattr(native, name)(*arguments)
            except (TypeError, ValueError, OverflowError):
                continue


class Items:
    """The rows events of a stream with their table maps, as an assembler collects them; every other table is wanted."""

    def __init__(self, parser: EventParser) -> None:
        self._parser = parser
        self._maps: dict[int, TableMap | None] = {}
        self.found: list[str] = []
        self.size = 0

    def take(self, raw: RawEvent) -> None:
        event = self._parser.parse(raw)
        self.size += len(raw.data)
        if isinstance(event, TableMapEvent):
            wanted = sum(event.table_map.table.encode()) % 2
            self._maps[event.table_id] = event.table_map if wanted else None
            if wanted:
                self._parser.want(event.table_map)
        elif isinstance(event, Rows):
            if event.table_id not in self._maps:
                raise DMError("table-map-missing", table_id=event.table_id)
            table_map = self._maps[event.table_id]
            if table_map is not None:
                self.found.append(repr(RowsItem(table_map, event)))

    def take_all(self, events: list[RawEvent]) -> str:
        """Take what `rows_of` finds together and the others one by one; gives the error that ended it."""
        at = 0
        try:
            while at < len(events):
                items, _, size, after = self._parser.rows_of(events, at, self._maps, RowsItem)
                self.found += [repr(item) for item in items]
                self.size += size
                if after == at:
                    self.take(events[at])
                    after += 1
                at = after
        except DMError as error:
            return f"{error.name}: {error}"
        return ""


def both_ways(native: ModuleType, flavor: Flavor, events: list[RawEvent]) -> Items:
    compiled, python = Items(opened(native, flavor)), Items(opened(None, flavor))
    with running(native):
        error = compiled.take_all(events)
    with running(None):
        assert python.take_all(events) == error
    assert (compiled.found, compiled.size) == (python.found, python.size)
    return compiled


@pytest.mark.parametrize("flavor", FLAVORS)
def test_rows_events_that_stand_together(native: ModuleType, flavor: Flavor) -> None:
    events: list[RawEvent] = [CheckedEvent(*raw) for raw in raw_events(flavor)]
    items = both_ways(native, flavor, events + events)  # the second time every table map is known
    assert items.found
    parser = opened(native, flavor)
    maps = [parser.parse(raw) for raw in events]
    seen: dict[int, TableMap | None] = {
        event.table_id: event.table_map for event in maps if isinstance(event, TableMapEvent)
    }
    with running(native):
        together = [parser.rows_of(events, at, seen, RowsItem)[3] - at for at in range(len(events))]
    assert max(together) > 1, "nothing was ever taken together"


@pytest.mark.parametrize("flavor", FLAVORS)
def test_damaged_rows_events_that_stand_together(native: ModuleType, flavor: Flavor) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    chance, mutator = random.Random(seed), Mutator(flavor, seed)
    whole: list[RawEvent] = [CheckedEvent(*raw) for raw in raw_events(flavor)]
    for _ in range(60):
        events = list(whole)
        for _ in range(chance.randrange(1, 4)):
            events[chance.randrange(1, len(events))] = CheckedEvent(*mutator.event())
        both_ways(native, flavor, events)
