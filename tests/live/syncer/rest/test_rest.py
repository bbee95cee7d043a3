"""How a run comes to rest, and what must not bring it to rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.syncer.operators import EventPlace, Request
from dm.task.binlog_verbs import operate_on_event
from tests.live.syncer.follow.test_follow import create, identical
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]


@contextmanager
def all_lanes_wait_for_locks(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str
) -> Iterator[tuple[RunningSync, Connection[Cursor]]]:
    """A unit whose lanes time out and try again, with more after; and the session that holds what they want."""
    create(name, upstream, target)
    for server in (upstream, target):
        server.execute(f"INSERT INTO {name}.keyed (id) VALUES (1), (2), (3)")
    upstream.execute(
        f"XA START '{name}'", f"INSERT INTO {name}.keyed (id) VALUES (9)", f"XA END '{name}'", f"XA PREPARE '{name}'"
    )
    subtask = subtask_for(upstream, target, name, task=name, workers=2, queue_size=1, batch=1)
    # Lanes that time out go through the gate, one after the other, and wait there for each other.
    impatient = subtask.target.model_copy(update={"session": {"innodb_lock_wait_timeout": "1"}})
    sync = RunningSync(subtask.model_copy(update={"target": impatient}), None)
    try:
        sync.wait_synced()
        stranger = target.connect(autocommit=False)
        try:
            with stranger.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {name}.keyed FOR UPDATE")
            for amount in range(20):
                upstream.execute(f"UPDATE {name}.keyed SET amount = {amount} WHERE id = {1 + amount % 3}")
            wait_until(lambda: int(str(sync.unit.status().get("retries", 0))) > 1, "lanes that try again")
            yield sync, stranger
        finally:
            stranger.close()
    finally:
        sync.stop()


def test_a_pause_while_all_lanes_wait_for_locks(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with all_lanes_wait_for_locks(upstream, target, name) as (sync, _):
        sync.stop()
        upstream.execute(f"XA ROLLBACK '{name}'")
    assert sync.error is None


def test_an_error_of_the_reader_is_told_after_what_waits_for_locks(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with all_lanes_wait_for_locks(upstream, target, name) as (sync, stranger):
        upstream.execute(f"XA COMMIT '{name}'")  # prepared before the task began
        stranger.rollback()
        error = sync.wait_ended(25)
    assert isinstance(error, DMError)
    assert error.name == "xa-prepare-missing"
    assert target.query(f"SELECT id, amount FROM {name}.keyed ORDER BY id") == ((1, 18), (2, 19), (3, 17))


def test_a_backup_that_locks_the_target_is_waited_for(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        # That the keyless table is changed in order is stored before its first change, and not by a lane.
        upstream.execute(f"INSERT INTO {name}.keyed (id) VALUES (1)", f"INSERT INTO {name}.keyless VALUES (1, 'a', 1)")
        sync.wait_synced()
        backup = target.connect()
        try:
            with backup.cursor() as cursor:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
            upstream.execute(
                f"INSERT INTO {name}.keyed (id) VALUES (2)", f"INSERT INTO {name}.keyless VALUES (1, 'a', 2)"
            )
            # As long as what a lane waits for a metadata lock, more than once.
            wait_until(lambda: sync.error is not None or int(str(sync.unit.status()["retries"])) > 2, "tries")
        finally:
            backup.close()
        sync.wait_synced()
    identical(upstream, target, name)


@pytest.mark.parametrize("paused", [False, True], ids=["waited-for", "paused"])
def test_a_backup_locks_the_target_before_the_first_change_of_a_keyless_table(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, paused: bool
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    sync = RunningSync(subtask, None)
    try:
        sync.wait_synced()
        backup = target.connect()
        try:
            with backup.cursor() as cursor:
                cursor.execute("FLUSH TABLES WITH READ LOCK")
            upstream.execute(f"INSERT INTO {name}.keyless VALUES (1, 'a', 2)")
            waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE%''control''%'"
            wait_until(lambda: sync.error is not None or target.query(waiting) == ((1,),), "the record that waits")
            if paused:
                sync.stop()
        finally:
            backup.close()
        if paused:
            assert sync.error is None
            sync = RunningSync(subtask, None)
        sync.wait_synced()
    finally:
        sync.stop()
    identical(upstream, target, name)


def test_sessions_that_have_nothing_to_do_stay(flavor: Flavor, server: ServerFactory, schema: SchemaFactory) -> None:
    one = server(flavor)
    other = server(flavor, wait_timeout=1)
    name = schema(one, other)
    create(name, one, other)
    with running_sync(subtask_for(one, other, name, task=name)) as sync:
        sync.wait_synced()
        before = sync.unit.status()["checkpoint"]
        # Rows of one lane keep the control session busy; all others have nothing to do for longer than the limit.
        for amount in range(6):
            one.execute(f"REPLACE INTO {name}.keyed (id, amount) VALUES (1, {amount})")
            sync.wait_synced()
            wait_until(lambda last=before: sync.unit.status()["checkpoint"] != last, "a checkpoint")  # type: ignore[misc]
            before = sync.unit.status()["checkpoint"]
        one.execute(
            f"INSERT INTO {name}.keyless VALUES (1, 'a', 2)",
            f"ALTER TABLE {name}.keyed ADD COLUMN more INT",
            f"INSERT INTO {name}.keyed (id, more) VALUES (2, 2)",
        )
        sync.wait_synced()
    identical(one, other, name)


def test_what_a_person_does_in_place_of_a_statement_is_not_overwritten_by_what_stood_before_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    # The checkpoint would be far behind, and a replay put the old values back.
    subtask = subtask_for(upstream, target, name, task=name, checkpoint_flush_interval=600)
    sync = RunningSync(subtask, None)
    sync.wait_synced()
    statement = f"UPDATE {name}.keyed SET amount = id * 2"
    upstream.execute(
        *(f"INSERT INTO {name}.keyed (id, amount) VALUES ({number}, 1)" for number in range(100)),
        "SET SESSION binlog_format = 'STATEMENT'",
        statement,
    )
    error = sync.wait_ended()
    sync.stop()
    assert isinstance(error, DMError)
    assert error.name == "statement-dml"
    assert target.query(f"SELECT COUNT(*) FROM {name}.keyed") == ((100,),)
    target.execute(statement)
    assert error.place is not None
    operate_on_event(subtask, Request("skip", name, subtask.source_id, "", ()), EventPlace.from_json(error.place))
    with running_sync(subtask) as resumed:
        assert resumed.wait_synced()["safeModeRows"] == 0
    identical(upstream, target, name)
