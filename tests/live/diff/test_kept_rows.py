"""However many rows of a chunk differ, few of them are kept at a time, and all are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.tools.diff.chunk import Chunk, ChunkComparer, ChunkOutcome
from dm.tools.diff.versions import ROW_COST
from tests.testbed.diffing import planned
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import subtask_for

pytestmark = pytest.mark.live

ROWS = 600
NUMBERS = f"WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"


def outcomes(subtask: SubtaskConfig, kept_bytes: int, *, estimate: int) -> Iterator[ChunkOutcome]:
    """Of the only table and what is left of it; a row is taken to have so many bytes."""
    planner, table, how = planned(subtask)
    tables = (replace(how, row_bytes=estimate),)
    comparer = ChunkComparer(planner.endpoints, tables, kept_bytes=kept_bytes, words=10)
    assert table.conditions == ["1"]
    left = [Chunk(0, 0, "1")]
    while left:
        (outcome,) = comparer((left.pop(),))
        yield outcome
        left += [replace(outcome.chunk, slice=some) for some in outcome.slices]


def check(source: ThrowawayServer, target: ThrowawayServer, name: str, kept: int, row_bytes: int, most: int) -> None:
    """With right estimates, and with such that no row has any bytes."""
    subtask = subtask_for(source, target, name, task=name)
    found = {}
    for estimate in (row_bytes, 0):
        all_of_it = list(outcomes(subtask, kept, estimate=estimate))
        assert 0 < max(outcome.kept for outcome in all_of_it) <= most
        assert (all_of_it[0].source_rows, all_of_it[0].target_rows) == (ROWS, ROWS)
        differences = [each for outcome in all_of_it for each in outcome.differences]
        assert max(sum(each.size for each in outcome.differences) for outcome in all_of_it) <= 3 * kept
        assert len(all_of_it) > 1
        found[estimate] = {each.identity for each in differences}
        assert len(found[estimate]) == len(differences)
        for outcome in all_of_it:
            assert sum(each.worded for each in outcome.differences) == min(10, len(outcome.differences))
    first, other = found.values()
    assert first == other
    # All rows but the first ten: of a key both versions are one difference.
    assert len(first) in (ROWS - 10, 2 * (ROWS - 10))


@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
def test_a_table_without_a_key(flavor: Flavor, park: ServerPark, schema: SchemaFactory) -> None:
    source, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    name = schema(source, target)
    for server, other in ((source, 0), (target, 1)):
        server.execute(
            f"CREATE TABLE {name}.t (v INT, w VARCHAR(20))",
            f"INSERT INTO {name}.t {NUMBERS} SELECT i, IF(i > 10, {other}, 'same') FROM n",
        )
    check(source, target, name, 100 * ROW_COST, 50, 101)


def test_rows_that_only_a_client_compares(park: ServerPark, schema: SchemaFactory) -> None:
    source, target = park.shared("mysql", "upstream-1"), park.shared("mariadb", "target")
    name = schema(source, target)
    for server, other in ((source, 0), (target, 1)):
        server.execute(
            f"CREATE TABLE {name}.t (k VARCHAR(20) PRIMARY KEY, j JSON)",
            f"INSERT INTO {name}.t {NUMBERS} SELECT CONCAT('k', i), CONCAT('[', IF(i > 10, {other}, 7), ']') FROM n",
        )
    check(source, target, name, 100 * ROW_COST, 50, 101)


# Of a LONGTEXT, a row's text has only the hash.
LONG = [pytest.param("VARCHAR(9000)", marks=pytest.mark.chaos), "LONGTEXT"]


@pytest.mark.parametrize("type_", LONG)
def test_long_rows_are_fewer(type_: str, park: ServerPark, schema: SchemaFactory) -> None:
    source, target = park.shared("mysql", "upstream-1"), park.shared("mysql", "target")
    name = schema(source, target)
    for server, other in ((source, 0), (target, 1)):
        server.execute(
            f"CREATE TABLE {name}.t (k INT PRIMARY KEY, w {type_})",
            f"INSERT INTO {name}.t {NUMBERS} SELECT i, IF(i > 10, CONCAT(REPEAT('x', 8999), {other}), '') FROM n",
        )
    check(source, target, name, 200 * ROW_COST, 9000, 22 if type_ == "LONGTEXT" else 12)


def test_of_many_chunks_together_the_rest_waits_when_enough_is_found(park: ServerPark, schema: SchemaFactory) -> None:
    source, target = park.shared("mysql", "upstream-1"), park.shared("mysql", "target")
    name = schema(source, target)
    for server, other in ((source, 0), (target, 1)):
        server.execute(
            f"CREATE TABLE {name}.t (k INT PRIMARY KEY, v INT)",
            f"INSERT INTO {name}.t {NUMBERS} SELECT i, {other} FROM n",
        )
    planner, _, how = planned(subtask_for(source, target, name, task=name))
    # By itself this is what the target has last counted: a whole page for a row, until its statistics are renewed.
    table = replace(how, row_bytes=0)
    chunks = tuple(Chunk(0, number, f"k % 6 = {number}") for number in range(6))
    # 100 rows differ in each, and a sixteenth is enough.
    for kept, asked in ((220, 1), (220 * 16, 3), (ROWS * 16, 6)):
        comparer = ChunkComparer(planner.endpoints, (table,), kept_bytes=kept * ROW_COST)
        assert [outcome.chunk for outcome in comparer(chunks)] == list(chunks[:asked])
