"""A table that somebody alters at the target while a run uses it: the task says so, a new run says what it lacks."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("statement", "then"),
    [
        ("ALTER TABLE {t} DROP COLUMN v", "column-missing"),
        pytest.param("DROP TABLE {t}", "target-table-missing", marks=pytest.mark.ci_flavor("mysql")),
        pytest.param("ALTER TABLE {t} DROP v, ADD v INT AS (id + 1) STORED", "", marks=pytest.mark.ci_flavor("mysql")),
    ],
)
def test_a_row_meets_a_table_that_is_another_one(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, statement: str, then: str
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = subtask_for(upstream, target, name, task=name, row_format="sql")
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.t VALUES (1, 2)")
    sync.wait_synced()
    target.execute(statement.format(t=f"{name}.t"))
    upstream.execute(f"INSERT INTO {name}.t VALUES (2, 3)")
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "target-table-altered", error
    assert f"{name}.t" in error.message
    again = RunningSync(subtask, None)
    if then:
        told = again.wait_ended()
        assert isinstance(told, DMError)
        assert told.name == then, told
    else:
        again.wait_synced()
        assert target.query(f"SELECT id, v FROM {name}.t") == ((1, 2), (2, 3))
    again.stop()
