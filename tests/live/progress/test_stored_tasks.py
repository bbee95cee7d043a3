"""What is stored of tasks at a target is listed by task, and goes with the task that a person names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import has_checkpoint, no_other_run, write_global
from dm.progress.made_tables import Deferral, create_deferrals, defer
from dm.progress.shards.group import create_shard_tables
from dm.progress.tables import SubtaskKey, create_tables, remove_progress
from dm.progress.validator import create_validator_tables
from dm.task.forgotten import remove_task, stored_tasks
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


@pytest.fixture
def session(target: ThrowawayServer) -> Iterator[TargetConnection]:
    with closing(TargetConnection(endpoint_of(target))) as connection:
        yield connection


def test_tasks_are_told_apart_by_their_tables(
    session: TargetConnection, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    meta = schema(target)
    for task, source in (("shop", "one"), ("shop", "two"), ("shop_syncer", "one"), ("stock", "one")):
        create_tables(session, SubtaskKey(meta, task, source))
        write_global(session, SubtaskKey(meta, task, source), Position("u", "b.000001", 4), None)
        session.commit()
    create_shard_tables(session, SubtaskKey(meta, "shop", "one"))
    create_validator_tables(session, SubtaskKey(meta, "shop", "one"))
    create_tables(session, SubtaskKey(meta, "stock", "one").share)
    session.execute(f"CREATE TABLE `{meta}`.`of_a_person` (id INT)")

    found = {one.task: one for one in stored_tasks(session, meta)}
    assert {name: one.sources for name, one in found.items()} == {
        "shop": ["one", "two"], "shop_syncer": ["one"], "stock": ["one"],
    }  # fmt: skip
    assert len(found["shop"].tables) == len(found["shop_syncer"].tables) + 5 + 4
    assert len(found["stock"].tables) == 2 * len(found["shop_syncer"].tables)
    assert all(one.updated for one in found.values())

    assert remove_task(session, meta, "shop") == []
    assert remove_task(session, meta, "stock") == []
    assert remove_task(session, meta, "nobody") == []
    left = {str(row[0]) for row in target.query("SELECT table_name FROM information_schema.tables"
                                                " WHERE table_schema = %s", (meta,))}  # fmt: skip
    assert left == {"of_a_person", *(table.table for table in found["shop_syncer"].tables)}


def test_a_run_that_is_open_keeps_its_tables(
    session: TargetConnection, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    key = SubtaskKey(schema(target), "shop", "one")
    create_tables(session, key)
    write_global(session, key, Position("u", "b.000001", 4), None)
    session.commit()
    with closing(TargetConnection(endpoint_of(target))) as other, no_other_run(other, key):
        with pytest.raises(DMError) as raised:
            remove_task(session, key.meta_schema, "shop")
        assert raised.value.name == "task-runs-elsewhere"
    assert [one.task for one in stored_tasks(session, key.meta_schema)] == ["shop"]


def test_indexes_that_a_load_has_taken_off_are_not_forgotten(
    session: TargetConnection, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    key = SubtaskKey(schema(target), "shop", "one")
    create_tables(session, key)
    create_deferrals(session, key)
    defer(session, key, Deferral(TableName("a", "t"), "CREATE TABLE t (id INT, KEY (id))"))
    assert remove_task(session, key.meta_schema, "shop") == [key.deferral]
    assert [one.tables for one in stored_tasks(session, key.meta_schema)] == [[key.deferral]]
    session.execute(f"DELETE FROM {key.deferral.sql}")
    session.commit()
    assert remove_task(session, key.meta_schema, "shop") == []
    assert stored_tasks(session, key.meta_schema) == []


def test_progress_that_dm_has_stored_is_refused_by_name_and_can_be_dropped(
    session: TargetConnection, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    key = SubtaskKey(schema(target), "shop", "one")
    session.execute(
        f"CREATE TABLE {key.checkpoint.sql} (id VARCHAR(32) NOT NULL, cp_schema VARCHAR(128) NOT NULL, cp_table"
        " VARCHAR(128) NOT NULL, binlog_name VARCHAR(128), binlog_pos INT UNSIGNED, binlog_gtid TEXT, table_info JSON,"
        " is_global BOOLEAN, update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
    )
    session.execute(
        f"INSERT INTO {key.checkpoint.sql}"
        " VALUES ('one', '', '', 'mysql-bin|000001.000003', 1234, '', 'null', 1, NOW())"
    )
    session.commit()
    for read in (has_checkpoint, create_tables, remove_progress):
        with pytest.raises(DMError) as raised:
            read(session, key)
        assert raised.value.name == "progress-of-dm"
        assert "binlog-name mysql-bin.000003, binlog-pos 1234" in raised.value.message
    assert [one.sources for one in stored_tasks(session, key.meta_schema)] == [["one"]]
    assert remove_task(session, key.meta_schema, "shop") == []
    assert not has_checkpoint(session, key)
