"""Shards come, go, get other names, or a person goes on without one: a killed process is continued, in both modes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.task.shard_locks import Decision, decide, locks
from tests.live.syncer.shards.test_shards import KEYED, merged, subtasks_of, wait_for_rows
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync, wait_until

pytestmark = pytest.mark.live
_CHAOS = pytest.mark.chaos

BOTH: tuple[ShardMode, ...] = ("pessimistic", "optimistic")
UNIQUE = "ADD UNIQUE INDEX by_v (v)"  # optimistic shards wait for each other here, too
# What is executed stays so, but no held shard goes on yet, as when its source's stream is slow to end.
HELD_SHARDS_WAIT = """
from dm.syncer.shards.main_or_second_pass import ShardRun
ShardRun._going = lambda *_: []
"""

_DECIDES = """
from dm import faults
from dm.config.subtask import SubtaskConfig
from dm.task.shard_locks import Decision, decide
faults.arm("{point}=kill")
decide(SubtaskConfig.from_wire({wire}), Decision("{lock}"))
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a run is killed, what it comes to before, and what follows when the next one runs."""

    point: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    rows: int
    modes: tuple[ShardMode, ...] = BOTH
    patch: str = ""


SCENES = {
    "a table is created with what is to come": Scene(
        "shard.early",
        (
            f"ALTER TABLE {{s}}.s1 {UNIQUE}",
            "INSERT INTO {s}.s1 VALUES (1, 1)",
            "CREATE TABLE {s}.s3 (id INT PRIMARY KEY, v INT, UNIQUE INDEX by_v (v))",
            "INSERT INTO {s}.s3 VALUES (31, 31)",
        ),
        (f"ALTER TABLE {{s}}.s2 {UNIQUE}", "INSERT INTO {s}.s3 VALUES (32, 32)"),
        3,
    ),
    "a table is created like one that is held": Scene(
        "shard.early",
        (
            f"ALTER TABLE {{s}}.s1 {UNIQUE}",
            "CREATE TABLE {s}.s3 LIKE {s}.s1",
            "INSERT INTO {s}.s3 VALUES (31, 31)",
        ),
        (f"ALTER TABLE {{s}}.s2 {UNIQUE}", "INSERT INTO {s}.s3 VALUES (32, 32)"),
        2,
    ),
    "a table is created after one that is held": Scene(
        "shard.early",
        (
            f"ALTER TABLE {{s}}.s1 {UNIQUE}",
            "ALTER TABLE {s}.s1 ADD COLUMN c INT",
            f"ALTER TABLE {{s}}.s2 {UNIQUE}",
            "CREATE TABLE {s}.s3 (id INT PRIMARY KEY, v INT, c INT, UNIQUE INDEX by_v (v))",
            "INSERT INTO {s}.s3 VALUES (31, 31, 31)",
        ),
        ("ALTER TABLE {s}.s2 ADD COLUMN c INT", "INSERT INTO {s}.s3 VALUES (32, 32, 32)"),
        2,
        ("optimistic",),
        HELD_SHARDS_WAIT,
    ),
    "a column that a new table lacks becomes optional": Scene(
        "shard.loosened",
        (
            "ALTER TABLE {s}.s1 ADD COLUMN w INT NOT NULL",
            "INSERT INTO {s}.s1 VALUES (1, 1, 1)",
            "INSERT INTO {s}.s2 VALUES (11, 11)",
        ),
        ("ALTER TABLE {s}.s2 ADD COLUMN w INT NOT NULL", "UPDATE {s}.s2 SET w = 5"),
        2,
        ("optimistic",),
    ),
    "a new table lacks a column": Scene(
        "shard.loosened=kill@2",
        (
            "ALTER TABLE {s}.s1 ADD COLUMN w INT NOT NULL",
            "ALTER TABLE {s}.s2 ADD COLUMN w INT NOT NULL",
            "CREATE TABLE {s}.s3 (id INT PRIMARY KEY, v INT)",
            "INSERT INTO {s}.s3 VALUES (31, 31)",
        ),
        ("INSERT INTO {s}.s1 VALUES (1, 1, 1)", "ALTER TABLE {s}.s3 ADD COLUMN w INT NOT NULL"),
        2,
        ("optimistic",),
    ),
    "a shard is dropped for which one waits": Scene(
        "shard.left",
        (
            "INSERT INTO {s}.s2 VALUES (11, 11)",
            f"ALTER TABLE {{s}}.s1 {UNIQUE}",
            "INSERT INTO {s}.s1 VALUES (1, 1)",
            "DELETE FROM {s}.s2",
            "DROP TABLE {s}.s2",
        ),
        ("INSERT INTO {s}.s1 VALUES (2, 2)",),
        2,
    ),
    "a shard gets another name while one waits": Scene(
        "shard.renamed",
        (
            f"ALTER TABLE {{s}}.s1 {UNIQUE}",
            "INSERT INTO {s}.s1 VALUES (1, 1)",
            "RENAME TABLE {s}.s2 TO {s}.s9",
            "INSERT INTO {s}.s9 VALUES (91, 91)",
        ),
        (f"ALTER TABLE {{s}}.s9 {UNIQUE}", "INSERT INTO {s}.s9 VALUES (92, 92)"),
        3,
    ),
}
# Each point and mode once in `make test`.
USUAL = {
    ("a table is created with what is to come", "pessimistic"),
    ("a table is created after one that is held", "optimistic"),
    ("a new table lacks a column", "optimistic"),
    ("a shard is dropped for which one waits", "optimistic"),
    ("a shard gets another name while one waits", "pessimistic"),
}
KILLS = [
    pytest.param(scene, mode, id=f"{what}, {mode}", marks=[] if (what, mode) in USUAL else _CHAOS)
    for what, scene in SCENES.items()
    for mode in scene.modes
]


def merging(name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, mode: str) -> SubtaskConfig:
    """The subtask of one source, begun before the first row."""
    (subtask,) = subtasks_of(name, upstreams, target, columns=KEYED)
    subtask = subtask.model_copy(update={"shard_mode": mode})
    with running_sync(subtask) as sync:
        sync.wait_synced()
    return subtask


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(("scene", "mode"), KILLS)
@pytest.mark.ci_sample(3)
def test_the_next_run_goes_on(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, scene: Scene, mode: str
) -> None:
    name = schema(upstream, target)
    subtask = merging(name, [upstream], target, mode)
    upstream.execute(*(text.format(s=name) for text in scene.before))
    process = SyncProcess(
        subtask, faults=scene.point if "=" in scene.point else f"{scene.point}=kill", patch=scene.patch
    )
    try:
        assert process.wait_killed(), process.errors()
    finally:
        process.close()
    with running_sync(subtask) as sync:
        upstream.execute(*(text.format(s=name) for text in scene.after))
        wait_for_rows(target, name, scene.rows, sync)
        sync.wait_synced()
    merged([upstream], target, name)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("mode", [BOTH[0], pytest.param(BOTH[1], marks=_CHAOS)])
@pytest.mark.parametrize("point", ["unlock.stored", "unlock.committed"])
def test_a_decision_that_dies_is_made_whole_or_not_at_all(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, point: str, mode: str
) -> None:
    name = schema(upstream, target)
    subtask = merging(name, [upstream], target, mode)
    decision = Decision(f"{name}-`{name}`.`t`")
    upstream.execute(
        f"ALTER TABLE {name}.s1 {UNIQUE}",
        f"INSERT INTO {name}.s1 VALUES (1, 1)",
        f"INSERT INTO {name}.s2 VALUES (11, 11)",
    )
    with running_sync(subtask) as sync:
        wait_for_rows(target, name, 1, sync)
        wait_until(lambda: bool(locks(subtask)), "a lock is there")
        assert killed_at(point, subtask, decision) == -signal.SIGKILL
        if point == "unlock.stored":
            assert "'waived': True" not in str(locks(subtask))
            assert decide(subtask, decision) == ""
        wait_for_rows(target, name, 2, sync)
        upstream.execute(f"ALTER TABLE {name}.s2 {UNIQUE}", f"INSERT INTO {name}.s2 VALUES (12, 12)")
        wait_for_rows(target, name, 3, sync)
        sync.wait_synced()
        assert locks(subtask) == []
    merged([upstream], target, name)


def killed_at(point: str, subtask: SubtaskConfig, decision: Decision) -> int:
    """How a process ends that carries the decision out and dies at a point."""
    process = SyncProcess(subtask, patch=_DECIDES.format(point=point, wire=subtask.to_wire(), lock=decision.lock))
    try:
        return process.process.wait(60)
    finally:
        process.close()
