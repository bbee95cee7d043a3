"""A task that has run, and whose progress at the target is gone: it never begins at the source's end by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.task.payload import sync_directory
from dm.task.progress import forget_progress
from dm.task.start_and_end import StartTime, begin_at, place_of
from tests.live.relay.relaying import end_of
from tests.live.worker.test_start_time import next_second
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


class Scene:
    """A task that has applied row 1 of two tables and was stopped; row 2 follows, and the progress is gone."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, name: str, work: Path) -> None:
        self.upstream, self.target, self.name, self.work = upstream, target, name, work
        for server in (upstream, target):
            server.execute(f"CREATE TABLE {name}.k (id INT PRIMARY KEY)", f"CREATE TABLE {name}.l (id INT)")
        self.first = self.end()
        self.reached = self.first

    def end(self) -> StartPoint:
        file, offset = end_of(self.upstream)
        return StartPoint(binlog_name=file, binlog_pos=offset)

    def subtask(self, meta: StartPoint | None = None) -> SubtaskConfig:
        return subtask_for(self.upstream, self.target, self.name, task=self.name, meta=meta)

    @property
    def directory(self) -> Path:
        return sync_directory(self.work, self.subtask().source_id)

    def write(self, number: int) -> None:
        self.upstream.execute(f"INSERT INTO {self.name}.k VALUES ({number})")
        self.upstream.execute(f"INSERT INTO {self.name}.l VALUES ({number})")

    def lose(self, meta: StartPoint | None) -> None:
        with running_sync(self.subtask(meta), None, self.directory) as sync:
            sync.wait_synced()
            self.write(1)
            sync.wait_synced()
        self.reached = self.end()
        self.target.execute(f"DROP DATABASE meta_{self.name}")
        self.write(2)

    def refused(self, meta: StartPoint | None = None) -> bool:
        error = RunningSync(self.subtask(meta), None, self.directory).wait_ended()
        assert isinstance(error, DMError)
        return (error.name, error.retryable) == ("checkpoint-gone", False)

    def goes_on(self, meta: StartPoint | None = None) -> None:
        with running_sync(self.subtask(meta), None, self.directory) as sync:
            sync.wait_synced()

    def assert_identical(self) -> None:
        report = compare(pair_tables([self.upstream], [self.name]), self.target)
        assert report.identical, str(report)


def move(server: ThrowawayServer, before: str, after: str) -> None:
    """Give a schema's tables to another one of a new name."""
    server.execute(f"DROP DATABASE IF EXISTS {after}", f"CREATE DATABASE {after}")
    tables = server.query("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [before])
    server.execute(*(f"RENAME TABLE {before}.{name} TO {after}.{name}" for (name,) in tables))
    server.execute(f"DROP DATABASE {before}")


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path) -> Scene:
    return Scene(upstream, target, schema(upstream, target), tmp_path)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.ci_sample(1)
def test_a_run_pauses_until_a_new_position_is_given(scene: Scene, *, told: bool) -> None:
    """The `meta` of its beginning says nothing any more: a table without a key would get its rows twice."""
    meta = scene.first if told else None
    scene.lose(meta)
    assert scene.refused(meta)
    assert scene.refused(meta), "a resume is no better"
    assert scene.refused()
    scene.goes_on(scene.reached)
    scene.write(3)
    scene.goes_on(scene.reached)
    scene.assert_identical()
    scene.target.execute(f"DROP DATABASE meta_{scene.name}")
    assert scene.refused(scene.reached), "of that position it has gone further as well"


def test_progress_that_is_put_back_is_gone_on_from(scene: Scene, target: ThrowawayServer) -> None:
    meta, kept = f"meta_{scene.name}", f"kept_{scene.name}"
    with running_sync(scene.subtask(), None, scene.directory) as sync:
        sync.wait_synced()
    move(target, meta, kept)
    scene.write(1)
    assert scene.refused()
    move(target, kept, meta)
    scene.goes_on()
    scene.assert_identical()


@pytest.mark.parametrize("meta", ["none", "as before"])
def test_removed_progress_begins_a_task_anew(scene: Scene, meta: str) -> None:
    told = scene.first if meta == "as before" else None
    scene.lose(told)
    assert scene.refused(told)
    forget_progress(scene.subtask(), scene.work)
    if told is not None:
        scene.target.execute(f"DELETE FROM {scene.name}.k", f"DELETE FROM {scene.name}.l")
        scene.goes_on(told)
        scene.assert_identical()
        return
    scene.goes_on()  # at the source's present end, as a new task without `meta` does
    scene.write(3)
    scene.goes_on()
    assert scene.target.query(f"SELECT id FROM {scene.name}.k ORDER BY id") == ((1,), (3,))


def test_a_start_time_begins_a_task_whose_progress_is_gone(scene: Scene, tmp_path: Path) -> None:
    text, _ = next_second(scene.upstream)
    scene.lose(None)
    scene.target.execute(f"DELETE FROM {scene.name}.k", f"DELETE FROM {scene.name}.l")
    begin_at(scene.subtask(), place_of(scene.subtask(), StartTime.parse(text), tmp_path / "no relay"))
    scene.goes_on()
    scene.assert_identical()
