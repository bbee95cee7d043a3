"""Every kind of error that concerns one table, one after the other in one task: the others go on, the table returns."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.progress.joining.branches import release
from dm.task.binlog_verbs import operate_on_event
from tests.live.syncer.branches.test_branch_kills import COMING, FAILING_AGAIN, LEAVING, RETURNING
from tests.testbed.failing_scene import Drawn, FailingTables, drawn
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.joining import join_process
from tests.testbed.lag_meter import LagMeter
from tests.testbed.sync import SyncProcess, wait_until

pytestmark = pytest.mark.live

MOST_LAG = 2.0  # seconds, of the tables that do not fail
PACKET, SMALL_PACKET = 64 << 20, 1 << 20
SAMPLE: list[Drawn] = [("a member", "keyless"), ("values of each server's own", "keyed")]
# Its first row in the task is the one that fails, and another table without a key is before it in the transaction.
FIRST_ROW: list[Drawn] = [("a trigger", "keyless"), ("rows after a statement that was not replicated", "keyed")]


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("causes", [SAMPLE, FIRST_ROW], ids=["two kinds", "first row and structure"])
def test_a_table_after_the_other_leaves_and_comes_back(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, causes: list[Drawn]
) -> None:
    task = FailingTables(upstream, target, schema(upstream, target), tmp_path, causes)
    with task.main() as main:
        main.wait_synced()
        for number in range(len(causes)):
            task.spoil(number)
            task.strike(number)
            task.is_aside(number, main)
            task.mend(number, main)
            task.returns(number, main)
        main.wait_synced()
    task.compare()


@pytest.mark.ci_flavor("mysql")
def test_a_person_decides_about_a_table_that_is_aside_while_the_task_does_not_run(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    task = FailingTables(upstream, target, schema(upstream, target), tmp_path, SAMPLE[1:])
    with task.main() as main:
        main.wait_synced()
        task.strike(0)
        task.is_aside(0, main)
        query = f"SELECT id, v FROM {task.schema}.keyed ORDER BY id"
        wait_until(lambda: target.query(query) == upstream.query(query), "the task's stream is past it")
    operate_on_event(task.subtask, task.request(0), None)
    with task.main() as main:
        task.returns(0, main)
        main.wait_synced()
    task.compare()


@pytest.fixture
def servers(flavor: Flavor, server: ServerFactory) -> tuple[ThrowawayServer, ThrowawayServer]:
    """A source and a target of the test's own, which takes smaller rows."""
    return server(flavor, max_allowed_packet=PACKET), server(flavor, max_allowed_packet=SMALL_PACKET)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", [1, 2])
def test_the_others_go_on_while_each_table_waits_and_comes_back(
    flavor: Flavor,
    servers: tuple[ThrowawayServer, ThrowawayServer],
    schema: SchemaFactory,
    tmp_path: Path,
    seed: int,
) -> None:
    upstream, target = servers
    print(f"seed {seed}")
    causes = drawn(flavor, random.Random(seed))
    task = FailingTables(upstream, target, schema(upstream, target), tmp_path, causes)
    lags: dict[str, float] = {}
    with task.main() as main:
        main.wait_synced()
        meter = LagMeter(upstream, target, f"{task.schema}.lag")
        with meter.measuring():
            for number, (what, form) in enumerate(causes):
                meter.worst = 0.0
                task.spoil(number)
                task.strike(number)
                task.is_aside(number, main)
                task.mend(number, main)
                task.returns(number, main)
                lags[f"{what}, {form}"] = meter.worst
                print(f"{what}, {form}: {meter.worst:.2f} s", flush=True)
        main.wait_synced()
    task.compare()
    assert max(lags.values()) < MOST_LAG, {what: lag for what, lag in lags.items() if lag >= MOST_LAG}


@contextmanager
def dying_main(task: FailingTables, point: str) -> Iterator[SyncProcess]:
    """The task's own stream in a process that dies at a point."""
    process = SyncProcess(task.subtask, work_directory=task.directory / "main", faults=f"{point}=kill")
    try:
        yield process
    finally:
        process.close(kill=True)


@pytest.mark.chaos
@pytest.mark.parametrize("point", [*LEAVING, *RETURNING, *COMING, *FAILING_AGAIN])
@pytest.mark.parametrize("seed", [1])
def test_a_process_dies_while_a_drawn_table_leaves_or_comes_back(
    flavor: Flavor,
    servers: tuple[ThrowawayServer, ThrowawayServer],
    schema: SchemaFactory,
    tmp_path: Path,
    seed: int,
    point: str,
) -> None:
    upstream, target = servers
    print(f"seed {seed}")
    leaving = point in LEAVING and point not in COMING
    causes = drawn(flavor, random.Random(f"{seed} {point}"))[:1]
    print(causes)
    task = FailingTables(upstream, target, schema(upstream, target), tmp_path, causes)
    with task.main() as main:
        main.wait_synced()
        task.spoil(0)
    if leaving:
        with dying_main(task, point) as process:
            task.strike(0)
            assert process.wait_killed(120)
    else:
        task.strike(0)
    with task.main() as main:
        task.is_aside(0, main)
        if point not in FAILING_AGAIN:
            task.mend(0, main)
    gives_up = task.cause(0).way == "drop"
    if not leaving and not gives_up:
        task.change(release, "t0")
    if point in RETURNING and not gives_up:
        with dying_main(task, point) as process, task.coming("t0"):
            assert process.wait_killed(120)
    with task.main() as main:
        if point in (*COMING, *FAILING_AGAIN) and not gives_up:
            branch = task.of("t0")
            assert branch is not None
            dying = join_process(task.subtask, tmp_path / "join", f"{point}=kill", tmp_path / "struck", branch.number)
            assert dying.wait(120) == -signal.SIGKILL
        if point in FAILING_AGAIN:
            task.mend(0, main)
        task.returns(0, main)
        main.wait_synced()
    task.compare()
