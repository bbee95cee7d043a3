"""Shard merge, optimistic: tables that are created while shards of their source are held."""

from __future__ import annotations

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.progress.shards.group import ShardTables
from dm.syncer.operators import EventPlace, Request
from dm.syncer.shards.main_or_second_pass import ShardRun
from dm.task.binlog_verbs import operate_on_event
from dm.task.progress import key_of
from tests.live.syncer.shards.test_optimistic_shards import optimistic, shown
from tests.live.syncer.shards.test_shards import KEYED, merged, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, wait_until

pytestmark = pytest.mark.live


def held_tables(target: ThrowawayServer, subtask: SubtaskConfig) -> list[str]:
    """The tables whose rows wait at this moment."""
    table = ShardTables.of(key_of(subtask)).held
    return [str(row[0]) for row in target.query(f"SELECT s_table FROM {table.sql} ORDER BY s_table")]


NEW = "CREATE TABLE {s}.s3 (id INT PRIMARY KEY, v INT, c INT, UNIQUE INDEX by_v (v))"


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("opened", [False, True], ids=["nothing is open", "another statement is open"])
def test_a_table_created_while_a_shard_of_its_source_is_held_goes_on_with_it(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
    opened: bool,
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target, KEYED)
    second = "ALTER TABLE {}.{} ADD UNIQUE INDEX by_both (v, id)"
    with monkeypatch.context() as patch, running_sync(subtask) as sync:
        # The statement is executed, but the held shard does not go on yet, as when its source's stream is slow to end.
        patch.setattr(ShardRun, "_going", lambda *_: [])
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)",
            f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN c INT",
            f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)",
            f"INSERT INTO {name}.s2 (id, v) VALUES (11, 2)",
        )
        wait_for_rows(target, name, 1, sync)
        assert held_tables(target, subtask) == ["s1"]
        if opened:
            upstream.execute(second.format(name, "s2"))
        upstream.execute(
            NEW.format(s=name),
            f"INSERT INTO {name}.s3 VALUES (31, 3, 3)",
            f"INSERT INTO {name}.s2 (id, v) VALUES (12, 4)",
            *(second.format(name, table) for table in ("s1", "s3") if opened),
        )
        expected = ["s1", *(["s2"] if opened else []), "s3"]
        wait_until(lambda: held_tables(target, subtask) == expected, "the new table is held")
    with running_sync(subtask) as sync:
        upstream.execute(f"ALTER TABLE {name}.s2 ADD COLUMN c INT")
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
        assert not held_tables(target, subtask)
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_a_create_table_that_waited_and_is_left_out_is_a_shard_from_there_on(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target, KEYED)
    with monkeypatch.context() as patch, running_sync(subtask) as sync:
        patch.setattr(ShardRun, "_going", lambda *_: [])
        sync.wait_synced()
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)", f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)"
        )
        wait_until(lambda: "by_v" in shown(target, name), "the statement is executed")
        upstream.execute(NEW.format(s=name), f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)")
        wait_until(lambda: held_tables(target, subtask) == ["s1", "s3"], "the new table is held")
    # What it needs comes never; a person alters the target, and leaves the CREATE TABLE out.
    ended = RunningSync(subtask, None).wait_ended()
    assert isinstance(ended, DMError)
    assert ended.name == "shard-target-behind"
    assert ended.place is not None
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN c INT")
    operate_on_event(subtask, Request("skip", name, "source-0", "", ()), EventPlace.from_json(ended.place))
    statements = (
        f"ALTER TABLE {name}.{{}} ADD UNIQUE INDEX by_both (v, id)",
        f"ALTER TABLE {name}.{{}} ADD COLUMN w INT",
    )
    with running_sync(subtask) as sync:
        upstream.execute(f"INSERT INTO {name}.s3 VALUES (31, 3, 3)")
        for statement in statements:
            upstream.execute(*(statement.format(table) for table in ("s3", "s1", "s2")))
        upstream.execute(f"INSERT INTO {name}.s2 (id, v, w) VALUES (11, 2, 2)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
        assert not held_tables(target, subtask)
    assert target.query(f"SELECT id, v, c, w FROM {name}.t ORDER BY id") == (
        (1, 1, None, None), (11, 2, None, 2), (31, 3, 3, None)
    )  # fmt: skip


@pytest.mark.ci_flavor("mariadb")
def test_a_table_with_what_another_source_brings_is_tried_again_until_that_source_is_there(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    ahead, behind = optimistic(name, upstreams, target, KEYED)
    with running_sync(ahead) as one, running_sync(behind) as two:
        one.wait_synced()
        two.wait_synced()
    upstreams[1].execute(f"ALTER TABLE {name}.s1 ADD COLUMN c INT")
    upstreams[0].execute(
        f"CREATE TABLE {name}.s5 (id INT PRIMARY KEY, v INT, c INT)", f"INSERT INTO {name}.s5 VALUES (51, 5, 6)"
    )
    ended = RunningSync(ahead, None).wait_ended()
    assert isinstance(ended, DMError)
    assert (ended.name, ended.retryable) == ("shard-target-behind", True)
    with running_sync(behind) as two:
        two.wait_synced()
    with running_sync(ahead) as one:
        wait_for_rows(target, name, 1, one)
        one.wait_synced()
    assert target.query(f"SELECT id, v, c FROM {name}.t") == ((51, 5, 6),)
