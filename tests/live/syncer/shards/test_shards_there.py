"""Shard merge: a CREATE TABLE IF NOT EXISTS of a shard that is there, which MySQL's binlog has as well."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.syncer.operators import Request
from dm.task.binlog_verbs import operate_on_event
from dm.task.shard_locks import Decision, decide, locks
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.shards.test_shard_persons import rows_of
from tests.live.syncer.shards.test_shards import KEYED, held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]  # a MariaDB's binlog does not have such a statement


def test_a_shard_that_is_not_waited_for_comes_later_all_the_same(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN w INT", f"INSERT INTO {name}.s1 VALUES (1, 1, 1)")
        held(sync)
        assert decide(subtask, Decision(f"{name}-`{name}`.`t`")) == ""
        wait_for_rows(target, name, 1, sync)
        upstream.execute(
            f"CREATE TABLE IF NOT EXISTS {name}.s2 ({KEYED})",
            f"INSERT INTO {name}.s2 VALUES (11, 1)",
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT",
            f"INSERT INTO {name}.s2 VALUES (12, 1, 1)",
        )
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
        assert locks(subtask) == []
    merged([upstream], target, name)


def test_a_shard_does_not_wait_with_the_one_it_would_have_been_created_like(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s2 VALUES (11, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
            f"CREATE TABLE IF NOT EXISTS {name}.s2 LIKE {name}.s1",
            f"INSERT INTO {name}.s2 VALUES (12, 1)",
        )
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"INSERT INTO {name}.s2 VALUES (13, 1, 1)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


def test_a_shard_that_has_left_out_a_statement_is_created_no_second_time(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    at = place(upstream)
    upstream.execute(f"ALTER TABLE {name}.s1 ADD INDEX by_v (v)")
    operate_on_event(subtask, Request("skip", name, "source-0", at), None)
    upstream.execute(f"CREATE TABLE IF NOT EXISTS {name}.s1 ({KEYED})", f"INSERT INTO {name}.s1 VALUES (1, 1)")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 1, sync)
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD COLUMN w INT" for shard in ("s1", "s2")))
        upstream.execute(f"INSERT INTO {name}.s1 VALUES (2, 2, 2)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    assert rows_of(target, name, "t") == [(1, 1), (2, 2)]


def test_the_statement_that_has_created_an_early_shard_counts_when_it_is_met_again(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    create = f"CREATE TABLE IF NOT EXISTS {name}.s3 ({KEYED}, KEY by_v (v))"
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(create, f"INSERT INTO {name}.s3 VALUES (21, 1)", create)
        held(sync)
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD INDEX by_v (v)" for shard in ("s1", "s2")))
        wait_for_rows(target, name, 1, sync)
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD COLUMN w INT" for shard in ("s1", "s2", "s3")))
        upstream.execute(f"INSERT INTO {name}.s3 VALUES (22, 1, 1)")
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
        assert locks(subtask) == []
    merged([upstream], target, name)


def test_the_statement_that_has_created_a_shard_counts_again_after_a_crash(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(
        f"CREATE TABLE IF NOT EXISTS {name}.s3 ({KEYED}, KEY by_v (v))", f"INSERT INTO {name}.s3 VALUES (21, 1)"
    )
    process = SyncProcess(subtask, faults="shard.early=kill")
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with running_sync(subtask) as sync:
        held(sync)
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD INDEX by_v (v)" for shard in ("s1", "s2")))
        wait_for_rows(target, name, 1, sync)
        sync.wait_synced()
    merged([upstream], target, name)
