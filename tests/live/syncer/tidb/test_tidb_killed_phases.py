"""A TiDB that is killed in phases that a plain stream has not: merges of shards, online DDL, a validator, check-task.

Whoever works there ends by an error that auto-resume tries again, and after it everything is identical. Between a
stream and a second pass there is no session that could be lost: the run goes on. Loads and joins:
tests/spark/test_tidb_killed.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from dm.config.subtask import SubtaskConfig
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import scratch_schema
from dm.task.precheck import takeable
from tests.live.syncer.ddl.test_online_ddl import prepared
from tests.live.syncer.follow.test_follow import identical
from tests.live.syncer.shards.test_optimistic_shards import STATEMENTS, changes, optimistic
from tests.live.syncer.shards.test_shards import KEYED, KEYLESS, merged, subtasks_of, wait_for_rows
from tests.live.syncer.shards.test_shards_killed import POINTS
from tests.testbed.crash_loop import POINT_SECONDS
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.migration import Migration
from tests.testbed.sync import RunningSync, SyncProcess, UnitProcess, running_sync, subtask_for, wait_until
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_kills import TidbKill, demand_retryable, demand_tried_again
from tests.testbed.validation import errors_of, running_validator, validated

pytestmark = [pytest.mark.live, pytest.mark.tidb, pytest.mark.ci_flavor("mysql"), pytest.mark.timeout(300)]

BETWEEN = ("shard.pass_begun", "shard.returned")  # after the sessions of one reading, before those of the next


def sampled(points: Iterable[str], sample: str) -> list[str | ParameterSet]:
    """One of them in `make test`, all in `make chaos`."""
    return [point if point == sample else pytest.param(point, marks=pytest.mark.chaos) for point in points]


@pytest.fixture
def name(upstream: ThrowawayServer, own_tidb: TidbServer, schema: SchemaFactory) -> str:
    """A schema of both, with one collation."""
    found = schema(upstream, own_tidb)
    for server in (upstream, own_tidb):
        server.execute(f"ALTER DATABASE {found} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    return found


def begun(subtask: SubtaskConfig) -> None:
    """Have the task store where it begins."""
    with running_sync(subtask) as sync:
        sync.wait_synced()


def struck(subtask: SubtaskConfig, kill: TidbKill) -> None:
    """A run of the syncer that meets the kill, and ends as it must; between two readings it may go on."""
    process = SyncProcess(subtask, faults=kill.faults, fault_log=kill.log)

    def synced() -> bool:
        status = process.poll_status()
        return bool(status and status["synced"])

    try:
        kill.strike(lambda: process.ended)
        if kill.point in BETWEEN:
            wait_until(lambda: process.ended or synced(), f"an end after {kill.point}", POINT_SECONDS)
        if kill.point not in BETWEEN or process.ended:
            demand_tried_again(process, kill.point)
    finally:
        process.close(kill=True)


@pytest.mark.parametrize("columns", [KEYED, pytest.param(KEYLESS, marks=pytest.mark.chaos)], ids=["keyed", "keyless"])
@pytest.mark.parametrize("point", sampled(POINTS, "shard.after_execute"))
def test_a_pessimistic_merge(
    upstream: ThrowawayServer, own_tidb: TidbServer, name: str, tmp_path: Path, point: str, columns: str
) -> None:
    (subtask,) = subtasks_of(name, [upstream], own_tidb, columns=columns)
    subtask = often_stored(subtask)
    begun(subtask)
    for number, table in enumerate(("s1", "s2")):
        upstream.execute(
            f"INSERT INTO {name}.{table} VALUES ({number}0, 1)",
            f"ALTER TABLE {name}.{table} ADD COLUMN w INT DEFAULT 7, ADD INDEX by_v (v)",
            f"INSERT INTO {name}.{table} VALUES ({number}1, 2, 2)",
            f"INSERT INTO {name}.u VALUES ({number})",
            f"ALTER TABLE {name}.{table} DROP COLUMN w",
            f"INSERT INTO {name}.{table} VALUES ({number}2, 3)",
            f"UPDATE {name}.{table} SET v = v + 10",
        )
    struck(subtask, TidbKill(own_tidb, point, tmp_path))
    with running_sync(subtask) as sync:
        wait_for_rows(own_tidb, name, 6, sync)
        sync.wait_synced()
    merged([upstream], own_tidb, name)


@pytest.mark.parametrize(
    "point",
    sampled(
        (
            "shard.decided", "shard.widened", "shard.structure_stored", "shard.ready", "shard.held",
            "shard.after_execute", "shard.pass_begun", "shard.before_return", "syncer.after_ddl",
        ),
        "",
    ),
)  # fmt: skip
def test_an_optimistic_merge(
    upstream: ThrowawayServer, own_tidb: TidbServer, name: str, tmp_path: Path, point: str
) -> None:
    (subtask,) = optimistic(name, [upstream], own_tidb)
    subtask = often_stored(subtask)
    begun(subtask)
    for number, table in enumerate(("s1", "s2")):
        for stage, statement in enumerate(STATEMENTS):
            rows = changes(f"{name}.{table}", 1000 * number + 10 * stage, stage)
            upstream.execute(*rows, statement.format(f"{name}.{table}"))
    struck(subtask, TidbKill(own_tidb, point, tmp_path))
    with running_sync(subtask) as sync:
        wait_for_rows(own_tidb, name, 2 * len(STATEMENTS) * 3, sync)
        sync.wait_synced()
    merged([upstream], own_tidb, name)


def often_stored(subtask: SubtaskConfig) -> SubtaskConfig:
    """The subtask, with checkpoints by which a run soon sees that its target was away."""
    syncer = subtask.syncer.model_copy(update={"checkpoint_flush_interval": 1})
    return subtask.model_copy(update={"syncer": syncer})


AROUND = [
    (point, number)
    for point in ("syncer.before_intent", "syncer.before_ddl", "syncer.after_ddl", "syncer.after_ddl_record")
    for number in (1, 3, 4)
]


@pytest.mark.chaos
@pytest.mark.parametrize(("point", "number"), AROUND)
def test_a_change_by_gh_ost(
    upstream: ThrowawayServer, own_tidb: TidbServer, name: str, tmp_path: Path, point: str, number: int
) -> None:
    subtask, change = prepared("gh-ost two-step", upstream, own_tidb, name)
    change.create()
    change.alter(
        "ADD COLUMN a INT NOT NULL DEFAULT 5 AFTER id, ADD COLUMN b DATETIME DEFAULT '2026-01-02', DROP KEY by_v",
        "MODIFY w VARCHAR(50), ADD UNIQUE KEY by_w (w)",
    )
    change.copy()
    upstream.execute(f"UPDATE {name}.t SET v = v + 1")
    change.cut_over()
    upstream.execute(f"UPDATE {name}.t SET a = a + 1")
    change.clean()
    struck(often_stored(subtask), TidbKill(own_tidb, point, tmp_path, number))
    with running_sync(subtask) as sync:
        sync.wait_synced()
    identical(upstream, own_tidb, name)
    assert own_tidb.query(f"SELECT COUNT(*) FROM {subtask.meta_schema}.{name}_onlineddl") == ((0,),)


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["validator.before_checkpoint", "validator.after_checkpoint"])
def test_a_validator(upstream: ThrowawayServer, own_tidb: TidbServer, name: str, tmp_path: Path, point: str) -> None:
    """It counts each row once all the same, and finds the one that was spoiled before the kill."""
    for server in (upstream, own_tidb):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    subtask = validated(subtask_for(upstream, own_tidb, name, task=name))
    kill = TidbKill(own_tidb, point, tmp_path)
    work = tmp_path / "validator"
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(
            f"INSERT INTO {name}.t VALUES (1, 1), (2, 2), (3, 3)", f"UPDATE {name}.t SET v = 20 WHERE id = 2"
        )
        sync.wait_synced()
    # Its end has stored a checkpoint. A run that goes on from an earlier one writes the rows again, and mends this one.
    own_tidb.execute(f"UPDATE {name}.t SET v = -1 WHERE id = 3")
    sync = RunningSync(subtask, None)
    process = UnitProcess(
        "validator", subtask.to_wire(), None, work_directory=work, faults=kill.faults, fault_log=kill.log
    )
    try:
        kill.strike(lambda: process.ended)
        upstream.execute(f"INSERT INTO {name}.t VALUES (4, 4)")  # of which both hear that the target was away
        demand_retryable(sync.wait_ended())
        demand_tried_again(process, point)
    finally:
        process.close(kill=True)
    with running_sync(subtask) as again, running_validator(subtask) as validator:
        again.wait_synced()
        validator.wait("4/1/0")
        assert own_tidb.query(f"SELECT v FROM {name}.t WHERE id = 3") == ((-1,),), "no run mends it"
        wait_until(lambda: bool(errors_of(subtask)), "the spoiled row is found")
    assert [each.row.message.partition(":")[0] for each in errors_of(subtask)] == ["id=3"]


def scratches(server: PrivateServer) -> list[str]:
    return [schema for (schema,) in server.query("SHOW DATABASES") if "_check_" in schema]


def test_check_task(
    upstream: ThrowawayServer, own_tidb: TidbServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, says that the target was away, and the next one leaves nothing of it there."""
    upstream.execute(*(f"CREATE TABLE {name}.t{number} (id INT PRIMARY KEY, v INT)" for number in range(3)))

    @contextmanager
    def killed(connection: TargetConnection, meta_schema: str) -> Iterator[str]:
        with scratch_schema(connection, meta_schema) as schema:
            own_tidb.kill()
            own_tidb.start()
            yield schema

    migration = Migration(upstream, own_tidb, name)
    with monkeypatch.context() as patch:
        patch.setattr(takeable, "scratch_schema", killed)
        found = migration.check()["table_schema"]
    assert [each.state for each in found if each.state == "failure"], found
    assert any("target" in each.message for each in found if each.state == "failure"), found
    assert len(scratches(own_tidb)) == 1
    assert not [each for each in migration.check()["table_schema"] if each.state == "failure"]
    assert scratches(own_tidb) == []
