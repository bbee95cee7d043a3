"""Rows of an undecided XA transaction are kept for one stream: no table leaves meanwhile, and none of them is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.task.branch_requests import hold
from tests.testbed.branches import Branching
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


def test_a_table_leaves_once_all_are_decided(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT)", f"CREATE TABLE {name}.other (id INT PRIMARY KEY)")
    task = Branching(subtask_for(upstream, target, name, task=name), tmp_path)
    with task.main() as main:
        main.wait_synced()
        upstream.execute(
            f"XA START '{name}'", f"INSERT INTO {name}.t VALUES (1)", f"XA END '{name}'", f"XA PREPARE '{name}'"
        )
        upstream.execute(f"INSERT INTO {name}.other VALUES (1)")
        main.wait_synced()
    hold({"source-1": task.subtask}, TableName(name, "t"), None)
    with task.main() as main:
        upstream.execute(f"INSERT INTO {name}.other VALUES (2)")
        wait_until(lambda: len(target.query(f"SELECT 1 FROM {name}.other")) == 2, "the stream goes on")
        asked = task.of("t")
        assert asked is not None
        assert asked.phase == "asked"
        upstream.execute(f"XA COMMIT '{name}'")
        wait_until(lambda: task.rests("t"), "the table is aside")
        assert target.query(f"SELECT id FROM {name}.t") == ((1,),)
        upstream.execute(f"INSERT INTO {name}.t VALUES (2)")
        task.comes_back("t")
        main.wait_synced()
    assert target.query(f"SELECT id FROM {name}.t ORDER BY id") == ((1,), (2,))
