"""Shard merge: an ALTER that was announced as a whole, and whoever executes it next has it in pieces only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.syncer.operators import Request
from dm.task.binlog_verbs import operate_on_event
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.shards.test_shards import held, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync

pytestmark = pytest.mark.live

# A column that another one is computed from does not go alone.
COLUMNS = "id INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED, v INT"
ALTER = "DROP COLUMN a, DROP COLUMN g, ADD COLUMN n INT DEFAULT 4, MODIFY v BIGINT"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Two sources with a shard each: the first one waits at the ALTER, and does not run; the second comes to it."""

    name: str
    first: SubtaskConfig
    second: SubtaskConfig
    place: str  # of the second one's statement

    def replace(self) -> None:
        """The second one's statement is executed by hand, in pieces only."""
        words = f"ALTER TABLE {self.name}.s1 {ALTER}, ALGORITHM=COPY"
        operate_on_event(self.second, Request("replace", self.name, "source-1", self.place, (words,)), None)

    def revert(self) -> None:
        """As it stands after all."""
        operate_on_event(self.second, Request("revert", self.name, "source-1", self.place), None)


def waiting(name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer) -> Waiting:
    first, second = subtasks_of(name, upstreams, target, shards=1, columns=COLUMNS)
    with running_sync(first) as one, running_sync(second) as other:
        one.wait_synced()
        other.wait_synced()
    for number, server in enumerate(upstreams):
        server.execute(f"INSERT INTO {name}.s1 (id, a, v) VALUES ({number}1, 1, 1)")
    begin = place(upstreams[1])
    for number, server in enumerate(upstreams):
        server.execute(f"ALTER TABLE {name}.s1 {ALTER}", f"INSERT INTO {name}.s1 VALUES ({number}2, 2, 3)")
    with running_sync(first) as one:
        held(one)
    return Waiting(name, first, second, begin)


def fails(subtask: SubtaskConfig) -> None:
    """The target refuses the statement."""
    error = RunningSync(subtask, None).wait_ended(20)
    assert isinstance(error, DMError)
    assert error.name == "ddl-failed", str(error)


def has_n(target: ThrowawayServer, name: str) -> bool:
    return bool(target.query(f"SHOW COLUMNS FROM {name}.t LIKE 'n'"))


@pytest.mark.ci_flavor("mysql")
def test_what_was_refused_whole_is_executed_where_a_person_replaced_it(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    there = waiting(name, upstreams, target)
    target.execute(f"ALTER TABLE {name}.t ADD COLUMN h INT AS (a + 2) STORED")  # of the target's own
    fails(there.second)
    there.replace()
    target.execute(f"ALTER TABLE {name}.t DROP COLUMN h, DROP COLUMN g")
    with running_sync(there.second) as sync:
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert has_n(target, name)
    with running_sync(there.first) as sync:
        wait_for_rows(target, name, 4, sync)
        sync.wait_synced()
    merged(upstreams, target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("point", ["syncer.before_ddl=kill@2", "syncer.after_ddl=kill@1"])
def test_a_kill_around_the_whole_does_not_tell_that_its_pieces_are_done(
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    point: str,
    tmp_path: Path,
) -> None:
    name = schema(*upstreams, target)
    there = waiting(name, upstreams, target)
    process = SyncProcess(there.second, faults=point, fault_log=tmp_path / "faults")
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    done = point.startswith("syncer.after")
    assert has_n(target, name) == done
    there.replace()
    if not done:
        fails(there.second)  # a person's statement has no whole
        assert not has_n(target, name)
        there.revert()
    with running_sync(there.second) as other, running_sync(there.first) as one:
        wait_for_rows(target, name, 4, one, other)
        one.wait_synced()
        other.wait_synced()
    merged(upstreams, target, name)
