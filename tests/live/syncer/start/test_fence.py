"""Sessions of an older run that are still there when a new run starts: they end, and nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.config.subtask import RunBy, SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

KEYED = "INSERT INTO {s}.keyed VALUES ({n}, {n})"
KEYLESS = "INSERT INTO {s}.keyless VALUES (7, 'same'), (7, 'same')"


@contextmanager
def process(subtask: SubtaskConfig, *, faults: str = "", log: Path | None = None) -> Iterator[SyncProcess]:
    running = SyncProcess(subtask, faults=faults, fault_log=log)
    try:
        yield running
    finally:
        running.close(kill=True)


@pytest.fixture(params=["same", pytest.param("tidb", marks=[pytest.mark.tidb, pytest.mark.chaos])])
def target(request: pytest.FixtureRequest, park: ServerPark, flavor: Flavor) -> PrivateServer:
    """One of the source's flavour, and a TiDB."""
    return park.tidb() if request.param == "tidb" else park.shared(flavor, "target")


@pytest.fixture
def subtask(upstream: ThrowawayServer, target: PrivateServer, schema: SchemaFactory) -> SubtaskConfig:
    """A subtask that has run before: its start is stored, its tables are empty."""
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"ALTER DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, v INT)",
            f"CREATE TABLE {name}.keyless (a INT, b VARCHAR(10))",
        )
    found = subtask_for(upstream, target, name, task=name)
    with running_sync(found) as first:
        first.wait_synced()
    return found


def assert_identical(upstream: ThrowawayServer, target: PrivateServer, name: str) -> None:
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


def wait_struck(log: Path, count: int = 1) -> None:
    wait_until(lambda: log.exists() and log.read_text().count("\n") >= count, "the fault point is passed")


def assert_replaced(old: SyncProcess) -> None:
    """The old process noticed, and ended with an error of its own."""
    assert old.process.wait(30) == 1
    errors = old.errors()
    assert "DMError" in errors, errors


@pytest.mark.parametrize(
    ("statement", "point"),
    [(KEYED, "syncer.after_lane_row"), (KEYLESS, "syncer.before_commit")],
    ids=["keyed", "keyless"],
)
def test_a_session_parked_before_its_commit_is_ended_and_its_rows_are_applied_once(
    upstream: ThrowawayServer,
    target: PrivateServer,
    subtask: SubtaskConfig,
    tmp_path: Path,
    statement: str,
    point: str,
) -> None:
    name, log, gate = subtask.task, tmp_path / "faults", tmp_path / "go"
    with process(subtask, faults=f"{point}=hang:{gate}", log=log) as old:
        old.wait_synced()
        upstream.execute(statement.format(s=name, n=1))
        wait_struck(log)
        # Its other lanes are awake: they go on, and are ended too.
        upstream.execute(KEYED.format(s=name, n=2))
        with process(subtask) as new:
            new.wait_synced()
            gate.touch()  # now the old one goes on to its COMMIT
            assert_replaced(old)
            upstream.execute(KEYLESS.format(s=name), f"DELETE FROM {name}.keyless WHERE a = 7 LIMIT 1")
            new.wait_synced()
    assert_identical(upstream, target, name)


def test_a_process_that_was_stopped_and_continued_changes_nothing(
    upstream: ThrowawayServer, target: PrivateServer, subtask: SubtaskConfig
) -> None:
    name = subtask.task
    with process(subtask) as old:
        wait_until(lambda: bool((old.status() or {}).get("totalEvents")), "events are read")
        old.freeze()
        upstream.execute(KEYED.format(s=name, n=1), KEYLESS.format(s=name))
        with process(subtask) as new:
            new.wait_synced()
            old.thaw()
            assert_replaced(old)
            upstream.execute(f"UPDATE {name}.keyed SET v = 9", f"DELETE FROM {name}.keyless LIMIT 1")
            new.wait_synced()
    assert_identical(upstream, target, name)


def test_of_two_runs_one_goes_on_and_the_other_does_not_come_back(
    upstream: ThrowawayServer, target: PrivateServer, subtask: SubtaskConfig
) -> None:
    name = subtask.task
    by = RunBy(host="second.example", home="/home/second")
    with running_sync(subtask) as second:
        second.wait_synced()
        first, second = second, RunningSync(subtask.model_copy(update={"run_by": by}), None)
        try:
            error = first.wait_ended()
            assert isinstance(error, DMError)
            assert (error.name, error.retryable) == ("fenced", False)
            assert "dm-worker on host second.example (/home/second) has it since 2" in error.message
            first.error = None  # it is what was to be seen
            upstream.execute(KEYED.format(s=name, n=1), KEYLESS.format(s=name))
            second.wait_synced()
        finally:
            second.stop()
    assert second.error is None
    assert_identical(upstream, target, name)


