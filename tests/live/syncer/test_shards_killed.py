"""Shard merge, pessimistic: a process that is killed at any step is continued by the next one, without a person."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.syncer.test_shards import KEYED, KEYLESS, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync

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
