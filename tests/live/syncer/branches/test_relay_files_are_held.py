"""A table that is aside keeps the relay files from its place on, however far the task's own stream is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.progress.joining.branches import drop
from dm.sourcelog.relaylog.hold import Hold, Need, needs
from tests.testbed.branches import Branching
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]


def test_files_are_held_from_the_branch_on(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"CREATE TABLE {name}.other (id INT PRIMARY KEY)")
    target.execute(f"INSERT INTO {name}.t VALUES (1)")
    subtask = subtask_for(upstream, target, name, task=name, on_error="table", checkpoint_flush_interval=1)
    task, hold = Branching(subtask, tmp_path), Hold(tmp_path / "relay", name)
    hold.create()

    def held() -> Need:
        (need,) = needs(tmp_path / "relay")
        return need

    with running_sync(subtask, work_directory=tmp_path / "main", hold=hold) as main:
        main.wait_synced()
        upstream.execute(f"INSERT INTO {name}.t VALUES (1)")
        wait_until(lambda: task.rests("t"), "the table is aside")
        before = held()
        upstream.execute("FLUSH BINARY LOGS", f"INSERT INTO {name}.other VALUES (1)", "FLUSH BINARY LOGS")
        upstream.execute(f"INSERT INTO {name}.other VALUES (2)")
        wait_until(lambda: len(target.query(f"SELECT 1 FROM {name}.other")) == 2, "the other table goes on")
        main.stop()
        assert held().file == before.file
    task.change(drop, "t")
    with running_sync(subtask, work_directory=tmp_path / "main", hold=hold) as main:
        main.wait_synced()
        assert held().file != before.file, "nobody needs them any more"
