"""A table that is altered between its plan and its comparison is told as changed."""

from __future__ import annotations

import threading

import pytest

from dm.diff.chunk import ChunkComparer
from dm.diff.options import DiffOptions
from dm.diff.planner import Planner
from dm.flavor import Flavor
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import subtask_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize("flavor", ["mysql", pytest.param("mariadb", marks=pytest.mark.chaos)])
def test_a_null_in_a_column_that_had_none(flavor: Flavor, park: ServerPark, schema: SchemaFactory) -> None:
    source, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    name = schema(source, target)
    for server in (source, target):
        server.execute(
            f"CREATE TABLE {name}.t (k INT PRIMARY KEY, v VARCHAR(9) NOT NULL, w VARCHAR(9) NOT NULL)",
            f"INSERT INTO {name}.t VALUES (1, 'a', 'b'), (2, 'c', 'd')",
        )
    planner = Planner([subtask_for(source, target, name, task=name)], DiffOptions(), threading.Event())
    (planned,) = planner.plan()
    assert planned.compared is not None
    comparer = ChunkComparer(planner.endpoints, (planned.compared,))
    chunks = tuple(planned.chunks(0))
    assert [outcome.equal for outcome in comparer(chunks)] == [True]
    source.execute(f"ALTER TABLE {name}.t MODIFY v VARCHAR(9)", f"UPDATE {name}.t SET v = NULL WHERE k = 2")
    (outcome,) = comparer(chunks)
    assert outcome.changed.endswith("was altered")
