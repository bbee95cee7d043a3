"""What a statement says of a schema, or takes from it, where routes lead elsewhere."""

from __future__ import annotations

import pytest

from dm.config.route import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mysql")
def test_a_schema_is_not_dropped_while_tables_of_it_stay_elsewhere(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name, other, rest = schema(upstream), schema(target), schema(target)
    routes = (
        RouteRule(schema_pattern=name, table_pattern="t", target_schema=other, target_table="u"),
        RouteRule(schema_pattern=name, target_schema=rest),
    )
    subtask = subtask_for(upstream, target, name, task=name, routes=routes)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    create = f"CREATE TABLE {name}.t (id INT PRIMARY KEY)"
    upstream.execute(
        create,
        f"CREATE TABLE {name}.o (id INT PRIMARY KEY)",
        f"INSERT INTO {name}.t VALUES (1)",
        f"DROP DATABASE {name}",
        f"CREATE DATABASE {name}",
        create,
        f"INSERT INTO {name}.t VALUES (2)",
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert (error.name, f"`{other}`.`u`" in error.message) == ("ddl-schema-elsewhere", True)
    assert target.query(f"SHOW TABLES FROM {rest}") == (("o",),)
    target.execute(f"DROP TABLE {other}.u")
    with running_sync(subtask) as resumed:
        resumed.wait_synced()
    assert target.query(f"SELECT id FROM {other}.u") == ((2,),)
    assert target.query(f"SHOW TABLES FROM {rest}") == ()