@pytest.mark.parametrize(
    ("became", "expected"),
    [("SET epoch = epoch - 1", ("target-went-back", True)), (None, ("progress-gone", False))],
    ids=["older", "without progress"],
)
def test_a_target_that_became_an_older_copy_of_itself_is_no_other_run(
    upstream: ThrowawayServer,
    target: PrivateServer,
    subtask: SubtaskConfig,
    became: str | None,
    expected: tuple[str, bool],
) -> None:
    name = subtask.task
    lanes = f"meta_{name}.{name}_syncer_worker"
    running = RunningSync(subtask, None)
    running.wait_synced()
    target.execute(f"UPDATE {lanes} {became}" if became else f"DELETE FROM {lanes}")
    upstream.execute(KEYED.format(s=name, n=1), KEYLESS.format(s=name))
    error = running.wait_ended()
    assert isinstance(error, DMError)
    assert (error.name, error.retryable) == expected
    if error.retryable:
        with running_sync(subtask) as again:
            again.wait_synced()
        assert_identical(upstream, target, name)


def test_a_process_that_registers_at_the_source_when_it_is_replaced_already_takes_nothing_from_its_successor(
    upstream: ThrowawayServer, target: PrivateServer, subtask: SubtaskConfig, tmp_path: Path
) -> None:
    name, log = subtask.task, tmp_path / "faults"
    with process(subtask, faults="syncer.bound_persisted=stop", log=log) as old:
        wait_struck(log)  # it has not begun to read
        with process(subtask) as new:
            new.wait_synced()
            old.thaw()
            for number in range(3):
                upstream.execute(KEYED.format(s=name, n=number), KEYLESS.format(s=name))
                new.wait_synced()
            assert_replaced(old)
            upstream.execute(f"DELETE FROM {name}.keyless LIMIT 1")
            new.wait_synced()
    assert_identical(upstream, target, name)


@pytest.mark.parametrize("end", ["frozen", "killed"])
def test_a_long_alter_of_an_older_run_is_waited_for_and_not_done_again(
    upstream: ThrowawayServer, target: PrivateServer, subtask: SubtaskConfig, tmp_path: Path, end: str
) -> None:
    name, log = subtask.task, tmp_path / "faults"

    def altering() -> bool:
        running = [str(row[7]) for row in target.query("SHOW FULL PROCESSLIST")]
        return any("ALTER" in statement and name in statement and "extra" in statement for statement in running)

    blocker = target.connect(autocommit=False)
    try:
        with blocker.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {name}.keyed")  # its metadata lock makes the ALTER last
        with process(subtask) as old:
            old.wait_synced()
            upstream.execute(
                KEYLESS.format(s=name),
                f"ALTER TABLE {name}.keyed ADD COLUMN extra INT NOT NULL DEFAULT 5, ADD INDEX by_extra (extra)",
                f"INSERT INTO {name}.keyed VALUES (1, 1, 6)",
                KEYLESS.format(s=name),
            )
            wait_until(altering, "the ALTER is under way at the target")
            if end == "frozen":
                old.freeze()
            else:
                old.process.kill()
                assert old.wait_killed()
            with process(subtask, log=log) as new:
                ours = False

                def waits() -> bool:
                    nonlocal ours
                    status = new.status()
                    assert status is not None, new.errors()
                    # MariaDB ends a session that waits for a lock when its client is gone; then the new run is the one
                    # that waits, inside the ALTER.
                    ours = end == "killed" and bool(status.get("blockingDDLs"))
                    return ours or "waiting for the DDL statement of an earlier run" in str(status["waiting"])

                wait_until(waits, "the new run says that it waits for the ALTER")
                wait_until(altering, "the ALTER is still, or again, under way")
                blocker.rollback()
                status = new.wait_synced()
                if end == "frozen":
                    old.thaw()
                    assert_replaced(old)
        assert status["ddlExecuted"] == (2 if ours else 1)  # of two pieces
    finally:
        blocker.close()
    assert_identical(upstream, target, name)


def test_a_run_stopped_while_it_waits_leaves_the_long_alter_alone(
    upstream: ThrowawayServer, target: PrivateServer, subtask: SubtaskConfig
) -> None:
    name = subtask.task
    blocker = target.connect(autocommit=False)

    def altering() -> bool:
        return any("ADD COLUMN extra" in str(row[7]) for row in target.query("SHOW FULL PROCESSLIST"))

    try:
        with blocker.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {name}.keyed")
        with process(subtask) as old:
            old.wait_synced()
            upstream.execute(f"ALTER TABLE {name}.keyed ADD COLUMN extra INT")
            wait_until(altering, "the ALTER is under way at the target")
            old.freeze()
            with process(subtask) as new:

                def waits() -> bool:
                    status = new.status()
                    assert status is not None, new.errors()
                    return "waiting for the DDL" in str(status["waiting"])

                wait_until(waits, "the new run says that it waits for the ALTER")
                new.close()
                assert new.process.returncode is not None
            assert altering()
            blocker.rollback()
            with process(subtask) as third:
                third.wait_synced()
    finally:
        blocker.close()
    assert_identical(upstream, target, name)
