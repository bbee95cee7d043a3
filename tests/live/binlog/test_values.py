"""Every column type: what the decoder reads is what a SELECT gives, and what it writes is what the source holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from dm.mysql.binlog.decode import RowPair
from dm.mysql.binlog.json_decoder import opaque_text
from dm.mysql.binlog.json_tree import Opaque, TypedJson
from dm.mysql.binlog.value import Value
from dm.mysql.binlog.wire_type import WireCode
from dm.mysql.dialect import Flavor
from tests.live.binlog.oracles import mysqlbinlog_disagrees, mysqlbinlog_values, replication_disagrees
from tests.live.binlog.recorded import Recorded
from tests.live.binlog.types import CASES
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def recorded(park: ServerPark) -> Iterator[Callable[[Flavor], Recorded]]:
    made: dict[Flavor, Recorded] = {}
    tried: set[Flavor] = set()

    def of(flavor: Flavor) -> Recorded:
        if flavor not in made:
            assert flavor not in tried, "the cases could not be recorded; the first test that needs them says why"
            tried.add(flavor)
            made[flavor] = Recorded(park.shared(flavor, "upstream-1"), park.shared(flavor, "target"))
        return made[flavor]

    yield of
    for one in made.values():
        one.close()


def same(one: Value, other: Value) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return one == other and str(one) == str(other)
    if isinstance(one, str) and isinstance(other, str):  # a document may carry its tree along
        return one == other
    return type(one) is type(other) and one == other


def test_decoded_values_are_the_selected_ones(recorded: Callable[[Flavor], Recorded], flavor: Flavor) -> None:
    # One test for all types: what they are read from is recorded once per process.
    source = recorded(flavor)
    wrong = {CASES[number][1]: found for number in source.cases if (found := _differences(source, number))}
    assert not wrong


def _differences(source: Recorded, number: int) -> str:
    """What is not as selected in the binlog of a case; empty when all is."""
    table, (_, _, values) = f"v{number}", CASES[number]
    column, changes = source.changes(table)
    expected, inserted = source.selected(table, column), source.inserted(table)
    pairs = [(before, after) for before, after in changes if before is not None and after is not None]
    if not len(expected) == len(inserted) == len(values) + 1:
        return f"{len(values) + 1} rows were written, {len(inserted)} are in the binlog, {len(expected)} in the table"
    for got, wanted in zip(inserted, expected, strict=True):
        if not same(got, wanted):
            return f"inserted {got!r}, selected {wanted!r}"
    if [before[1] for before, _ in pairs] != inserted:
        return f"inserted {inserted}, updated from {pairs}"
    if [after[1:] for _, after in pairs] != [(value, row + 1) for row, value in enumerate(inserted)]:
        return f"inserted {inserted}, updated to {pairs}"
    return ""


def test_the_target_holds_the_same_bytes(recorded: Callable[[Flavor], Recorded], flavor: Flavor) -> None:
    report = recorded(flavor).comparison()
    assert report.identical, str(report)


def test_documents_keep_the_types_of_their_values(recorded: Callable[[Flavor], Recorded]) -> None:
    source = recorded("mysql")
    table = f"v{CASES.index(next(case for case in CASES if case[1] == 'JSON'))}"

    def trees(rows: list[RowPair]) -> dict[Value, object]:
        return {after[0]: _with_types(after[1]) for _, after in rows if after is not None}

    written = trees(source.changes(table)[1])
    assert len(written) > 10
    assert trees(source.arrived(table)) == written


def _with_types(value: object) -> object:
    """A document with the types of its leaves; of a DECIMAL the text, as its leading zeros may differ."""
    if isinstance(value, TypedJson):
        return _with_types(value.tree)
    if isinstance(value, dict):
        return {name: _with_types(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return list(map(_with_types, value))
    if isinstance(value, Opaque) and value.code == WireCode.NEWDECIMAL:
        return value.code, opaque_text(*value)
    return type(value), getattr(value, "unsigned", None), value


def test_mysqlbinlog_reads_the_same_values(recorded: Callable[[Flavor], Recorded], flavor: Flavor) -> None:
    source = recorded(flavor)
    read = mysqlbinlog_values(source.server, source.recording.file)
    for number in source.cases:
        table = f"v{number}"
        column, _ = source.changes(table)
        ours, theirs = source.inserted(table), read[table]
        assert len(ours) == len(theirs)
        compressed = "COMPRESSED" in CASES[number][1]
        different = [
            (one, other)
            for one, other in zip(ours, theirs, strict=True)
            if mysqlbinlog_disagrees(column, one, other, compressed=compressed)
        ]
        assert not different, (CASES[number][1], different)


@pytest.mark.filterwarnings("ignore:'db' is deprecated:DeprecationWarning")
def test_mysql_replication_reads_the_same_values_where_it_is_right(recorded: Callable[[Flavor], Recorded]) -> None:
    source = recorded("mysql")
    assert replication_disagrees(source) == []
