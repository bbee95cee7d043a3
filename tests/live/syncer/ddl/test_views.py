"""RENAME TABLE of a view stands in the binlog as that of a table does; views are not replicated."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.parametrize("there", [False, True], ids=["nothing there", "a view there"])
def test_a_view_that_is_renamed_is_nobody_s_table(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, there: bool
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    for server in (upstream, target)[: 1 + there]:
        server.execute(*(f"CREATE VIEW {name}.{view} AS SELECT * FROM {name}.t" for view in ("v", "w")))
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"RENAME TABLE {name}.v TO {name}.x, {name}.w TO {name}.v, {name}.x TO {name}.w",
            f"RENAME TABLE {name}.v TO {name}.y",
            f"INSERT INTO {name}.t VALUES (1)",
        )
        if there:
            upstream.execute(f"CREATE TABLE {name}.z (id INT)")
        sync.wait_synced()
    assert target.query(f"SELECT id FROM {name}.t") == ((1,),)
    tables = {row[0] for row in target.query(f"SHOW TABLES FROM {name}")}
    assert tables == ({"t", "v", "w", "z"} if there else {"t"})


@pytest.mark.ci_flavor("mysql")
def test_a_table_that_is_renamed_is_no_view(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    sync = RunningSync(subtask_for(upstream, target, name, task=name), None)
    try:
        sync.wait_synced()
        upstream.execute(f"RENAME TABLE {name}.t TO {name}.u")
        error = sync.wait_ended()
    finally:
        sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "ddl-failed"
