"""A process that dies while a table leaves its stream, fails again, or comes back: the rows are the source's."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.joining.branches import ask_aside, place_of, release
from dm.progress.joining.table_joining import move
from dm.progress.lane_rows import transaction
from dm.task.progress import key_of
from tests.testbed.branches import Branching
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.joining import join_process
from tests.testbed.sync import SyncProcess, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

LEAVING = ("branch.before_leaving", "branch.left", "syncer.bound_persisted", "syncer.after_commit")
RETURNING = ("join.called", "join.before_return", "join.returned")
FAILING_AGAIN = ("branch.before_rest", "branch.rests")
COMING = ("join.near", "join.before_ready", "join.ready", "syncer.before_commit", "syncer.after_commit")
SAMPLE = ("branch.left", "join.ready")


def drawn(*points: str) -> list[object]:
    """The sample is everyone's, the others are for `make chaos`."""
    return [each if each in SAMPLE else pytest.param(each, marks=pytest.mark.chaos) for each in points]


class Failing(Branching):
    """A task one of whose tables, without a key, lacks a row at the target."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, schema: str, directory: Path) -> None:
        super().__init__(subtask_for(upstream, target, schema, task=schema, on_error="table"), directory)
        self.upstream, self.target, self.schema = upstream, target, schema
        for server in (upstream, target):
            server.execute(
                f"CREATE TABLE {schema}.t (id INT, v INT)",
                f"CREATE TABLE {schema}.bag (id INT, v INT)",
                f"CREATE TABLE {schema}.other (id INT PRIMARY KEY, v INT)",
                f"INSERT INTO {schema}.t VALUES (1, 1)",
            )
        with self.main() as main:
            main.wait_synced()

    def fails(self) -> None:
        """The source goes on, and updates the row."""
        self.target.execute(f"DELETE FROM {self.schema}.t WHERE id = 1")
        for number in range(2, 12):
            self.upstream.execute(*(f"INSERT INTO {self.schema}.{each} VALUES ({number}, 0)" for each in ("t", "bag")))
            if number == 7:
                self.upstream.execute(f"UPDATE {self.schema}.t SET v = v + 1")
            self.upstream.execute(f"INSERT INTO {self.schema}.other VALUES ({number}, 0)")

    def is_ready_where_it_left(self, table: str) -> Position:
        """Its process has come to the place that main had called, and main is long past it."""
        branch = self.of(table)
        assert branch is not None
        with closing(TargetConnection(self.subtask.target)) as connection:
            place = place_of(connection, key_of(self.subtask), branch)
            assert place is not None
            with transaction(connection):
                assert move(connection, key_of(self.subtask), branch, [branch.phase], "ready", place)
        return place

    def mend(self) -> None:
        self.target.execute(f"INSERT INTO {self.schema}.t VALUES (1, 1)")

    def is_aside(self) -> None:
        wait_until(lambda: self.rests("t"), "the table is aside", 120)

    def returns(self) -> None:
        """Whatever has died: main, and what brings the table back, run until it is there."""
        with self.main() as main:
            wait_until(lambda: self.of("t") is None or self.of("t").phase != "asked", "main runs")  # type: ignore[union-attr]
            while (branch := self.of("t")) is not None:
                if branch.phase == "aside":
                    self.change(release, "t")
                with self.coming("t") as running:
                    wait_until(lambda: self.of("t") is None or running.error is not None, "it comes back", 120)
                    error = running.error
                    if isinstance(error, DMError) and error.retryable:
                        running.error = None  # what is left of a dead process was in the way
            self.upstream.execute(f"UPDATE {self.schema}.t SET v = v + 1")
            main.wait_synced()
        for each in ("t", "bag", "other"):
            query = f"SELECT * FROM {self.schema}.{each} ORDER BY id, v"
            assert self.target.query(query) == self.upstream.query(query), each

    def dies(self, point: str, directory: Path) -> None:
        """The branch's process, at a point."""
        branch = self.of("t")
        assert branch is not None
        process = join_process(
            self.subtask, self.directory / "join", f"{point}=kill", directory / "struck", branch.number
        )
        assert process.wait(120) == -signal.SIGKILL


@pytest.fixture
def task(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path) -> Failing:
    return Failing(upstream, target, schema(upstream, target), tmp_path)


@pytest.mark.parametrize("point", drawn(*LEAVING))
def test_main_dies_while_a_table_leaves(task: Failing, point: str) -> None:
    passage = "@2" if point.startswith("syncer.") else ""
    process = SyncProcess(task.subtask, work_directory=task.directory / "main", faults=f"{point}=kill{passage}")
    try:
        task.fails()
        assert process.wait_killed(120)
    finally:
        process.close(kill=True)
    with task.main():
        task.is_aside()
    task.mend()
    task.returns()


@pytest.mark.parametrize("point", drawn(*RETURNING))
def test_main_dies_while_a_table_comes_back(task: Failing, point: str) -> None:
    task.fails()
    with task.main():
        task.is_aside()
    task.mend()
    task.change(release, "t")
    process = SyncProcess(task.subtask, work_directory=task.directory / "main", faults=f"{point}=kill")
    try:
        with task.coming("t"):
            assert process.wait_killed(120)
    finally:
        process.close(kill=True)
    task.returns()


@pytest.mark.parametrize("point", drawn(*FAILING_AGAIN, *COMING))
def test_a_branch_dies_on_its_way_back(task: Failing, point: str, tmp_path: Path) -> None:
    task.fails()
    with task.main():
        task.is_aside()
        if point not in FAILING_AGAIN:
            task.mend()
        task.change(release, "t")
        task.dies(point, tmp_path)
        if point in FAILING_AGAIN:
            task.mend()
    task.returns()


def test_a_table_that_was_asked_for_twice_leaves_once(task: Failing) -> None:
    with closing(TargetConnection(task.subtask.target)) as connection:
        for _ in range(2):
            ask_aside(connection, key_of(task.subtask), [TableName(task.schema, "t")])
    with task.main():
        wait_until(lambda: [one.phase for one in task.branches()] == ["aside"], "one of the two is forgotten")
    task.returns()


def test_a_branch_that_comes_too_late_goes_on_and_may_fail_again(task: Failing) -> None:
    task.fails()
    with task.main():
        task.is_aside()
        query = f"SELECT COUNT(*) FROM {task.schema}.other"
        wait_until(lambda: task.target.query(query) == task.upstream.query(query), "the others have gone on")
    task.change(release, "t")
    place = task.is_ready_where_it_left("t")
    with task.main():
        wait_until(lambda: (found := task.of("t")) is not None and found.phase == "undo", f"main is past {place}")
        with task.coming("t"):
            task.is_aside()
    task.mend()
    task.returns()
