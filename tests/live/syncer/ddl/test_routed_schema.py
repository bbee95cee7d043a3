"""What a statement says of a schema, or takes from it, where routes lead elsewhere."""

from __future__ import annotations

import pytest

from dm.config.rules import BlockAllowList, RouteRule
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
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


@pytest.mark.parametrize("default", ["CHARACTER SET latin1", "COLLATE utf8mb4_bin"])
@pytest.mark.parametrize("compatible", ["loose", pytest.param("strict", marks=pytest.mark.chaos)])
def test_a_table_has_the_default_of_its_own_schema(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, default: str, compatible: str
) -> None:
    name, other, more = schema(upstream), schema(target), schema(upstream)
    target.execute(f"ALTER DATABASE {other} {default}")
    upstream.execute(f"ALTER DATABASE {more} CHARACTER SET cp1250 COLLATE cp1250_bin")
    routes = tuple(RouteRule(schema_pattern=one, target_schema=other) for one in (name, more))
    subtask = subtask_for(upstream, target, name, task=name, routes=routes)
    changed = {"collation_compatible": compatible, "block_allow_list": BlockAllowList(do_dbs=(name, more))}
    with running_sync(subtask.model_copy(update=changed)) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(9), KEY (v) /* ) */) COMMENT 'x'",
            f"INSERT INTO {name}.t VALUES (1, '日本'), (2, 'A')",
            f"CREATE TABLE {name}.p (id INT PRIMARY KEY, v TEXT) PARTITION BY HASH (id) PARTITIONS 2",
            f"CREATE TABLE {more}.c (v CHAR(9) PRIMARY KEY)",
            f"INSERT INTO {more}.c VALUES ('a'), ('A')",
        )
        sync.wait_synced()
    tables = pair_tables([upstream], [name, more], route=lambda _, table: TableName(other, table.table))
    report = compare(tables, target)
    assert report.identical, str(report)
    assert len(report.tables) == 3
