"""Mode `fast`, XA transactions, `--start-time`, and the place where business moves to the target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from dm.sourcelog.upstream.snapshot import prepared_xids
from dm.task.start_and_end import StartTime, begin_at
from dm.task.validation import beginning, cut_over, forget
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of, running_sync, subtask_for, wait_until
from tests.testbed.validation import errors_of, running_validator, validated

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

TABLE = "CREATE TABLE {}.t (id INT PRIMARY KEY, v INT)"


def wrong(subtask: SubtaskConfig) -> list[tuple[str, str]]:
    """What is stored: the kind, and the row's key."""
    return sorted((each.row.kind, each.row.message.partition(":")[0]) for each in errors_of(subtask))


@pytest.fixture
def table(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory) -> str:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(TABLE.format(name))
    return name


@pytest.mark.ci_flavor("mariadb")
def test_fast_looks_whether_keys_are_there(upstream: ThrowawayServer, target: ThrowawayServer, table: str) -> None:
    subtask = validated(subtask_for(upstream, target, table, task=table), mode="fast")
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(
            f"INSERT INTO {table}.t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)",
            f"UPDATE {table}.t SET v = 20 WHERE id = 2",
            f"UPDATE {table}.t SET id = 50 WHERE id = 5",
            f"DELETE FROM {table}.t WHERE id IN (4, 6)",
        )
        sync.wait_synced()
        target.execute(
            f"UPDATE {table}.t SET v = -1",  # which `fast` does not look at
            f"DELETE FROM {table}.t WHERE id IN (2, 50)",
            f"INSERT INTO {table}.t VALUES (4, 4)",
        )
        with running_validator(subtask) as validator:
            validator.wait("7/1/3")
            assert validator.status()["mode"] == "fast"
    assert wrong(subtask) == [("deleted", "id=4"), ("missing", "id=2"), ("missing", "id=50")]
    target.execute(*(each.row.fix for each in errors_of(subtask)))
    target.execute(f"UPDATE {table}.t SET v = id WHERE v = -1")
    assert target.query(f"SELECT id, v FROM {table}.t ORDER BY id") == ((1, 1), (2, 20), (3, 3), (50, 5))


@pytest.fixture
def decided(upstream: ThrowawayServer, table: str) -> Iterator[None]:
    """Nothing stays prepared, or the schema could not be dropped."""
    yield
    connection = connect(endpoint_of(upstream))
    try:
        left = prepared_xids(connection, upstream.flavor)
    finally:
        connection.close()
    upstream.execute(*(f"XA ROLLBACK {xid}" for xid in left))


@pytest.mark.ci_flavor("mysql")
def test_rows_of_xa_transactions_count_from_the_verdict_on(
    upstream: ThrowawayServer, target: ThrowawayServer, table: str, decided: None
) -> None:
    subtask = validated(subtask_for(upstream, target, table, task=table))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        for xid, number in (("kept", 1), ("late", 2), ("undone", 3)):
            upstream.execute(
                f"XA START '{table}{xid}'",
                f"INSERT INTO {table}.t VALUES ({number}, 1), ({number}0, 1)",
                f"XA END '{table}{xid}'",
                f"XA PREPARE '{table}{xid}'",
            )
        upstream.execute(f"XA COMMIT '{table}kept'", f"INSERT INTO {table}.t VALUES (7, 7)")
        sync.wait_synced()
        target.execute(f"UPDATE {table}.t SET v = -1 WHERE id = 10")
        with running_validator(subtask) as validator:
            validator.wait("3/0/0")
        assert wrong(subtask) == [("different", "id=10")]
        # The rows of the other two were read by a run that has ended; nothing of them is looked at.
        upstream.execute(
            f"XA ROLLBACK '{table}undone'", f"XA COMMIT '{table}late'", f"DELETE FROM {table}.t WHERE id = 7"
        )
        sync.wait_synced()
        target.execute(f"DELETE FROM {table}.t WHERE id = 20")
        with running_validator(subtask) as validator:
            validator.wait("5/0/1")
    assert wrong(subtask) == [("different", "id=10"), ("missing", "id=20")]


def next_second(server: ThrowawayServer) -> str:
    """A second of the source's clock, in its zone, before which everything so far lies."""
    began = server.query("SELECT UNIX_TIMESTAMP()")[0][0]
    wait_until(lambda: server.query("SELECT UNIX_TIMESTAMP()")[0][0] > began, "the next second")
    return str(server.query("SELECT NOW()")[0][0])


