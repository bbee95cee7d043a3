"""A reload that is taken back before the table was emptied: its rows are read again from where it left the stream."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dm.demo.compare import ComparedServer, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.joining.table_joining import begin_emptying
from dm.task.join_requests import cancel_reload, reload
from dm.task.progress import key_of
from tests.spark.full_load import beside
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.join_kills import Death
from tests.testbed.joining import Task, joining_of
from tests.testbed.sync import subtask_for, wait_until

pytestmark = pytest.mark.live


def wait_for_other(target: ThrowawayServer, name: str, number: int) -> None:
    """Until a row of a table that stays in the stream is there."""
    wait_until(lambda: (number,) in target.query(f"SELECT id FROM {name}.other"), "other tables go on")


@pytest.mark.ci_flavor("mysql")
def test_a_reload_is_taken_back(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, v INT)",
            f"CREATE TABLE {name}.keyless (v INT)",
            f"CREATE TABLE {name}.other (id INT PRIMARY KEY)",
        )
    task = Task(subtask_for(upstream, target, name, task=name), tmp_path)
    configs = {"source-1": task.subtask}
    with task.following() as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {name}.keyed VALUES (1, 1), (2, 2)", f"INSERT INTO {name}.keyless VALUES (5)")
        sync.wait_synced()

    # Nothing has happened yet.
    reload(configs, TableName(name, "keyed"), None)
    assert list(cancel_reload(configs)) == ["source-1"]
    assert joining_of(task.subtask) is None

    for table in ("keyed", "keyless"):
        reload(configs, TableName(name, table), None)
        with task.following() as sync:
            wait_until(lambda: task.phase() == "out", "the table has left the stream")
            columns, first, second = ("v", "7", "8") if table == "keyless" else ("v, id", "7, 8", "8, 9")
            upstream.execute(
                f"INSERT INTO {name}.{table} ({columns}) VALUES ({first})",
                f"UPDATE {name}.{table} SET v = v + 10",
                f"ALTER TABLE {name}.{table} ADD COLUMN w INT DEFAULT 3",
                f"INSERT INTO {name}.other VALUES ({len(table)})",
                f"INSERT INTO {name}.{table} ({columns}) VALUES ({second})",
            )
            wait_for_other(target, name, len(table))
            assert not target.query(f"SELECT 1 FROM {name}.{table} WHERE v = 8")
            cancel_reload(configs)
            with task.joining():
                pass
            sync.wait_synced()
            upstream.execute(f"DELETE FROM {name}.{table} WHERE v = 8")
            sync.wait_synced()

    def same(_: ComparedServer, table: TableName) -> TableName:
        return table

    report = compare(pair_tables([upstream], [name], route=same), target)
    assert report.identical, str(report)


@pytest.mark.chaos
@pytest.mark.parametrize(
    "point",
    ["syncer.bound_persisted", "join.before_ready", "join.ready", "join.called", "join.before_return", "join.returned"],
)
def test_it_is_taken_back_over_kills(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, v INT)",
            f"CREATE TABLE {name}.keyless (v INT)",
            f"CREATE TABLE {name}.other (id INT PRIMARY KEY)",
        )
    task, over, turns = Task(subtask_for(upstream, target, name, task=name), tmp_path / "task"), threading.Event(), 0

    def write() -> None:
        nonlocal turns
        while not over.wait(0.01):
            turns += 1
            upstream.execute(
                f"INSERT INTO {name}.keyed VALUES ({turns}, 1)",
                f"UPDATE {name}.keyed SET v = v + 1 WHERE id > {turns - 3}",
                f"INSERT INTO {name}.keyless VALUES ({turns % 5})",
                f"DELETE FROM {name}.keyless WHERE v = {turns % 3} LIMIT 1",
                f"INSERT INTO {name}.other VALUES ({turns})",
            )

    with task.following() as sync:
        sync.wait_synced()
    for table in ("keyed", "keyless"):
        over.clear()
        with beside(write):
            try:
                reload({"source-1": task.subtask}, TableName(name, table), None)
                given_up = Death("join.given_up", tmp_path)
                with given_up.main(task) as main:
                    wait_until(lambda main=main: main.ended, "the table has left the stream", 60)  # type: ignore[misc]
                assert list(cancel_reload({"source-1": task.subtask})) == ["source-1"]
                Death(point, tmp_path).strikes(task)
                assert bool(task.phase()) == (point != "join.returned")
                with task.following(), task.joining():
                    wait_until(lambda: not task.phase(), "the table is back", 60)
            finally:
                over.set()
        with task.following() as sync:
            sync.wait_synced()

    def same(_: ComparedServer, table: TableName) -> TableName:
        return table

    report = compare(pair_tables([upstream], [name], route=same), target)
    assert report.identical, str(report)
    assert turns


@pytest.mark.ci_flavor("mysql")
def test_it_is_too_late_once_the_rows_are_gone(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, v INT)")
    task = Task(subtask_for(upstream, target, name, task=name), tmp_path)
    with task.following() as sync:
        sync.wait_synced()
    reload({"source-1": task.subtask}, TableName(name, "keyed"), None)
    with task.following():
        wait_until(lambda: task.phase() == "out", "the table has left the stream")
    joining = joining_of(task.subtask)
    assert joining is not None
    with TargetConnection(task.subtask.target) as connection:
        assert begin_emptying(connection, key_of(task.subtask), joining, ["out"])
    with pytest.raises(DMError) as raised:
        cancel_reload({"source-1": task.subtask})
    assert raised.value.name == "joining-too-late"
