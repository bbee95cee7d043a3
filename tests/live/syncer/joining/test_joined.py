"""How long a task's own stream waits for tables that are to join it."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from dm.config.subtask import Share
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.joining.table_joining import Joining, Phase, ask, find_joining, move
from dm.progress.lane_rows import transaction
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.sourcelog.stream.until import UntilPosition
from dm.syncer.joined_sync import ShareWait
from dm.syncer.returning_run import ShareRun
from dm.task.join_requests import cancel_reload, reload
from dm.task.progress import key_of
from dm.task.start_and_end import AskedEnd, until_of
from dm.unit import UnitName
from tests.testbed.fake_clock import FakeClock
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.joining import Task, join_unit, joining_of
from tests.testbed.sync import endpoint_of, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]


def moved(
    connection: TargetConnection, key: SubtaskKey, before: Phase, phase: Phase, place: Position | None = None
) -> Joining:
    """The row, moved on as one of the streams would."""
    joining = find_joining(connection, key)
    assert joining is not None
    with transaction(connection):
        assert move(connection, key, joining, [before], phase, place)
    found = find_joining(connection, key)
    assert found is not None
    return found


def test_the_stream_goes_on_if_the_tables_do_not_come(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY)", f"CREATE TABLE {name}.other (id INT PRIMARY KEY)"
        )
    task = Task(subtask_for(upstream, target, name, task=name), tmp_path)
    key = key_of(task.subtask)
    with task.following() as sync:
        sync.wait_synced()
    reload({"source-1": task.subtask}, TableName(name, "keyed"), None)
    with task.following(), closing(TargetConnection(task.subtask.target)) as connection:
        wait_until(lambda: task.phase() == "out", "the table has left the stream")
        moved(connection, key, "out", "near")  # and nobody is there to come
        wait_until(lambda: task.phase() == "until", "the stream rests")
        called = joining_of(task.subtask)
        assert called is not None
        assert called.place is not None
        upstream.execute(f"INSERT INTO {name}.other VALUES (1)")
        wait_until(lambda: bool(target.query(f"SELECT 1 FROM {name}.other")), "it goes on")
        # Whoever comes too late is sent on.
        moved(connection, key, "until", "ready", called.place)
        wait_until(lambda: task.phase() == "loading", "nothing has changed hands")
    assert not target.query(f"SELECT 1 FROM {name}.keyed")


def test_nothing_is_loaded_once_main_has_the_tables(
    target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older process was ready, and main has taken the tables and the share's progress, between two looks."""
    name = schema(target)
    subtask = subtask_for(target, target, name, task=name)
    key = key_of(subtask)
    with closing(TargetConnection(subtask.target)) as connection:
        ask(connection, key, "reload", Share(tables=((name, "t"),)), [TableName(name, "t")])
        moved(connection, key, "asked", "loading")

        def first(_: object) -> UnitName:
            connection.execute(f"DELETE FROM {key.joining.sql}")
            return "Dump"

        monkeypatch.setattr("dm.task.share_unit.first_unit", first)
        join_unit(subtask, tmp_path, None).run(threading.Event())  # without Spark, so that a load would fail


