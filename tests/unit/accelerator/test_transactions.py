"""Transactions that are taken whole out of a run are those that their events give one by one."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType

import pytest

from dm.mysql.binlog.event import CheckedEvent, RawEvent
from dm.mysql.binlog.reader import EventParser, TableMap, TableMapEvent
from dm.mysql.dialect import FLAVORS, Flavor
from dm.sourcelog.stream.transaction import RowsItem
from tests.testbed.decoders import running
from tests.unit.accelerator.transactions_at_random import BEGINS, agree, format_description, groups, stamped
from tests.unit.mysql.binlog.mutation import Mutator


@pytest.mark.parametrize("flavor", FLAVORS)
def test_transactions_of_a_server(native: ModuleType, flavor: Flavor, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(40):
        agree(native, flavor, tmp_path, chance, None)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_damaged_transactions(native: ModuleType, flavor: Flavor, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance, mutator = random.Random(seed), Mutator(flavor, seed)
    for _ in range(120):
        agree(native, flavor, tmp_path, chance, mutator)


def known(parser: EventParser, flavor: Flavor) -> tuple[list[CheckedEvent], dict[int, TableMap | None]]:
    """A stream that the parser has read once, and its tables."""
    whole: list[RawEvent] = [event for group in groups(flavor) for event in group]
    events = stamped([format_description(flavor), *whole])
    parsed = [parser.parse(event) for event in events]
    return events, {event.table_id: event.table_map for event in parsed if isinstance(event, TableMapEvent)}


@pytest.mark.parametrize("flavor", FLAVORS)
def test_plain_transactions_are_taken_whole_once_their_tables_are_known(native: ModuleType, flavor: Flavor) -> None:
    with running(native):
        parser = EventParser()
        events, maps = known(parser, flavor)
        taken, at = 0, 1
        while at < len(events):
            found, after = parser.transactions_of(events, at, maps, RowsItem, 1 << 20)
            taken += len(found)
            at = max(after, at + 1)
    assert taken >= 2


def test_a_transaction_that_is_larger_than_a_step_of_memory_is_read_event_by_event(native: ModuleType) -> None:
    with running(native):
        parser = EventParser()
        events, maps = known(parser, "mysql")
        starts = [at for at, event in enumerate(events) if event.header.type in BEGINS]
        whole = [at for at in starts if parser.transactions_of(events, at, maps, RowsItem, 1 << 20)[1] > at]
        with_rows = [at for at in whole if parser.transactions_of(events, at, maps, RowsItem, 1 << 20)[0][0].items]
        assert with_rows
        assert all(parser.transactions_of(events, at, maps, RowsItem, 0) == ([], at) for at in with_rows)
