"""Shard merge: shards that are no more hold up nobody."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.syncer.test_shards import KEYED, held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mysql")
def test_a_table_that_waits_is_let_in_when_the_last_shard_is_dropped(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=1)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"CREATE TABLE {name}.s2 ({KEYED}, w INT)", f"INSERT INTO {name}.s2 VALUES (2, 2, 2)")
        held(sync)
    upstream.execute(f"DROP TABLE {name}.s1")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "column-missing"
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN w INT")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 1, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN x INT", f"INSERT INTO {name}.s2 VALUES (3, 3, 3, 3)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
def test_the_only_shard_may_be_made_anew_as_the_target_takes_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target, shards=1)
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN w INT")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1)",
            f"DELETE FROM {name}.s1",
            f"DROP TABLE {name}.s1",
            f"CREATE TABLE {name}.s1 ({KEYED}, w INT)",
            f"INSERT INTO {name}.s1 VALUES (2, 2, 2)",
        )
        wait_for_rows(target, name, 1, sync)
        upstream.execute(f"CREATE TABLE {name}.s2 ({KEYED}, w INT)", f"INSERT INTO {name}.s2 VALUES (3, 3, 3)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)