def test_no_end_is_set_while_tables_are_loaded_beside_the_task(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    end = AskedEnd("2037-01-01 00:00:00")
    until_of(subtask, end, tmp_path)
    with closing(TargetConnection(subtask.target)) as connection:
        ask(connection, key_of(subtask), "reload", Share(tables=((name, "t"),)), [TableName(name, "t")])
    with pytest.raises(DMError) as raised:
        until_of(subtask, end, tmp_path)
    assert raised.value.name == "joining-exists"
    until_of(subtask, replace(end, anew=True), tmp_path)


def test_waits_grow_to_a_limit(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    key, stop, clock = SubtaskKey(name, "t", "one"), threading.Event(), FakeClock()
    here, further = Position("server", "binlog.000001", 100), Position("server", "binlog.000001", 200)
    with closing(TargetConnection(endpoint_of(target))) as connection:
        ask(connection, key, "reload", Share(tables=(("db", "t"),)), [TableName("db", "t")])
        patience = ShareWait(clock)

        def called() -> UntilPosition | None:
            return patience.wait(connection, key, joining, here, stop)

        joining = moved(connection, key, "asked", "until", here)
        waits, pauses = [], []
        for _ in range(6):
            began = clock.now
            assert called() is None
            waits.append(round(2 * (clock.now - began)) / 2)
            pauses.append(round(patience.call_at - clock.now, 3))
        assert waits == [1.5, 3, 6, 12, 24, 30]
        assert pauses == waits
        patience.forget()
        moved(connection, key, "until", "ready", here)
        assert called() is None
        assert patience.call_at == 0, "it is there"
        moved(connection, key, "ready", "ready", further)
        assert called() == UntilPosition(further)
        moved(connection, key, "ready", "ready", Position("another", "binlog.000001", 200))
        assert called() is None
        moved(connection, key, "ready", "until", here)
        stop.set()
        began = clock.now
        called()
        assert clock.now - began < 1
        assert find_joining(connection, key) is not None


def test_a_run_looks_again_whether_it_is_to_follow(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    """An older run, which it has just ended, may have come to rest."""
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    key, taken = key_of(subtask), cast(Takeover, None)
    with closing(TargetConnection(subtask.target)) as connection:
        asked = ask(connection, key, "reload", Share(tables=((name, "t"),)), [TableName(name, "t")])
        now: Phase = "asked"
        phases: tuple[Phase, ...] = ("out", "emptying", "loading", "undo", "near", "until", "ready", "cancelled")
        follows = []
        for phase in phases:
            moved(connection, key, now, phase)
            now = phase
            if ShareRun(subtask, key, asked).begin(connection, taken):
                follows.append(phase)
        assert follows == ["loading", "undo", "near", "until"]
        moved(connection, key, "cancelled", "near")
        assert not ShareRun(subtask, key, replace(asked, number="another")).begin(connection, taken)


@pytest.fixture
def task(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path) -> Task:
    """One that follows two tables, `keyed` and `other`."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            *(f"CREATE TABLE {name}.{table} (id INT PRIMARY KEY, v INT)" for table in ("keyed", "other")),
            f"INSERT INTO {name}.other VALUES (1, 1)",
        )
    found = Task(subtask_for(upstream, target, name, task=name), tmp_path)
    with found.following() as sync:
        sync.wait_synced()
    return found


def test_a_share_ends_when_nobody_asks_for_it_any_more(
    upstream: ThrowawayServer, target: ThrowawayServer, task: Task
) -> None:
    name, configs = task.subtask.task, {"source-1": task.subtask}
    reload(configs, TableName(name, "keyed"), None)
    with task.following():
        wait_until(lambda: task.phase() == "out", "the table has left the stream")
    cancel_reload(configs)
    upstream.execute(f"INSERT INTO {name}.keyed VALUES (1, 1)")
    with task.joining():  # its end comes by itself
        wait_until(lambda: bool(target.query(f"SELECT 1 FROM {name}.keyed")), "the share follows")
        target.execute(f"DELETE FROM {key_of(task.subtask).joining.sql}")


def test_a_stream_that_makes_way_waits_for_its_lanes(
    upstream: ThrowawayServer, target: ThrowawayServer, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the target takes: only who is told to stop has to hurry."""
    monkeypatch.setattr("dm.syncer.unit.STOP_SECONDS", 0.0)
    name, key = task.subtask.task, key_of(task.subtask)
    reload({"source-1": task.subtask}, TableName(name, "keyed"), None)
    with (
        task.following() as sync,
        closing(TargetConnection(task.subtask.target)) as connection,
        closing(target.connect(autocommit=False)) as stranger,
    ):
        wait_until(lambda: task.phase() == "out", "the table has left the stream")
        with stranger.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {name}.other WHERE id = 1 FOR UPDATE")
        upstream.execute(f"UPDATE {name}.other SET v = 2 WHERE id = 1")
        wait_until(lambda: sync.parts is not None and sync.parts.lanes.queued > 0, "a lane waits for the row")
        moved(connection, key, "out", "near")
        wait_until(lambda: sync.error is not None or (sync.parts is not None and sync.parts.lanes.draining), "it waits")
        assert sync.error is None
        stranger.rollback()
        wait_until(lambda: sync.error is not None or task.phase() == "until", "it rests")
        assert sync.error is None
    assert target.query(f"SELECT v FROM {name}.other") == ((2,),)


def test_what_is_asked_for_again_before_it_begins_is_the_same(task: Task) -> None:
    """Who asked may have died before it was told."""
    name, configs = task.subtask.task, {"source-1": task.subtask}
    reload(configs, TableName(name, "keyed"), None)
    first = joining_of(task.subtask)
    assert first is not None
    reload(configs, TableName(name, "keyed"), None, anew=True)
    assert joining_of(task.subtask) == replace(first, anew=True)
    with pytest.raises(DMError) as raised:
        reload(configs, TableName(name, "other"), None)
    assert raised.value.name == "joining-exists"
