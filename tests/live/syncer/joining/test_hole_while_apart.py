"""A hole of transactions without GTIDs while tables have a stream of their own: no stream passes over it to the other.

By their sets of GTIDs both are at the same place, though one is before the hole and the other after it.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.checkpoint import read_position_of
from dm.progress.joining.branches import release
from dm.progress.joining.table_joining import move
from dm.progress.lane_rows import transaction
from dm.task.branch_requests import hold
from dm.task.join_requests import cancel_reload, reload
from dm.task.progress import key_of
from tests.testbed.anonymous_source import AnonymousSource, demand_hole
from tests.testbed.branches import Branching
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.joining import Task, join_unit, joining_of
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.unit_thread import UnitThread

pytestmark = [pytest.mark.live]


@pytest.fixture(params=["OFF", pytest.param("OFF_PERMISSIVE", marks=pytest.mark.chaos)])
def source(
    server: ServerFactory, mysql: ThrowawayServer, schema: SchemaFactory, request: pytest.FixtureRequest
) -> AnonymousSource:
    return AnonymousSource(server("mysql"), mysql, schema, request.param)


def followed(source: AnonymousSource, directory: Path) -> Task:
    """A task that has read rows with GTIDs and rows without, of `t` and `other`."""
    name = source.make("t (id INT PRIMARY KEY)")
    for each in (source.server, source.target):
        each.execute(f"CREATE TABLE {name}.other (id INT PRIMARY KEY)")
    task = Task(subtask_for(source.server, source.target, name, task=name), directory)
    with task.following() as sync:
        sync.wait_synced()
        source.insert(name, 1)
        sync.wait_synced()
        source.forget_gtids()
        source.insert(name, 2)
        sync.wait_synced()
    return task


def write_apart(source: AnonymousSource, name: str) -> None:
    """Rows in files that are to be purged, and one after them."""
    for row in (3, 4):
        source.insert(name, row)
        source.server.execute(f"INSERT INTO {name}.other VALUES ({row})", "FLUSH BINARY LOGS")
    source.server.execute(f"INSERT INTO {name}.other VALUES (5)")


def rows(source: AnonymousSource, name: str, table: str) -> list[int]:
    return [int(row[0]) for row in source.target.query(f"SELECT id FROM {name}.{table} ORDER BY id")]


def test_a_branch_does_not_come_back(source: AnonymousSource, tmp_path: Path) -> None:
    task = followed(source, tmp_path)
    name = task.subtask.task
    branching = Branching(task.subtask, tmp_path)
    hold({"source-1": task.subtask}, TableName(name, "t"), None)
    with branching.main():
        wait_until(lambda: branching.rests("t"), "the table is aside")
        write_apart(source, name)
        wait_until(lambda: rows(source, name, "other") == [3, 4, 5], "the others go on")
    purge_binlogs(source.server)
    with branching.main():
        for again in (False, True):
            if again:
                source.have_gtids_again()
            source.insert(name, 6 + again)
            branching.change(release, "t")
            with branching.coming("t") as running:
                running.wait_ended()
            branch = branching.of("t")
            assert branch is not None
            assert (branch.phase, json.loads(branch.error)["ErrCode"]) == ("aside", 30900)
    assert rows(source, name, "t") == [1, 2]


def test_a_reload_is_not_taken_back(source: AnonymousSource, tmp_path: Path) -> None:
    task = followed(source, tmp_path)
    name = task.subtask.task
    configs = {"source-1": task.subtask}
    reload(configs, TableName(name, "t"), None)
    with task.following():
        wait_until(lambda: task.phase() == "out", "the table has left the stream")
        write_apart(source, name)
        wait_until(lambda: rows(source, name, "other") == [3, 4, 5], "the others go on")
    purge_binlogs(source.server)
    cancel_reload(configs)
    source.have_gtids_again()
    source.insert(name, 6)
    with task.following(), UnitThread(join_unit(task.subtask, tmp_path / "join", None)) as running:
        demand_hole(running.wait_ended())
        running.error = None
    assert task.phase() == "undo"
    assert rows(source, name, "t") == [1, 2]


def test_the_stream_does_not_come_to_the_tables(source: AnonymousSource, tmp_path: Path) -> None:
    task = followed(source, tmp_path)
    name, key = task.subtask.task, key_of(task.subtask)
    configs = {"source-1": task.subtask}
    reload(configs, TableName(name, "t"), None)
    with task.following():
        wait_until(lambda: task.phase() == "out", "the table has left the stream")
    write_apart(source, name)
    cancel_reload(configs)
    with UnitThread(join_unit(task.subtask, tmp_path / "join", None)):
        wait_until(lambda: task.phase() == "near", "it has come near the stream")
        wait_until(lambda: rows(source, name, "t") == [1, 2, 3, 4], "it is after the stream")
        with closing(TargetConnection(task.subtask.target)) as connection:
            joining = joining_of(task.subtask)
            assert joining is not None
            with transaction(connection):  # as the stream does it, which rests then
                assert move(connection, key, joining, ["near"], "until", read_position_of(connection, key))
        wait_until(lambda: task.phase() == "ready", "it rests")
    purge_binlogs(source.server)
    source.have_gtids_again()
    source.insert(name, 6)
    with running_sync(task.subtask, work_directory=tmp_path / "main") as main:
        demand_hole(main.wait_ended())
        main.error = None
    assert task.phase() == "ready"
    assert rows(source, name, "other") == []
    assert rows(source, name, "t") == [1, 2, 3, 4]
