"""Shard merge, pessimistic: a process that is killed at any step is continued by the next one, without a person."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.syncer.test_shards import KEYED, KEYLESS, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync, wait_until

pytestmark = pytest.mark.live

POINTS = (
    "shard.joined",
    "shard.ready",
    "shard.held",
    "shard.before_execute",
    "shard.after_execute",
    "shard.executed",
    "shard.before_pass",
    "shard.pass_begun",
    "shard.before_return",
    "shard.returned",
)
# Each point once in `make test`, with a key and without one in turn; the other way round in `make chaos`.
KILLS = [
    pytest.param(point, columns, marks=[] if (number % 2 == 0) is (columns == KEYED) else pytest.mark.chaos)
    for number, point in enumerate(POINTS)
    for columns in (KEYED, KEYLESS)
]


@pytest.mark.parametrize(("point", "columns"), KILLS)
def test_the_next_run_goes_on(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, point: str, columns: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, columns=columns)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    for number, table in enumerate(("s1", "s2")):
        upstream.execute(
            f"INSERT INTO {name}.{table} VALUES ({number}0, 1)",
            f"ALTER TABLE {name}.{table} ADD COLUMN w INT DEFAULT 7, ADD COLUMN x INT",
            f"INSERT INTO {name}.{table} VALUES ({number}1, 2, 2, 2)",
            f"INSERT INTO {name}.u VALUES ({number})",
            f"ALTER TABLE {name}.{table} DROP COLUMN w",
            f"INSERT INTO {name}.{table} VALUES ({number}2, 3, 3)",
            f"UPDATE {name}.{table} SET v = v + 10",
        )
    process = SyncProcess(subtask, faults=f"{point}=kill")
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 6, sync)
        sync.wait_synced()
    merged([upstream], target, name)


OF_LAST = [point for point in POINTS if point not in ("shard.joined", "shard.after_execute")]


@pytest.mark.parametrize(
    "point", ["shard.after_execute", *(pytest.param(point, marks=pytest.mark.chaos) for point in OF_LAST)]
)
def test_another_source_goes_on_where_the_last_one_died(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, point: str
) -> None:
    name = schema(*upstreams, target)
    first, second = subtasks_of(name, upstreams, target)
    with running_sync(first) as one, running_sync(second) as other:
        one.wait_synced()
        other.wait_synced()
    for number, server in enumerate(upstreams):
        for table in ("s1", "s2"):
            key = number * 100 + int(table[1]) * 10
            server.execute(
                f"ALTER TABLE {name}.{table} ADD COLUMN w INT NOT NULL DEFAULT 8 AFTER id,"
                " DROP PRIMARY KEY, ADD PRIMARY KEY (id, w)",
                f"INSERT INTO {name}.{table} VALUES ({key}, 1, 1)",
                f"ALTER TABLE {name}.{table} ADD COLUMN x INT",
                f"INSERT INTO {name}.{table} VALUES ({key + 1}, 1, 1, 1)",
            )
    with running_sync(second) as other:
        wait_until(lambda: arrived(target, name) == 2, "both shards of the other source wait")
    process = SyncProcess(first, faults=f"{point}=kill")
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with running_sync(second) as other, running_sync(first) as one:
        wait_for_rows(target, name, 8, one, other)
        one.wait_synced()
        other.wait_synced()
    merged(upstreams, target, name)


def arrived(target: ThrowawayServer, name: str) -> int:
    """How many shards have come to the first DDL."""
    return int(str(target.query(f"SELECT COUNT(*) FROM meta_{name}.{name}_shard_table WHERE ready = 1")[0][0]))
