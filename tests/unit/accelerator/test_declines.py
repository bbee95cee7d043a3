"""What ordinary work consists of is done by the compiled loops, all of it: what they decline is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from dm.changes.compacted import compacted
from dm.changes.grouped import grouped
from dm.changes.native_changes import change_maker, direct_table
from dm.changes.row_change import ChangeKind, RowChange
from dm.errors import DMError
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.event import CheckedEvent, RawEvent
from dm.mysql.binlog.header import HEADER_SIZE, EventType
from dm.mysql.binlog.reader import EventParser, TableMap, TableMapEvent
from dm.mysql.binlog.row_events import ROWS_TYPES
from dm.mysql.dialect import Flavor
from dm.sourcelog.stream.transaction import RowsItem
from dm.syncer.apply.source_table import KINDS
from tests.testbed.decoders import running
from tests.unit.accelerator.rows_at_random import sample
from tests.unit.accelerator.transactions_at_random import format_description, groups, stamped
from tests.unit.changes.plans import delete, insert, key, number, plan, text, update
from tests.unit.mysql.binlog.test_json_decoder import stored

FLAVORS: tuple[Flavor, ...] = ("mysql", "mariadb")
_OF_ROWS = {EventType.QUERY, EventType.TABLE_MAP, EventType.ROWS_QUERY, EventType.MARIADB_ANNOTATE_ROWS, EventType.XID}
_PLAIN = {code for code, form in ROWS_TYPES.items() if not form.compressed and not form.partial}


@contextmanager
def nothing_declined(native: ModuleType) -> Iterator[None]:
    """What is done inside is done by the extension."""
    before = native.declines()
    with running(native):
        yield
    assert native.declines() == before


def is_plain(group: list[RawEvent]) -> bool:
    """Whether a transaction is a GTID and rows, with the ends that they have."""
    rest = group[1:]
    begins = [event for event in rest if event.header.type == EventType.QUERY]
    return (
        any(event.header.type in _PLAIN for event in rest)
        and all(event.header.type in _OF_ROWS | _PLAIN for event in rest)
        and all(event.data.endswith(b"BEGIN") for event in begins)
        and rest[-1].header.type == EventType.XID
    )


@pytest.mark.parametrize("flavor", FLAVORS)
def test_transactions_of_known_tables(native: ModuleType, flavor: Flavor) -> None:
    plain = [group for group in groups(flavor) if is_plain(group)]
    assert plain
    events = stamped([event for group in plain for event in group])
    maps: dict[int, TableMap | None] = {}
    with running(native):
        parser = EventParser(verify=False)
        parser.parse(stamped([format_description(flavor)])[0])
        for event in events:
            found = parser.parse(event)
            if isinstance(found, TableMapEvent):
                maps[found.table_id] = found.table_map
    for group in plain:
        given = stamped(group)
        for event in given:  # a map's number may be another table's in the next transaction
            if event.header.type == EventType.TABLE_MAP:
                found = parser.parse(event)
                assert isinstance(found, TableMapEvent)
                maps[found.table_id] = found.table_map
        with nothing_declined(native):
            transactions, end = parser.transactions_of(list(given), 0, maps, RowsItem, 1 << 30)
        assert (len(transactions), end) == (1, len(given))


@pytest.mark.parametrize("flavor", FLAVORS)
def test_rows_events(native: ModuleType, flavor: Flavor) -> None:
    with running(native):
        parser = EventParser(verify=False)
    parser.parse(stamped([format_description(flavor)])[0])
    events = [event for group in groups(flavor) for event in group if event.header.type in _PLAIN]
    usual = [CheckedEvent(*event) for event in events if event.data[HEADER_SIZE : HEADER_SIZE + 6] != b"\xff" * 6]
    assert usual
    with nothing_declined(native):
        for event in usual:
            parser.parse(event)


def test_rows_of_a_server_and_their_changes(native: ModuleType) -> None:
    made = 0
    for seed in range(100):
        found = sample(seed, damage=False)
        with running(native):
            decoder = RowDecoder(found.table_map, found.columns)
            try:
                expected = decoder.decode(found.rows)
            except DMError:
                continue
        if found.rows.partial:
            continue  # of which Python reads all
        with nothing_declined(native):
            assert decoder.decode(found.rows) is not None
            maker = change_maker(9, 4, 400)
            assert maker is not None
            table = plan([number("a")], [key("PRIMARY", "a")])
            direct = direct_table(found.table_map, decoder.layouts, table, dict(KINDS))
            if direct is None or not found.rows.whole:
                continue
            item = RowsItem(found.table_map, found.rows)
            changes = maker([item], 0, {id(found.table_map): direct}, False).changes
        assert [(change.before, change.after) for change in changes] == expected
        made += len(changes)
    assert made > 100


def test_batches_of_rows_of_tables_with_keys(native: ModuleType) -> None:
    with running(native):
        table = plan([number("a"), number("b"), text("c")], [key("PRIMARY", "a")])
    batch = [insert(table, at, at, b"it's") for at in range(50)]
    batch += [update(table, (at, at, b"it's"), (at, at + 1, None)) for at in range(50)]
    batch += [delete(table, at, at + 1, None) for at in range(50)]
    with nothing_declined(native):
        statements = grouped(compacted(batch, limit=1 << 20))
    assert statements


def test_json(native: ModuleType) -> None:
    with nothing_declined(native):
        assert native.json_text(stored({"a": [1, -2.5, "text", None, True, {"b": []}]}, large=False)) is not None


@pytest.mark.parametrize(
    ("loop", "declined"),
    [
        ("json", lambda native: native.json_text(b"\xff")),
        ("literals", lambda native: native.Literals(((0, 1, b"", lambda value: b"x"),), b"", b"")(("x",))),
        ("rows", lambda native: native.decode(None, native.Layout(((1, 0, 0, 8, None),), None), b"\0\1", 0, 2)),
    ],
)
def test_what_is_declined_is_counted(native: ModuleType, loop: str, declined: Callable[[ModuleType], object]) -> None:
    before = native.declines()
    declined(native)
    assert native.declines() == {**before, loop: before[loop] + 1}


def test_batches_and_changes_that_are_declined_are_counted(native: ModuleType) -> None:
    before = native.declines()
    with running(native):
        table = plan([number("a")], [])
        grouped([insert(table, 1)])
        compacted([RowChange(table, ChangeKind.INSERT, None, None, False)], limit=9)
        maker = change_maker(9, 4, 400)
        assert maker is not None
        found = sample(1, damage=False)
        maker([RowsItem(found.table_map, found.rows)], 0, {}, False)
    after = native.declines()
    assert {loop for loop in after if after[loop] > before[loop]} == {"grouped", "compacted", "changes"}
