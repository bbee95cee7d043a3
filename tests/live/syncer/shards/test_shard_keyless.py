"""Shard merge of tables with a key and tables without one: what counts is how the target finds their rows."""

from __future__ import annotations

import pytest

from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.syncer.shards.test_shards import KEYLESS, held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync

pytestmark = pytest.mark.live


def merging(
    mode: ShardMode, name: str, upstream: ThrowawayServer, target: ThrowawayServer, *keyless: str
) -> SubtaskConfig:
    """Shards s1 and s2 that become t; the tables named last lose their key."""
    (subtask,) = subtasks_of(name, [upstream], target)
    for table in keyless:
        (target if table == "t" else upstream).execute(f"ALTER TABLE {name}.{table} DROP PRIMARY KEY")
    return subtask.model_copy(update={"shard_mode": mode})


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("keyless", [("s2",), ("s1", "t")])
def test_pessimistic_shards_of_both_kinds_are_refused(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, keyless: tuple[str, ...]
) -> None:
    name = schema(upstream, target)
    error = RunningSync(merging("pessimistic", name, upstream, target, *keyless), None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "shard-not-alike"
    assert "index PRIMARY primary (id) is" in error.message


@pytest.mark.ci_flavor("mysql")
def test_optimistic_shards_of_both_kinds_go_on_where_the_target_has_a_key(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merging("optimistic", name, upstream, target, "s2")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s2 VALUES (11, 1), (12, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
            f"INSERT INTO {name}.s1 VALUES (1, 1, 1)",
            f"UPDATE {name}.s2 SET v = 2 WHERE id = 11",
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT",
            f"UPDATE {name}.s2 SET w = 3 WHERE id = 11",
            f"DELETE FROM {name}.s2 WHERE id = 12",
        )
        assert sync.wait_synced()["synced"]  # nothing waits
    assert target.query(f"SELECT id, v, w FROM {name}.t ORDER BY id") == ((1, 1, 1), (11, 2, 3))


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("keyless", [("t",), ("s2", "t")], ids=["shards with a key", "one of them without"])
def test_optimistic_shards_wait_for_each_other_where_the_target_has_none(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, keyless: tuple[str, ...]
) -> None:
    name = schema(upstream, target)
    subtask = merging("optimistic", name, upstream, target, *keyless)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
            f"UPDATE {name}.s1 SET w = 5",
            f"INSERT INTO {name}.s2 VALUES (1, 1), (2, 2)",
            f"DELETE FROM {name}.s2 WHERE id = 1",  # looked for by its values, which the other shard's row has, too
        )
        wait_for_rows(target, name, 2, sync)
        (group,) = held(sync)
        assert group["unsynced"] == [f"`{name}`.`s2`"]
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN w INT", f"INSERT INTO {name}.s2 VALUES (3, 3, 3)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert target.query(f"SELECT id, v, w FROM {name}.t ORDER BY id") == ((1, 1, 5), (2, 2, None), (3, 3, 3))


@pytest.mark.ci_flavor("mysql")
def test_a_row_that_may_be_another_shards_is_not_deleted(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merging("optimistic", name, upstream, target)
    upstream.execute(f"ALTER TABLE {name}.s1 ADD COLUMN region INT NOT NULL, ADD COLUMN w INT")
    target.execute(
        f"ALTER TABLE {name}.t ADD COLUMN region INT NOT NULL DEFAULT 0, ADD COLUMN w INT, DROP PRIMARY KEY,"
        " ADD PRIMARY KEY (id, region)"
    )
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.s1 VALUES (1, 1, 5, 7)", f"INSERT INTO {name}.s2 VALUES (1, 1)")
        sync.wait_synced()
    upstream.execute(f"DELETE FROM {name}.s2 WHERE id = 1")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.code) == ("shard-rows-alike", 36987)
    assert "(region, w)" in error.message
    assert target.query(f"SELECT * FROM {name}.t ORDER BY region") == ((1, 1, 0, None), (1, 1, 5, 7))
    # The way out: a key of columns that all shards have.
    target.execute(
        f"DELETE FROM {name}.t WHERE region = 5", f"ALTER TABLE {name}.t DROP PRIMARY KEY, ADD PRIMARY KEY (id)"
    )
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert target.query(f"SELECT * FROM {name}.t") == ()


@pytest.mark.ci_flavor("mysql")
def test_a_shard_with_a_key_does_not_wait_for_one_without_that_is_further(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merging("optimistic", name, upstream, target, "s2")
    for server, tables in ((upstream, ("s1", "s2")), (target, ("t",))):
        server.execute(*(f"ALTER TABLE {name}.{table} ADD COLUMN w INT, ADD KEY by_w (w)" for table in tables))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s1 VALUES (1, 1, 1)",
            f"INSERT INTO {name}.s2 VALUES (2, 2, 2)",
            f"ALTER TABLE {name}.s2 DROP INDEX by_w",
            f"ALTER TABLE {name}.s2 DROP COLUMN w",
            f"ALTER TABLE {name}.s1 DROP COLUMN w",
            f"INSERT INTO {name}.s1 VALUES (3, 3)",
        )
        assert sync.wait_synced()["synced"]
    assert target.query(f"SELECT * FROM {name}.t ORDER BY id") == ((1, 1), (2, 2), (3, 3))


@pytest.mark.ci_flavor("mysql")
def test_a_table_like_a_shard_joins_a_target_with_a_key_of_its_own(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merging("optimistic", name, upstream, target)
    target.execute(f"ALTER TABLE {name}.t DROP PRIMARY KEY, ADD KEY (id)")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"CREATE TABLE {name}.s3 LIKE {name}.s1", f"INSERT INTO {name}.s3 VALUES (1, 1), (2, 2)")
        upstream.execute(f"DELETE FROM {name}.s3 WHERE id = 2")
        sync.wait_synced()
    assert target.query(f"SELECT id, v FROM {name}.t") == ((1, 1),)


@pytest.mark.ci_flavor("mariadb")
def test_a_table_like_one_of_a_source_whose_stream_comes_later_pauses_until_it_has(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    one, two = (
        each.model_copy(update={"shard_mode": "optimistic"})
        for each in subtasks_of(name, upstreams, target, shards=1, columns=KEYLESS)
    )
    with running_sync(one) as first, running_sync(two) as second:
        first.wait_synced()
        second.wait_synced()
    ddls = [f"ALTER TABLE {name}.s1 ADD INDEX by_v (v)", f"ALTER TABLE {name}.s1 ALTER COLUMN v SET DEFAULT 1"]
    upstreams[0].execute(*ddls)
    upstreams[1].execute(
        f"CREATE TABLE {name}.s2 (id INT, v INT DEFAULT 1, KEY by_v (v))", f"INSERT INTO {name}.s2 (id) VALUES (2)"
    )
    error = RunningSync(two, None).wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.code) == ("shard-structures-differ", 36983)
    with running_sync(one) as first:
        held(first)
        first.wait_all_read()  # with the first DDL alone, s2 would differ still
        with running_sync(two) as second:
            upstreams[1].execute(f"INSERT INTO {name}.s1 VALUES (1, 1)", *ddls)
            wait_for_rows(target, name, 2, first, second)
            first.wait_synced()
            second.wait_synced()
    merged(upstreams, target, name)
