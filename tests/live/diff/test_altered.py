"""A table that is altered between its plan and its comparison is told as changed."""

from __future__ import annotations

import pytest

from dm.mysql.dialect import Flavor
from dm.tools.diff.chunk import ChunkComparer
from tests.testbed.diffing import planned
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import subtask_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
@pytest.mark.parametrize("theirs", ["'c', 'd'", "'d', NULL"])  # in the latter, only the place of the NULL differs
def test_a_null_in_a_column_that_had_none(flavor: Flavor, theirs: str, park: ServerPark, schema: SchemaFactory) -> None:
    source, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    name = schema(source, target)
    for server in (source, target):
        server.execute(
            f"CREATE TABLE {name}.t (k INT PRIMARY KEY, v VARCHAR(9) NOT NULL, w VARCHAR(9) NOT NULL)",
            f"INSERT INTO {name}.t VALUES (1, 'a', 'b'), (2, 'c', 'd')",
        )
    planner, table, how = planned(subtask_for(source, target, name, task=name))
    comparer, chunks = ChunkComparer(planner.endpoints, (how,)), tuple(table.chunks(0))
    assert [outcome.equal for outcome in comparer(chunks)] == [True]
    for server, row in ((source, "NULL, 'd'"), (target, theirs)):
        server.execute(
            f"ALTER TABLE {name}.t MODIFY v VARCHAR(9), MODIFY w VARCHAR(9)",
            f"REPLACE INTO {name}.t VALUES (2, {row})",
        )
    (outcome,) = comparer(chunks)
    assert outcome.changed.endswith("was altered")
