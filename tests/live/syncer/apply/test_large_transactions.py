"""Transactions larger than the memory quota: applied exactly, also when the syncer dies in the middle of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.checkpoint import read_checkpoint
from dm.progress.lane_rows import KEYLESS, read_lanes
from dm.progress.tables import SubtaskKey
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import SyncProcess, running_sync, subtask_for

pytestmark = pytest.mark.live

QUOTA = 1 << 20  # the smallest
ROWS = 3000  # of some 330 bytes in the binlog: twice the share of the quota that what was read may take


def create(name: str, *servers: ThrowawayServer) -> None:
    for server in servers:
        server.execute(
            f"CREATE TABLE {name}.keyed (id INT PRIMARY KEY, u INT UNIQUE, note VARCHAR(700))",
            f"CREATE TABLE {name}.keyless (a INT, note VARCHAR(700))",
        )


def in_one_transaction(
    server: ThrowawayServer, name: str, *, keyed: int = 0, keyless: int = 0, more: tuple[str, ...] = ()
) -> None:
    """Write so many rows of both tables, and what the statements say, at once."""
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            for statement in more:
                if statement.startswith("SET"):
                    cursor.execute(statement)
            cursor.execute("BEGIN")
            for first in range(0, max(keyed, keyless), 500):
                numbers = range(first, first + 500)
                for table, count, columns in (("keyed", keyed, "({0},{0},'{1}')"), ("keyless", keyless, "({0},'{1}')")):
                    values = [
                        columns.format(number, f"{number:05d}" + "x" * (number % 9) * 70)
                        for number in numbers
                        if number < count
                    ]
                    if values:
                        cursor.execute(f"INSERT INTO {name}.{table} VALUES {','.join(values)}")
            for statement in more:
                if not statement.startswith("SET"):
                    cursor.execute(statement)
            cursor.execute("COMMIT")
    finally:
        connection.close()


def assert_identical(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> None:
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


def spool_files(work: Path) -> list[Path]:
    return list((work / "spool").iterdir())


@contextmanager
def process(subtask: SubtaskConfig, work: Path, *, faults: str = "", patch: str = "") -> Iterator[SyncProcess]:
    running = SyncProcess(subtask, work_directory=work, faults=faults, patch=patch)
    try:
        yield running
    finally:
        running.close(kill=True)


@pytest.fixture
def subtask(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> SubtaskConfig:
    """One that has run before, with the smallest quota; its tables are empty."""
    name = schema(upstream, target)
    create(name, upstream, target)
    found = subtask_for(upstream, target, name, task=name, memory_quota=QUOTA)
    with running_sync(found) as first:
        first.wait_synced()
    return found


def stored(subtask: SubtaskConfig) -> tuple[Position, dict[str, Position | None]]:
    """The checkpoint and the lanes' positions."""
    key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
    connection = TargetConnection(subtask.target)
    try:
        checkpoint = read_checkpoint(connection, key)
        assert checkpoint is not None
        return checkpoint.position, {row.lane: row.position for row in read_lanes(connection, key)}
    finally:
        connection.close()


def count(target: ThrowawayServer, table: str) -> int:
    ((found,),) = target.query(f"SELECT COUNT(*) FROM {table}")
    return int(found)


