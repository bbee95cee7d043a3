"""Shard merge, pessimistic: shards alter one after the other, and the target once, when all have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dm.config.route import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import Server, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

KEYED = "id INT PRIMARY KEY, v INT"
KEYLESS = "id INT, v INT"


def subtasks_of(
    name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, shards: int = 2, columns: str = KEYED
) -> list[SubtaskConfig]:
    """One subtask per source, whose tables s1, s2, .. go into the target's table t; u is no shard of it."""
    for server in upstreams:
        server.execute(*(f"CREATE TABLE {name}.s{number} ({columns})" for number in range(1, shards + 1)))
        server.execute(f"CREATE TABLE {name}.u (id INT PRIMARY KEY)")
    target.execute(f"CREATE TABLE {name}.t ({columns})", f"CREATE TABLE {name}.u (id INT PRIMARY KEY)")
    rule = RouteRule(schema_pattern=name, table_pattern="s*", target_schema=name, target_table="t")
    sources = tuple(f"source-{number}" for number in range(len(upstreams)))
    return [
        subtask_for(server, target, name, task=name, source_id=sources[number], routes=(rule,)).model_copy(
            update={"shard_mode": "pessimistic", "shard_sources": sources}
        )
        for number, server in enumerate(upstreams)
    ]


def wait_for_rows(target: ThrowawayServer, name: str, rows: int, *running: RunningSync) -> None:
    """Wait until the target's table has so many rows."""

    def there() -> bool:
        for one in running:
            if one.error is not None:
                raise one.error
        return int(str(target.query(f"SELECT COUNT(*) FROM {name}.t")[0][0])) == rows

    wait_until(there, f"{rows} rows")


def merged(upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, name: str) -> None:
    """The target has what the shards have."""

    def route(_: Server, table: TableName) -> TableName:
        return TableName(name, "t" if table.table.startswith("s") else table.table)

    report = compare(pair_tables(list(upstreams), [name], route=route), target)
    assert report.identical, str(report)


@pytest.mark.parametrize("columns", [KEYED, KEYLESS])
def test_shards_of_one_source_alter_one_after_the_other(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, columns=columns)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT DEFAULT 7",
            f"INSERT INTO {name}.s1 VALUES (2, 2, 2)",
            f"INSERT INTO {name}.s2 VALUES (11, 1)",
        )
        wait_for_rows(target, name, 2, sync)
        assert target.query(f"SELECT * FROM {name}.t ORDER BY id") == ((1, 1), (11, 1))
        upstream.execute(f"UPDATE {name}.s2 SET v = 5", f"INSERT INTO {name}.u VALUES (1)")
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT DEFAULT 7", f"UPDATE {name}.s1 SET v = v + 1")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


def test_a_second_ddl_may_come_before_the_first_is_executed(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for number, table in enumerate(("s1", "s2")):
            upstream.execute(
                f"INSERT INTO {name}.{table} VALUES ({number}0, 1)",
                f"ALTER TABLE {name}.{table} ADD COLUMN w INT DEFAULT 7",
                f"INSERT INTO {name}.{table} VALUES ({number}1, 2, 2)",
                f"ALTER TABLE {name}.{table} DROP COLUMN w",
                f"INSERT INTO {name}.{table} VALUES ({number}2, 2)",
                f"ALTER TABLE {name}.{table} ADD COLUMN w INT DEFAULT 8, ADD INDEX (v)",
                f"INSERT INTO {name}.{table} VALUES ({number}3, 2, 3)",
            )
        wait_for_rows(target, name, 8, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.parametrize("columns", [KEYED, KEYLESS])
def test_shards_of_two_sources(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, columns: str
) -> None:
    name = schema(*upstreams, target)
    subtasks = subtasks_of(name, upstreams, target, columns=columns)
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as two:
        one.wait_synced()
        two.wait_synced()
        for number, server in enumerate(upstreams):
            server.execute(
                f"ALTER TABLE {name}.s1 ADD COLUMN w INT DEFAULT 7",
                f"INSERT INTO {name}.s1 VALUES ({number}1, 1, 1)",
                f"INSERT INTO {name}.s2 VALUES ({number}2, 1)",
            )
        wait_for_rows(target, name, 2, one, two)
        for server in upstreams:
            server.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT DEFAULT 7", f"UPDATE {name}.s2 SET v = 5")
        wait_for_rows(target, name, 4, one, two)
        one.wait_synced()
        two.wait_synced()
    merged(upstreams, target, name)
