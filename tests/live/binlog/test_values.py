"""Every column type: what the decoder reads is what a SELECT gives, and what it writes is what the source holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dm.binlog.json_tree import TypedJson
from dm.binlog.value import Row, Value
from dm.demo.installation import Flavor
from tests.live.binlog.oracles import mysqlbinlog_disagrees, mysqlbinlog_values, replication_disagrees
from tests.live.binlog.recorded import Recorded
from tests.live.binlog.types import CASES
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def recorded(park: ServerPark) -> Iterator[Callable[[Flavor], Recorded]]:
    made: dict[Flavor, Recorded] = {}

    def of(flavor: Flavor) -> Recorded:
        if flavor not in made:
            made[flavor] = Recorded(park.shared(flavor, "upstream-1"), park.shared(flavor, "target"))
        return made[flavor]

    yield of
    for one in made.values():
        with one:
            pass


def same(one: Value, other: Value) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other and str(one) == str(other)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case[0]}-{case[1][:40]}" for case in CASES])
def test_decoded_values_are_the_selected_ones(recorded: Callable[[Flavor], Recorded], number: int) -> None:
    flavor, _, values = CASES[number]
    source = recorded(flavor)
    table = f"v{number}"
    column, changes = source.changes(table)
    expected = source.selected(table, column)
    assert len(expected) == len(values) + 1
    inserted = source.inserted(table)
    pairs = [(before, after) for before, after in changes if before is not None and after is not None]
    assert len(inserted) == len(expected)
    for got, wanted in zip(inserted, expected, strict=True):
        assert same(got, wanted), (got, wanted)
    assert [before[1] for before, _ in pairs] == inserted
    assert [after[1:] for _, after in pairs] == [(value, row + 1) for row, value in enumerate(inserted)]


def test_the_target_holds_the_same_bytes(recorded: Callable[[Flavor], Recorded], flavor: Flavor) -> None:
    report = recorded(flavor).comparison()
    assert report.identical, str(report)


def test_documents_keep_the_types_of_their_values(recorded: Callable[[Flavor], Recorded]) -> None:
    source = recorded("mysql")
    table = f"v{CASES.index(next(case for case in CASES if case[1] == 'JSON'))}"

    def trees(rows: list[Row]) -> dict[Value, object]:
        return {row[0]: row[1].tree if isinstance(row[1], TypedJson) else row[1] for row in rows}

    written = trees([after for _, after in source.changes(table)[1] if after is not None])
    assert trees([after for _, after in source.arrived(table)[1] if after is not None]) == written


def test_mysqlbinlog_reads_the_same_values(recorded: Callable[[Flavor], Recorded], flavor: Flavor) -> None:
    source = recorded(flavor)
    read = mysqlbinlog_values(source.server, source.recording.file)
    for number in source.cases:
        table = f"v{number}"
        column, _ = source.changes(table)
        ours, theirs = source.inserted(table), read[table]
        assert len(ours) == len(theirs)
        different = [(a, b) for a, b in zip(ours, theirs, strict=True) if mysqlbinlog_disagrees(column, a, b)]
        assert not different, (CASES[number][1], different)


def test_mysql_replication_reads_the_same_values_where_it_is_right(recorded: Callable[[Flavor], Recorded]) -> None:
    source = recorded("mysql")
    assert replication_disagrees(source) == []
