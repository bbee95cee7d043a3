"""Another source of the task alters the target's table while rows of this one come, which has not done so yet."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.task.shard_locks import Decision, decide
from tests.live.syncer.shards.test_shards import held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import running_sync
from tests.testbed.twins import forms

pytestmark = pytest.mark.live

WHY = "other sources of the task may alter the target's table under these rows"


def beside(subtasks: Sequence[SubtaskConfig], shard_mode: str) -> list[SubtaskConfig]:
    """As the task file makes them: each knows of the others."""
    names = [subtask.source_id for subtask in subtasks]
    return [
        subtask.model_copy(
            update={
                "shard_mode": shard_mode,
                "shard_sources": tuple(names) if shard_mode else (),
                "neighbours": tuple(name for name in names if name != subtask.source_id),
            }
        )
        for subtask in subtasks
    ]


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("shard_mode", ["", "pessimistic"])
@pytest.mark.parametrize("column", ["x INT AFTER id", "x INT NOT NULL DEFAULT 7"])
@pytest.mark.ci_sample(2)
def test_rows_meet_their_columns_by_name(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    shard_mode: str,
    column: str,
) -> None:
    name = schema(*upstreams, target)
    subtasks = beside(
        subtasks_of(name, upstreams, target, shards=1, columns="id INT PRIMARY KEY, a INT, b INT"), shard_mode
    )
    with ExitStack() as stack:
        syncs = [stack.enter_context(running_sync(subtask)) for subtask in subtasks]
        for number, (server, sync) in enumerate(zip(upstreams, syncs, strict=True)):
            sync.wait_synced()  # it has its beginning
            server.execute(f"INSERT INTO {name}.s1 VALUES ({number}, 0, 0)")
            sync.wait_synced()
        upstreams[0].execute(f"ALTER TABLE {name}.s1 ADD COLUMN {column}")
        if shard_mode:
            held(syncs[0])
            assert decide(subtasks[0], Decision(f"{name}-`{name}`.`t`")) == ""
        else:
            syncs[0].wait_synced()
        upstreams[0].execute(f"INSERT INTO {name}.s1 (id, a, b) VALUES (10, 1, 2)")
        wait_for_rows(target, name, 3, *syncs)
        upstreams[1].execute(f"INSERT INTO {name}.s1 VALUES (2, 10, 20)", f"UPDATE {name}.s1 SET b = 21 WHERE id = 2")
        syncs[1].wait_synced()
        assert forms(syncs[1].unit.status())["t"] == ("sql", WHY)
        assert target.query(f"SELECT a, b FROM {name}.t WHERE id = 2") == ((10, 21),)
        upstreams[1].execute(f"ALTER TABLE {name}.s1 ADD COLUMN {column}")
        for sync in syncs:
            sync.wait_synced()
    merged(upstreams, target, name)
