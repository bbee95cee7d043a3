"""Shard merge: shards that are no more hold up nobody."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.task.shard_locks import Decision, decide, locks
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


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("unlocks", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_a_ddl_goes_with_the_shard_that_alone_had_come_to_it(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, unlocks: bool
) -> None:
    name = schema(*upstreams, target)
    one, two = subtasks_of(name, upstreams, target, shards=1)
    lock = f"{name}-`{name}`.`t`"
    with running_sync(one) as first, running_sync(two) as second:
        first.wait_synced()
        second.wait_synced()
        upstreams[0].execute(f"ALTER TABLE {name}.s1 ADD COLUMN typo INT")
        held(first)
    if unlocks:
        upstreams[1].execute(f"ALTER TABLE {name}.s1 ADD COLUMN good INT")
        error = RunningSync(two, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "shard-ddl-conflict"
        decide(two, Decision(lock))
        with running_sync(two) as second:
            held(second)
    decide(one, Decision(lock, ("source-0",), force_remove=True))
    assert locks(two) == []
    if not unlocks:
        upstreams[1].execute(f"ALTER TABLE {name}.s1 ADD COLUMN good INT")
    upstreams[1].execute(f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
    with running_sync(two.model_copy(update={"shard_sources": ("source-1",)})) as second:
        wait_for_rows(target, name, 1, second)
        second.wait_synced()
    assert target.query(f"SELECT id, v, good FROM {name}.t") == ((1, 1, 1),)
    assert len(target.query(f"SHOW COLUMNS FROM {name}.t")) == 3


@pytest.mark.ci_flavor("mariadb")
def test_a_shard_that_is_given_up_takes_its_ddl_along_and_is_a_new_one(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN typo INT", f"ALTER TABLE {name}.s1 DROP COLUMN typo")
        held(sync)
    gone = Decision(f"{name}-`{name}`.`t`", ("source-0",), TableName(name, "s1"), force_remove=True)
    decide(subtask, gone)
    upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN good INT", f"INSERT INTO {name}.s2 VALUES (1, 1, 1)")
    upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN good INT", f"INSERT INTO {name}.s1 VALUES (2, 2, 2)")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    merged([upstream], target, name)
