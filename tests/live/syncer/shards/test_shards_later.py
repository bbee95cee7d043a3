"""Shard merge: tables that become shards later than their source has joined, and without a CREATE TABLE."""

from __future__ import annotations

import pytest

from dm.config.rules import BlockAllowList, TablePattern
from dm.config.scalar import ShardMode
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.task.shard_locks import Decision, decide, locks
from tests.live.syncer.shards.test_shard_persons import BOTH_MODES, merging
from tests.live.syncer.shards.test_shards import held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, wait_until

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mariadb")
def test_the_others_wait_for_a_shard_whose_rows_were_given_up(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = subtasks_of(name, [upstream], target)
    early = Decision(f"{name}-`{name}`.`t`", ("source-0",), TableName(name, "s3"), force_remove=True)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"CREATE TABLE {name}.s3 (id INT PRIMARY KEY, v INT, KEY own (v))", f"INSERT INTO {name}.s3 VALUES (21, 1)"
        )
        held(sync)
        upstream.execute(f"INSERT INTO {name}.u VALUES (1)")
        wait_until(lambda: target.query(f"SELECT id FROM {name}.u") == ((1,),), "the stream is beyond the row")
    decide(subtask, early)
    with running_sync(subtask) as sync:
        upstream.execute(f"INSERT INTO {name}.s3 VALUES (22, 1)")
        upstream.execute(*(f"ALTER TABLE {name}.{shard} DROP COLUMN v" for shard in ("s1", "s2")))
        wait_for_rows(target, name, 1, sync)
        held(sync)
        assert target.query(f"SELECT id, v FROM {name}.t") == ((22, 1),)
        upstream.execute(f"INSERT INTO {name}.s3 VALUES (23, 1)")
        wait_for_rows(target, name, 2, sync)  # the target has the column yet
        upstream.execute(f"ALTER TABLE {name}.s3 DROP COLUMN v", f"INSERT INTO {name}.s3 VALUES (24)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
        assert locks(subtask) == []
    assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((22,), (23,), (24,))  # not those given up


@pytest.mark.ci_flavor("mysql")
@BOTH_MODES
def test_the_others_wait_for_a_shard_that_the_list_has_now_and_that_has_had_rows(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    longer = merging(mode, name, upstream, target, shards=3)
    without = BlockAllowList(do_tables=tuple(TablePattern(db_name=name, tbl_name=each) for each in ("s1", "s2", "u")))
    with running_sync(longer.model_copy(update={"block_allow_list": without})) as sync:
        sync.wait_synced()
    upstream.execute(f"INSERT INTO {name}.s3 VALUES (21, 1)")
    with running_sync(longer) as sync:
        wait_for_rows(target, name, 1, sync)
        sync.wait_synced()
    with running_sync(longer) as sync:
        upstream.execute(*(f"ALTER TABLE {name}.{shard} DROP COLUMN v" for shard in ("s1", "s2")))
        if mode == "pessimistic":
            held(sync)
        upstream.execute(f"INSERT INTO {name}.s3 VALUES (22, 1)")
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"ALTER TABLE {name}.s3 DROP COLUMN v", f"INSERT INTO {name}.s3 VALUES (23)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
        assert locks(longer) == []
    merged([upstream], target, name)
