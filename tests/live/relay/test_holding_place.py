"""Whether a task that starts says that it begins, so that the relay may leave what it has: asked of a real target."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from dm.config.scalar import TaskMode
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.progress.load_parts import begin_run
from dm.sourcelog.relaylog.hold import Hold, needs
from dm.task.progress import hold_place, key_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]


@pytest.mark.parametrize("mode", ["all", "load&sync"])
def test_a_load_that_has_begun_needs_the_binlog_from_its_dump_on(
    mode: TaskMode, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(target)
    task = subtask_for(target, target, name, task=name).model_copy(update={"mode": mode})
    Hold(tmp_path / "relay", task.task).create()
    with closing(TargetConnection(task.target)) as connection:
        begin_run(connection, key_of(task), "a dump", threading.Event())
    hold_place(task, tmp_path / "work", tmp_path / "relay")
    assert [need.begins for need in needs(tmp_path / "relay")] == [False]


@pytest.mark.parametrize("mode", ["all", "load&sync", "incremental"])
def test_one_that_has_not_says_that_it_begins(
    mode: TaskMode, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(target)
    task = subtask_for(target, target, name, task=name).model_copy(update={"mode": mode})
    Hold(tmp_path / "relay", task.task).create()
    hold_place(task, tmp_path / "work", tmp_path / "relay")
    assert [need.begins for need in needs(tmp_path / "relay")] == [True]