@pytest.mark.parametrize(
    ("flavor", "compression"),
    [
        ("mysql", ""),
        ("mysql", "binlog_transaction_compression"),
        ("mariadb", ""),
    ],
    indirect=["flavor"],
    ids=str,
)
@pytest.mark.ci_flavor("mysql")
def test_a_transaction_beyond_the_quota_arrives_through_the_spool(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    subtask: SubtaskConfig,
    tmp_path: Path,
    compression: str,
) -> None:
    name = subtask.task
    changes = (
        *((f"SET SESSION {compression} = ON",) if compression else ()),
        f"UPDATE {name}.keyed SET u = -u - 1, note = CONCAT('2', note) WHERE id % 3 = 0",
        f"DELETE FROM {name}.keyed WHERE id % 7 = 1",
        f"UPDATE {name}.keyed SET id = id + 1000000 WHERE id % 11 = 2",
        f"DELETE FROM {name}.keyless WHERE a % 50 = 1",
    )
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
        in_one_transaction(upstream, name, keyed=ROWS, keyless=ROWS // 3, more=changes)
        in_one_transaction(upstream, name, keyless=10)
        # After a DDL in the same transaction (MySQL), and without a key.
        upstream.execute(f"CREATE TABLE {name}.copied SELECT id, note FROM {name}.keyed")
        status = sync.wait_synced(120)
        assert status["spooledTransactions"] == 2
        assert status["memoryQuota"] == QUOTA
    assert_identical(upstream, target, name)
    assert spool_files(tmp_path) == []


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("commits", [3, pytest.param(20, marks=pytest.mark.chaos)])
def test_a_crash_between_two_parts_replays_the_transaction_and_no_stale_spool(
    upstream: ThrowawayServer, target: ThrowawayServer, subtask: SubtaskConfig, tmp_path: Path, commits: int
) -> None:
    name = subtask.task
    upstream.execute(f"INSERT INTO {name}.keyed VALUES (-1, -1, 'before'), (-2, -2, 'before')")
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
    before, _ = stored(subtask)
    changes = (
        f"UPDATE {name}.keyed SET u = u + 1000000 WHERE id % 3 = 0",
        f"DELETE FROM {name}.keyed WHERE id = -1",
        f"UPDATE {name}.keyed SET id = id + 1000000 WHERE id % 11 = 2",
    )
    with process(subtask, tmp_path, faults=f"syncer.after_commit=kill@{commits}") as crashing:
        crashing.wait_synced()
        in_one_transaction(upstream, name, keyed=ROWS, more=changes)
        assert crashing.wait_killed()
    checkpoint, lanes = stored(subtask)
    assert checkpoint == before  # the end of the transaction before
    ((file, offset),) = [
        row[:2]
        for row in upstream.query("SHOW MASTER STATUS" if upstream.flavor == "mariadb" else "SHOW BINARY LOG STATUS")
    ]
    ahead = {(position.file, position.offset) for position in lanes.values() if position is not None}
    assert (str(file), int(str(offset))) in ahead  # so the bound of the next run covers the whole transaction
    assert 0 < count(target, f"{name}.keyed") < ROWS
    assert spool_files(tmp_path) != []
    with running_sync(subtask, work_directory=tmp_path) as sync:
        status = sync.wait_synced()
        assert int(str(status["safeModeRows"])) > ROWS
    assert_identical(upstream, target, name)
    assert spool_files(tmp_path) == []


@pytest.mark.ci_flavor("mysql")
def test_the_keyless_rows_of_a_large_transaction_are_applied_at_once_and_once(
    upstream: ThrowawayServer, target: ThrowawayServer, subtask: SubtaskConfig, tmp_path: Path
) -> None:
    name = subtask.task
    with process(subtask, tmp_path, faults="syncer.before_commit=kill") as crashing:
        crashing.wait_synced()
        in_one_transaction(upstream, name, keyless=ROWS, more=(f"DELETE FROM {name}.keyless WHERE a < 40",))
        assert crashing.wait_killed()
    with process(subtask, tmp_path, faults="syncer.after_commit=kill") as crashing:
        assert crashing.wait_killed()
    assert count(target, f"{name}.keyless") == ROWS - 40  # all of them at once
    checkpoint, lanes = stored(subtask)
    done = lanes[KEYLESS]
    assert done is not None
    assert not checkpoint.covers(done)
    with running_sync(subtask, work_directory=tmp_path) as sync:
        status = sync.wait_synced()
        assert status["safeModeRows"] == 0
    assert_identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
def test_one_keyless_row_that_is_not_there_leaves_nothing_of_the_transaction(
    upstream: ThrowawayServer, target: ThrowawayServer, subtask: SubtaskConfig, tmp_path: Path
) -> None:
    name = subtask.task
    upstream.execute(f"INSERT INTO {name}.keyless VALUES (-1, 'only here soon')")
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
        target.execute(f"DELETE FROM {name}.keyless")
        in_one_transaction(upstream, name, keyless=ROWS, more=(f"DELETE FROM {name}.keyless WHERE a = -1",))
        error = sync.wait_ended()
        sync.error = None
    assert getattr(error, "name", None) == "row-missing", error
    assert count(target, f"{name}.keyless") == 0
    target.execute(f"INSERT INTO {name}.keyless VALUES (-1, 'only here soon')")
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
    assert_identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
def test_a_full_disk_pauses_with_a_way_out_and_loses_nothing(
    upstream: ThrowawayServer, target: ThrowawayServer, subtask: SubtaskConfig, tmp_path: Path
) -> None:
    name = subtask.task
    # A limit of the kernel on the size of any file: what it answers is handled as a full disk is.
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, resource.RLIM_INFINITY))"
    with process(subtask, tmp_path, patch=full) as hindered:
        hindered.wait_synced()
        in_one_transaction(upstream, name, keyed=ROWS, keyless=ROWS)
        assert hindered.process.wait(60) == 1
        assert "the disk has no room" in hindered.errors()
    assert count(target, f"{name}.keyed") == 0
    assert spool_files(tmp_path) == []
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
    assert_identical(upstream, target, name)