@pytest.mark.ci_flavor("mysql")
def test_a_validator_begins_at_a_time(
    upstream: ThrowawayServer, target: ThrowawayServer, table: str, tmp_path: Path
) -> None:
    """Rows that were applied before it was asked for; a table altered since is looked at from the end on."""
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {table}.altered (id INT PRIMARY KEY, v INT)")
    subtask = validated(subtask_for(upstream, target, table, task=table))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"INSERT INTO {table}.t VALUES (1, 1), (2, 2)")
        when = next_second(upstream)
        upstream.execute(
            f"INSERT INTO {table}.t VALUES (3, 3), (4, 4)",
            f"INSERT INTO {table}.altered VALUES (1, 1)",
            f"ALTER TABLE {table}.altered DROP COLUMN v",
        )
        sync.wait_synced()
        # The place up to which structures are known is the checkpoint, which is stored a second later at most.
        sync.stop()
    target.execute(f"UPDATE {table}.t SET v = -1 WHERE id IN (1, 3)", f"DELETE FROM {table}.altered")
    place = beginning(subtask, StartTime.parse(when), tmp_path)
    assert place.known
    with running_sync(subtask) as sync, running_validator(subtask, start=place.position) as validator:
        validator.wait("2/0/0")
        upstream.execute(f"INSERT INTO {table}.altered VALUES (2)")
        sync.wait_synced()
        validator.wait("3/0/0")
    assert wrong(subtask) == [("different", "id=3")]


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("begins", ["anew", "at a time"])
def test_the_task_s_first_changes_are_looked_at_though_the_syncer_is_past_them(
    begins: str, upstream: ThrowawayServer, target: ThrowawayServer, table: str, tmp_path: Path
) -> None:
    """A validator's process starts after the syncer's, which has applied them and moved the checkpoint."""
    subtask = validated(subtask_for(upstream, target, table, task=table))
    with running_sync(subtask) as sync:
        sync.wait_synced()
        when = next_second(upstream)
        upstream.execute(f"INSERT INTO {table}.t VALUES (1, 1)", f"INSERT INTO {table}.t VALUES (2, 2)")
        sync.wait_synced()
        sync.stop()
    if begins == "at a time":
        begin_at(subtask, beginning(subtask, StartTime.parse(when), tmp_path))
        forget(subtask)
        with running_sync(subtask) as sync:
            sync.wait_synced()
            sync.stop()
    target.execute(f"UPDATE {table}.t SET v = -1 WHERE id = 1")
    with running_sync(subtask), running_validator(subtask) as validator:
        validator.wait("2/0/0")
        wait_until(lambda: bool(errors_of(subtask)), "the row is an error")
    assert wrong(subtask) == [("different", "id=1")]


@pytest.mark.parametrize("told", ["place", "gtid"])
@pytest.mark.ci_flavor("mysql")
def test_nothing_after_the_cutover_is_read_and_no_row_waits_there(
    told: str, upstream: ThrowawayServer, target: ThrowawayServer, table: str
) -> None:
    subtask = validated(subtask_for(upstream, target, table, task=table), row_error_delay=3600.0)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(f"INSERT INTO {table}.t VALUES (1, 1), (2, 2)", f"UPDATE {table}.t SET v = 3 WHERE id = 1")
        connection = connect(endpoint_of(upstream))
        try:
            end = binlog_end(connection, read_facts(connection))
        finally:
            connection.close()
        upstream.execute(f"INSERT INTO {table}.t VALUES (3, 3)")
        sync.wait_synced()
        target.execute(f"UPDATE {table}.t SET v = -1 WHERE id = 1", f"DELETE FROM {table}.t WHERE id = 3")
        place = f"({end.file}, {end.offset})" if told == "place" else ""
        gtids = "" if told == "place" else str(end.gtid_set)
        cut_over(subtask, place, gtids)
        with running_validator(subtask) as validator:
            wait_until(lambda: bool(errors_of(subtask)), "the row is an error, without the delay")
            validator.wait("2/1/0")
            status = validator.status()
            assert (status["cutoverBinlogPos"], status["cutoverBinlogGtid"]) == (place, gtids)
    assert wrong(subtask) == [("different", "id=1")]


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.ci_flavor("mariadb")
def test_a_cutover_after_the_last_transaction_is_reached(
    begun: bool, upstream: ThrowawayServer, target: ThrowawayServer, table: str
) -> None:
    subtask = validated(subtask_for(upstream, target, table, task=table), row_error_delay=3600.0)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        with running_validator(subtask) as validator:
            validator.wait("0/0/0")
        upstream.execute(f"INSERT INTO {table}.t VALUES (1, 1)", "FLUSH BINARY LOGS")
        sync.wait_synced()
        target.execute(f"UPDATE {table}.t SET v = -1")
        # The end of the file that the source has left, or the beginning of the one in which nothing happens.
        file, size, *_ = upstream.query("SHOW BINARY LOGS")[-1 if begun else -2]
        cut_over(subtask, f"({file}, {size})", "")
        with running_validator(subtask) as validator:
            wait_until(lambda: bool(errors_of(subtask)), "the row is an error, without the delay")
            validator.wait("1/0/0")
    assert wrong(subtask) == [("different", "id=1")]
