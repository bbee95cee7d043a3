"""Whatever the bytes are, the reader gives an event or a DMError; so does the row decoder."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dm.errors import DMError
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.header import EventType, parse_header
from dm.mysql.binlog.reader import EventParser, Rows, TableMap, TableMapEvent
from dm.mysql.dialect import FLAVORS, Flavor
from tests.testbed.decoders import decoded
from tests.testbed.figures import record
from tests.unit.mysql.binlog.mutation import Mutator
from tests.unit.mysql.binlog.sample import TABLES, outcome, raw_events

SEED = 20261121
MANY = 500_000
fuzzed = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

edits = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=6)


def damaged(raw: RawEvent, changes: list[tuple[int, int]], cut: int) -> RawEvent:
    """The event with bytes changed after its type and perhaps its end missing; its size is made right again."""
    data = bytearray(raw.data)
    for at, value in changes:
        data[19 + at % max(1, len(data) - 19)] = value
    if cut:
        del data[max(19, len(data) - cut) :]
    data[9:13] = len(data).to_bytes(4, "little")
    return RawEvent(parse_header(data), bytes(data))


def opened(flavor: Flavor) -> EventParser:
    parser = EventParser(verify=False)
    parser.parse(raw_events(flavor)[0])
    return parser


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("flavor", FLAVORS)
@fuzzed
@given(data=st.data())
def test_damaged_events(flavor: Flavor, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(raw_events(flavor)))
    outcome(opened(flavor), damaged(raw, data.draw(edits), data.draw(st.integers(0, 60))))


@pytest.mark.parametrize("flavor", FLAVORS)
@fuzzed
@given(kind=st.sampled_from([*EventType, 43, 99, 172, 255]), body=st.binary(max_size=200), flags=st.integers(0, 0xFFFF))
def test_any_bytes_as_any_event(flavor: Flavor, kind: int, body: bytes, flags: int) -> None:
    data = bytes(4) + bytes((kind,)) + bytes(4) + (19 + len(body)).to_bytes(4, "little") + bytes(4)
    data += flags.to_bytes(2, "little") + body
    outcome(opened(flavor), RawEvent(parse_header(data), data))
    outcome(EventParser(), RawEvent(parse_header(data), data))


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("flavor", FLAVORS)
@fuzzed
@given(data=st.data())
def test_damaged_row_images(flavor: Flavor, data: st.DataObject) -> None:
    parser = opened(flavor)
    maps: dict[int, TableMap] = {}
    rows: list[RawEvent] = []
    for raw in raw_events(flavor):
        event = outcome(parser, raw)
        if isinstance(event, TableMapEvent):
            maps[event.table_id] = event.table_map
        elif isinstance(event, Rows):
            rows.append(raw)
    event = outcome(parser, damaged(data.draw(st.sampled_from(rows)), data.draw(edits), data.draw(st.integers(0, 60))))
    if isinstance(event, Rows) and event.table_id in maps:
        table_map = maps[event.table_id]
        try:
            decoded(table_map, TABLES[table_map.table], event)
        except DMError as error:
            str(error)  # its templates have all their details


def test_an_unknown_event_passes_only_when_it_is_marked_as_ignorable() -> None:
    head = bytes(4) + bytes((99,)) + bytes(4) + (19).to_bytes(4, "little") + bytes(4)
    unmarked, marked = head + bytes(2), head + b"\x80\0"
    with pytest.raises(DMError) as caught:
        EventParser().parse(RawEvent(parse_header(unmarked), unmarked))
    assert caught.value.name == "event-unknown"
    assert EventParser().parse(RawEvent(parse_header(marked), marked))


@pytest.mark.parametrize("kind", [EventType.WRITE_ROWS_V0, EventType.INCIDENT, EventType.MARIADB_START_ENCRYPTION])
def test_what_can_not_be_replicated_says_why(kind: EventType) -> None:
    data = bytes(4) + bytes((kind,)) + bytes(4) + (19).to_bytes(4, "little") + bytes(6)
    with pytest.raises(DMError) as caught:
        EventParser().parse(RawEvent(parse_header(data), data))
    assert caught.value.name == "event-unsupported"
    assert caught.value.workaround


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_sample_of_damaged_events_of_all_types(flavor: Flavor) -> None:
    mutator = Mutator(flavor, SEED)
    mutator.run(2_000)
    assert mutator.outcomes["read"]
    assert mutator.outcomes["event-corrupt"]


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_very_many_damaged_events_of_all_types(flavor: Flavor) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    mutator = Mutator(flavor, seed)
    mutator.run(MANY)
    record(f"binlog.fuzz.{flavor}", {"events": MANY, "seed": seed, "outcomes": dict(mutator.outcomes.most_common())})
