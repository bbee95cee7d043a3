"""What a person decides about shards, killed inside: it holds as a whole or not at all, and a killed run goes on."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import pytest

from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.task.shard_locks import Decision, decide, locks
from tests.live.syncer.shards.test_shards import merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync, wait_until

pytestmark = pytest.mark.live

MODES: tuple[ShardMode, ...] = ("pessimistic", "optimistic")
UNIQUE = "ADD UNIQUE INDEX by_v (v)"  # optimistic shards wait for each other here, too
_DECIDES = """
from dm import faults
from dm.config.subtask import SubtaskConfig
from dm.ident import TableName
from dm.task.shard_locks import Decision, decide
faults.arm("{point}=kill")
decide(SubtaskConfig.from_wire({wire}), {decision!r})
"""


def waiting(
    name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, mode: ShardMode
) -> list[SubtaskConfig]:
    """The subtasks of some sources, of whose shards the first one waits for the others at a DDL."""
    subtasks = [each.model_copy(update={"shard_mode": mode}) for each in subtasks_of(name, upstreams, target)]
    for subtask in subtasks:
        with running_sync(subtask) as sync:
            sync.wait_synced()
    upstreams[0].execute(f"ALTER TABLE {name}.s1 {UNIQUE}", f"INSERT INTO {name}.s1 VALUES (1, 1)")
    for number, upstream in enumerate(upstreams):
        upstream.execute(f"INSERT INTO {name}.s2 VALUES ({11 + number}, {11 + number})")
    with running_sync(subtasks[0]) as sync:
        wait_for_rows(target, name, 1, sync)
        wait_until(lambda: bool(locks(subtasks[0])), "a lock is there")
    return subtasks


def die(subtask: SubtaskConfig, point: str, decision: Decision) -> None:
    """Carry the decision out in a process that dies at the point."""
    process = SyncProcess(subtask, patch=_DECIDES.format(point=point, wire=subtask.to_wire(), decision=decision))
    try:
        assert process.process.wait(60) == -signal.SIGKILL
    finally:
        process.close()


def indexes(target: ThrowawayServer, name: str) -> set[str]:
    return {str(row[2]) for row in target.query(f"SHOW INDEX FROM {name}.t")}


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("point", ["unlock.stored", "unlock.committed", "unlock.skipped"])
@pytest.mark.ci_sample(3)
def test_a_ddl_that_is_not_to_be_executed(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, point: str, mode: ShardMode
) -> None:
    name = schema(upstream, target)
    (subtask,) = waiting(name, [upstream], target, mode)
    decision = Decision(f"{name}-`{name}`.`t`", skip=True)
    if point == "unlock.skipped":
        decide(subtask, decision)
        process = SyncProcess(subtask, faults=f"{point}=kill")
        try:
            assert process.wait_killed(), process.errors()
        finally:
            process.close()
    else:
        die(subtask, point, decision)
        assert ("'waived': True" in str(locks(subtask))) is (point == "unlock.committed")
        if point == "unlock.stored":
            decide(subtask, decision)
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 {UNIQUE}", f"INSERT INTO {name}.s2 VALUES (12, 12)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert locks(subtask) == []
    assert "by_v" not in indexes(target, name)
    target.execute(f"ALTER TABLE {name}.t {UNIQUE}")  # the only difference
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("point", ["unlock.given_up", "unlock.committed"])
def test_a_shard_that_is_given_up(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, point: str
) -> None:
    name = schema(upstream, target)
    (subtask,) = waiting(name, [upstream], target, "pessimistic")
    decision = Decision(f"{name}-`{name}`.`t`", ("source-0",), TableName(name, "s2"), force_remove=True)
    die(subtask, point, decision)
    members = str(locks(subtask))
    assert ("`s2`" in members) is (point == "unlock.given_up")
    if point == "unlock.given_up":
        decide(subtask, decision)
    upstream.execute(f"DROP TABLE {name}.s2")
    target.execute(f"DELETE FROM {name}.t WHERE id = 11")
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 1, sync)
        sync.wait_synced()
    assert locks(subtask) == []
    assert "by_v" in indexes(target, name)
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("mode", MODES)
def test_a_source_that_has_left_the_file(
    upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(*upstreams, target)
    first, second = waiting(name, upstreams[:2], target, mode)
    with running_sync(second) as sync:
        sync.wait_synced()
    alone = first.model_copy(update={"shard_sources": ("source-0",)})
    process = SyncProcess(alone, faults="unlock.source_left=kill")
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    assert "source-1" in str(locks(first))
    upstreams[0].execute(f"ALTER TABLE {name}.s2 {UNIQUE}")
    with running_sync(alone) as sync:
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
    assert locks(alone) == []
    assert "by_v" in indexes(target, name)
    upstreams[1].execute(
        *(f"ALTER TABLE {name}.{shard} {UNIQUE}" for shard in ("s1", "s2"))
    )  # nobody reads it any more
    merged(upstreams[:2], target, name)
