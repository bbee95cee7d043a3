"""Shard merge, optimistic: what a person decides for a shard, and what the others make of it."""

from __future__ import annotations

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.shards.group import Shard
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.syncer.operators import Request
from dm.task.binlog_verbs import StructureRequest, operate_on_event
from dm.task.binlog_verbs import change_structure as replace_structure
from dm.task.shard_locks import Decision, decide, locks
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.shards.test_optimistic_shards import optimistic, shown
from tests.live.syncer.shards.test_shards import held, merged, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync

pytestmark = pytest.mark.live


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("skip", [False, True])
def test_a_person_goes_on_without_a_shard(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, skip: bool
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    statement = "ALTER TABLE {}.{} ADD UNIQUE INDEX by_v (v)"
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(statement.format(name, "s1"), f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)")
        held(sync)
        assert decide(subtask, Decision(f"{name}-`{name}`.`t`", skip=skip)) == ""
        wait_for_rows(target, name, 1, sync)
        upstream.execute(
            f"INSERT INTO {name}.s2 (id, v) VALUES (11, 2)",
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT",  # waits for nobody
            f"INSERT INTO {name}.s2 (id, v, w) VALUES (12, 3, 3)",
            statement.format(name, "s2"),  # not executed again
            f"INSERT INTO {name}.s2 (id, v) VALUES (13, 4)",
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
        )
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
        assert locks(subtask) == []
    if skip:
        assert "by_v" not in shown(target, name)
    else:
        merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_what_is_begun_is_not_skipped_any_more(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    answers, look = list[str](), ShardGroups.is_skipped

    def look_and_skip(groups: ShardGroups, connection: TargetConnection, shard: Shard) -> bool:
        found = look(groups, connection, shard)
        try:
            answers.append(decide(subtask, Decision(f"{name}-`{name}`.`t`", skip=True)))
        except DMError as error:
            answers.append(error.name)
        return found

    monkeypatch.setattr(ShardGroups, "is_skipped", look_and_skip)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(*(f"ALTER TABLE {name}.{shard} ADD UNIQUE INDEX by_v (v)" for shard in ("s1", "s2")))
        upstream.execute(f"INSERT INTO {name}.s2 (id, v) VALUES (11, 2)")
        wait_for_rows(target, name, 1, sync)
        sync.wait_synced()
    assert answers == ["shard-lock-resolving"]
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_the_stream_goes_on_where_the_shard_without_which_all_went_on_is_silent(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)")
        held(sync)
        assert decide(subtask, Decision(f"{name}-`{name}`.`t`")) == ""
        upstream.execute(
            f"ALTER TABLE {name}.s1 ADD COLUMN w INT",
            f"INSERT INTO {name}.s1 (id, v, w) VALUES (1, 1, 1)",
        )
        wait_for_rows(target, name, 1, sync)
        upstream.execute(
            f"INSERT INTO {name}.s2 (id, v) VALUES (11, 2)",
            f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)",
            f"ALTER TABLE {name}.s2 ADD COLUMN w INT",
            f"INSERT INTO {name}.s2 (id, v, w) VALUES (12, 3, 3)",
        )
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
def test_a_source_that_others_wait_for_is_given_up(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    one, two = optimistic(name, upstreams, target)
    for subtask in (one, two):
        with running_sync(subtask) as sync:
            sync.wait_synced()
    for number, server in enumerate(upstreams):
        server.execute(
            f"ALTER TABLE {name}.s1 ADD UNIQUE INDEX by_v (v)",
            f"INSERT INTO {name}.s1 (id, v) VALUES ({number}1, {number}1)",
            f"INSERT INTO {name}.s2 (id, v) VALUES ({number}2, {number}2)",
        )
    with running_sync(one) as sync:
        wait_for_rows(target, name, 1, sync)
        held(sync)
    upstreams[0].execute(f"ALTER TABLE {name}.s2 ADD UNIQUE INDEX by_v (v)")
    lock = f"{name}-`{name}`.`t`"
    gone = Decision(lock, ("source-1",), force_remove=True)
    assert decide(one, gone) == "source source-1 is no member any more"
    with running_sync(one.model_copy(update={"shard_sources": ("source-0",)})) as sync:  # it has left the file
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("sync", [True, False])
def test_a_structure_that_a_person_replaces_counts_for_the_others_at_once_if_so_asked(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, sync: bool
) -> None:
    name = schema(*upstreams, target)
    one, two = optimistic(name, upstreams, target)
    for subtask in (one, two):
        with running_sync(subtask) as running:
            running.wait_synced()
    # The source was altered while its binlog was off, and a person says so.
    with upstreams[0].connect() as connection, connection.cursor() as cursor:
        for table in ("s1", "s2"):
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(f"ALTER TABLE {name}.{table} DROP COLUMN v")
    for table in ("s1", "s2"):
        replace_structure(one, StructureRequest("update", TableName(name, table), origin="source", sync=sync))
    for table in ("s1", "s2"):
        upstreams[1].execute(f"ALTER TABLE {name}.{table} DROP COLUMN v")
    with running_sync(two) as running:
        running.wait_synced()
    assert ("`v`" in shown(target, name)) == (not sync)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("way_out", ["values", "drop"])
def test_a_default_that_changes_while_a_waived_shard_lacks_the_column_is_not_the_one_of_its_rows(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, way_out: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = optimistic(name, [upstream], target)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(
            f"INSERT INTO {name}.s2 (id, v) VALUES (11, 1)",
            f"ALTER TABLE {name}.s1 ADD COLUMN z INT DEFAULT 0",
            f"ALTER TABLE {name}.s1 ALTER COLUMN z SET DEFAULT 5",
            f"INSERT INTO {name}.s1 (id, v) VALUES (1, 1)",
        )
        held(sync)
        assert decide(subtask, Decision(f"{name}-`{name}`.`t`")) == ""
        wait_for_rows(target, name, 2, sync)
        sync.wait_synced()
    at = place(upstream)
    upstream.execute(
        f"ALTER TABLE {name}.s2 ADD COLUMN z INT DEFAULT 5", f"INSERT INTO {name}.s2 (id, v, z) VALUES (12, 2, 2)"
    )
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "shard-column-kept"
    if way_out == "values":
        target.execute(f"UPDATE {name}.t SET z = 5 WHERE id = 11")
        operate_on_event(subtask, Request("skip", name, "source-0", at), None)
    else:
        upstream.execute(f"ALTER TABLE {name}.s1 DROP COLUMN z", f"ALTER TABLE {name}.s2 DROP COLUMN z")
        operate_on_event(subtask, Request("skip", name, "source-0", at), None)
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    merged([upstream], target, name)
