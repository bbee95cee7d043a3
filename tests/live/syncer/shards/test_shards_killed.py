"""Shard merge, pessimistic: a process that is killed at any step is continued by the next one, without a person."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from dm import faults
from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.syncer.shards.sharded import ShardedSync
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.shards.test_shards import KEYED, KEYLESS, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, wait_until

pytestmark = pytest.mark.live

POINTS = (
    "shard.joined",
    "shard.ready",
    "shard.held",
    "shard.begun",
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


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(("point", "columns"), KILLS)
@pytest.mark.ci_sample(6)
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


@pytest.mark.ci_flavor("mysql")
def test_a_pass_that_died_goes_on_with_tables_whose_structure_nobody_knows(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=3)
    file, offset = place(upstream).split(":")
    subtask = subtask.model_copy(update={"meta": StartPoint(binlog_name=file, binlog_pos=int(offset))})
    for column, shards in (("w", ("s1", "s2", "s3")), ("x", ("s1", "s2"))):  # no rows before
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD COLUMN {column} INT" for shard in shards))
    upstream.execute(f"INSERT INTO {name}.s2 VALUES (2, 2, 2, 2)")
    process = SyncProcess(subtask, faults="shard.held=kill@3")  # the first shard again, at its second DDL
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    upstream.execute(f"ALTER TABLE {name}.s3 ADD COLUMN x INT", f"INSERT INTO {name}.s3 VALUES (3, 3, 3, 3)")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_a_pass_that_is_stopped_is_not_over(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=3)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    for column, shards in (("w", ("s1", "s2", "s3")), ("x", ("s1", "s2"))):
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD COLUMN {column} INT" for shard in shards))
    upstream.execute(f"INSERT INTO {name}.s2 VALUES (2, 2, 2, 2)")
    struck, goes_on = tmp_path / "struck", tmp_path / "goes-on"
    monkeypatch.setenv("DM_FAULTS_LOG", str(struck))
    faults.arm(f"shard.held=hang:{goes_on}@3")  # in the pass; its reader has come to the end
    try:
        running = RunningSync(subtask, None)
        wait_until(struck.exists, "the first shard is held again")
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        wait_until(lambda: closed(running), "the stop has arrived")
        goes_on.touch()
        stopping.join()
    finally:
        faults.arm("")
    assert running.error is None
    upstream.execute(f"ALTER TABLE {name}.s3 ADD COLUMN x INT", f"INSERT INTO {name}.s3 VALUES (3, 3, 3, 3)")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


def closed(running: RunningSync) -> bool:
    """Whether the reading that is under way takes nothing more."""
    parts = cast("ShardedSync", running.unit)._unit._parts
    return parts is not None and parts.reader.queue.closed


def after_the_last_one_died(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, name: str, point: str
) -> tuple[SubtaskConfig, SubtaskConfig]:
    """Two subtasks; the first was killed at the point, where it completed the group. Eight rows are to come."""
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
    return first, second


OF_LAST = [point for point in POINTS if point not in ("shard.joined", "shard.after_execute")]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    "point", ["shard.after_execute", *(pytest.param(point, marks=pytest.mark.chaos) for point in OF_LAST)]
)
def test_another_source_goes_on_where_the_last_one_died(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, point: str
) -> None:
    name = schema(*upstreams, target)
    first, second = after_the_last_one_died(upstreams, target, name, point)
    with running_sync(second) as other, running_sync(first) as one:
        wait_for_rows(target, name, 8, one, other)
        one.wait_synced()
        other.wait_synced()
    merged(upstreams, target, name)


def arrived(target: ThrowawayServer, name: str) -> int:
    """How many shards have come to the first DDL."""
    return int(str(target.query(f"SELECT COUNT(*) FROM meta_{name}.{name}_shard_table WHERE ready = 1")[0][0]))
