"""XA transactions of a live source: their rows count from the XA COMMIT on, once, and never otherwise."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.gtid import Gtid
from dm.position import Position
from dm.sourcelog.stream import prepared_watch
from dm.sourcelog.stream.prepared_list import HeldXa, TransactionEnd
from dm.sourcelog.stream.prepared_watch import ASK_SECONDS, UNDECIDED_SECONDS, PreparedWatch
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from dm.sourcelog.upstream.snapshot import prepared_xids
from dm.unit import JSON
from tests.live.syncer.follow.test_follow import create, identical
from tests.testbed.fake_clock import FakeClock
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.purge import purge_binlogs
from tests.testbed.sync import RunningSync, SyncProcess, endpoint_of, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live


def prepare(server: ThrowawayServer, xid: str, *statements: str, first: Iterable[str] = ()) -> None:
    """An XA transaction that nobody has decided; its session is gone."""
    server.execute(*first, f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}")


@pytest.fixture(autouse=True)
def decided(upstream: ThrowawayServer, schema: SchemaFactory) -> Iterator[None]:
    """Nothing stays prepared, or the schemas could not be dropped."""
    yield
    connection = connect(endpoint_of(upstream))
    try:
        left = prepared_xids(connection, upstream.flavor)
    finally:
        connection.close()
    upstream.execute(*(f"XA ROLLBACK {xid}" for xid in left))


def count(server: ThrowawayServer, table: str) -> int:
    return int(server.query(f"SELECT COUNT(*) FROM {table}")[0][0])


def entries(report: JSON) -> list[dict[str, JSON]]:
    """What a status says of undecided transactions."""
    assert isinstance(report, list)
    return [entry for entry in report if isinstance(entry, dict)]


def test_rows_arrive_with_the_commit_and_not_before_and_those_of_a_rollback_never(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    other = schema(upstream)
    create(name, upstream, target)
    upstream.execute(f"CREATE TABLE {other}.unwanted (id INT PRIMARY KEY)")
    keyed, keyless = f"{name}.keyed", f"{name}.keyless"
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        prepare(
            upstream,
            f"'{name}a'",
            f"INSERT INTO {keyed} (id) VALUES (1), (2)",
            f"INSERT INTO {keyless} VALUES (1, 'a', 1)",
        )
        prepare(upstream, f"'{name}b', 0x00ff27, 7", f"INSERT INTO {keyed} (id) VALUES (3)")
        prepare(upstream, f"'{name}', 'elsewhere'", f"INSERT INTO {other}.unwanted VALUES (1)")
        upstream.execute(f"INSERT INTO {keyed} (id) VALUES (4)", f"INSERT INTO {keyless} VALUES (4, 'd', 4)")
        sync.wait_synced()
        assert (count(target, keyed), count(target, keyless)) == (1, 1)
        upstream.execute(
            f"XA COMMIT '{name}b', 0x00ff27, 7", f"XA ROLLBACK '{name}a'", f"XA COMMIT '{name}', 'elsewhere'"
        )
        sync.wait_synced()
        identical(upstream, target, name)
        assert (count(target, keyed), count(target, keyless)) == (2, 1)

        # In one session: changes of what is there, a part that is taken back, the same xid again, one phase.
        upstream.execute(
            f"XA START '{name}'",
            f"UPDATE {keyed} SET id = 30 WHERE id = 3",
            "SAVEPOINT here",
            f"INSERT INTO {keyless} VALUES (5, 'taken back', 5)",
            "ROLLBACK TO here",
            f"DELETE FROM {keyless} WHERE a = 4",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
            f"XA COMMIT '{name}'",
            f"XA START '{name}'",
            f"INSERT INTO {keyless} VALUES (6, 'f', 6), (6, 'f', 6)",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
            f"XA COMMIT '{name}'",
            f"XA START '{name}'",
            f"INSERT INTO {keyed} (id) VALUES (7)",
            f"XA END '{name}'",
            f"XA COMMIT '{name}' ONE PHASE",
            f"XA START '{name}'",
            f"XA END '{name}'",
            f"XA PREPARE '{name}'",
            f"XA COMMIT '{name}'",
        )
        if upstream.flavor == "mysql":
            packed = "SET SESSION binlog_transaction_compression = ON"
            prepare(upstream, f"'{name}', 'c', 4294967297", f"INSERT INTO {keyed} (id) VALUES (8)", first=(packed,))
            upstream.execute(f"XA COMMIT '{name}', 'c', 4294967297")
        status = sync.wait_synced()
        assert status["undecidedXa"] == []
    identical(upstream, target, name)


@pytest.mark.ci_flavor("mysql")
def test_a_commit_after_a_kill_and_a_restart_brings_every_row_once(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    keyed, keyless = f"{name}.keyed", f"{name}.keyless"
    subtask = subtask_for(upstream, target, name, task=name)
    process = SyncProcess(subtask, work_directory=tmp_path)
    process.wait_synced()
    for xid in ("committed", "rolled back"):
        prepare(
            upstream,
            f"'{name}', '{xid}'",
            f"INSERT INTO {keyed} (id, note) VALUES ({len(xid)}, '{xid}')",
            f"INSERT INTO {keyless} VALUES (1, '{xid}', 1), (1, '{xid}', 1)",
        )
    upstream.execute(f"INSERT INTO {keyless} VALUES (2, 'between', 2)")
    process.wait_synced()
    process.close(kill=True)

    # The run that applies them dies right after their transaction at the target, before it can store a checkpoint.
    dying = SyncProcess(
        subtask, work_directory=tmp_path, faults="syncer.after_commit=kill", fault_log=tmp_path / "struck"
    )
    dying.status()
    upstream.execute(
        f"XA ROLLBACK '{name}', 'rolled back'",
        f"XA COMMIT '{name}', 'committed'",
        f"INSERT INTO {keyless} VALUES (3, 'after', 3)",
    )
    assert dying.wait_killed()
    dying.close()
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
    identical(upstream, target, name)
    assert count(target, keyless) == 4
    assert list(tmp_path.rglob("*.xa")) == []


@pytest.mark.ci_flavor("mariadb")
def test_rows_that_do_not_fit_in_memory_are_applied_once_after_two_kills(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name, memory_quota=1 << 20)
    first = SyncProcess(subtask, work_directory=tmp_path)
    first.wait_synced()
    note = "x" * 15
    values = [f"({number}, '{note}', {number})" for number in range(24_000)]
    keyed = [f"({number}, {number}, '{note}', 1, NULL)" for number in range(6_000)]
    prepare(
        upstream,
        f"'{name}'",
        *(f"INSERT INTO {name}.keyless VALUES {','.join(values[at : at + 4000])}" for at in range(0, 24_000, 4000)),
        f"INSERT INTO {name}.keyed VALUES {','.join(keyed)}",
    )
    first.wait_synced()
    first.close(kill=True)
    (held,) = tmp_path.rglob("*.xa")
    assert held.stat().st_size > 1 << 19  # more than what is read may take of the quota

    dying = SyncProcess(
        subtask, work_directory=tmp_path, faults="syncer.before_commit=kill@3", fault_log=tmp_path / "struck"
    )
    dying.status()
    upstream.execute(f"XA COMMIT '{name}'")
    assert dying.wait_killed()
    dying.close()
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
    identical(upstream, target, name)
    assert count(target, f"{name}.keyless") == 24_000
    assert list(tmp_path.rglob("*.xa")) == []


@pytest.mark.ci_flavor("mariadb")
def test_another_host_reads_again_what_is_prepared_and_brings_every_row_once(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    keyed, keyless = f"{name}.keyed", f"{name}.keyless"
    subtask = subtask_for(upstream, target, name, task=name)
    first = SyncProcess(subtask, work_directory=tmp_path / "first")
    first.wait_synced()
    for number, xid in enumerate(("committed", "of another file", "rolled back"), start=1):
        rows = [
            f"INSERT INTO {keyed} (id, note) VALUES ({number}, '{xid}')",
            f"INSERT INTO {keyless} VALUES (1, '{xid}', 1), (1, '{xid}', 1)",
        ]
        prepare(upstream, f"'{name}', '{xid}'", *rows)
        upstream.execute(f"INSERT INTO {keyless} VALUES (2, 'between', {number})", "FLUSH BINARY LOGS")
    first.wait_synced()
    first.close(kill=True)
    shutil.rmtree(tmp_path / "first")

    # The second host dies while it reads them, and before it has a list of its own; the third has nothing of either.
    for point in ("prepared.read_again", "prepared.restored"):
        dying = SyncProcess(
            subtask, work_directory=tmp_path / "second", faults=f"{point}=kill", fault_log=tmp_path / "struck"
        )
        assert dying.wait_killed()
        dying.close()
    with running_sync(subtask, work_directory=tmp_path / "second") as sync:
        sync.wait_synced()
        assert len(list((tmp_path / "second").rglob("*.xa"))) == 3
    with running_sync(subtask, work_directory=tmp_path / "third") as sync:
        sync.wait_synced()
        upstream.execute(
            f"XA ROLLBACK '{name}', 'rolled back'",
            f"XA COMMIT '{name}', 'of another file'",
            f"XA COMMIT '{name}', 'committed'",
        )
        sync.wait_synced()
    identical(upstream, target, name)
    assert count(target, keyless) == 4 + 3
    assert target.query(f"SELECT COUNT(*) FROM `{subtask.meta_schema}`.`{name}_syncer_prepared`")[0][0] == 0
    assert list((tmp_path / "third").rglob("*.xa")) == []


@pytest.mark.ci_flavor("mysql")
def test_a_commit_whose_rows_are_nowhere_pauses_and_a_rollback_does_not(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    prepare(upstream, f"'{name}', 'r'", f"INSERT INTO {name}.keyed (id) VALUES (1)")
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask, work_directory=tmp_path / "one") as sync:
        sync.wait_synced()
        upstream.execute(f"XA ROLLBACK '{name}', 'r'")
        prepare(upstream, f"'{name}', 'c'", f"INSERT INTO {name}.keyed (id) VALUES (2)")
        upstream.execute("FLUSH BINARY LOGS")
        sync.wait_synced()
    purge_binlogs(upstream)
    # On another host, or the directory was lost.
    elsewhere = RunningSync(subtask, None, tmp_path / "other")
    try:
        elsewhere.wait_synced()
        upstream.execute(f"XA COMMIT '{name}', 'c'")
        error = elsewhere.wait_ended()
    finally:
        elsewhere.stop()
    assert isinstance(error, DMError)
    assert error.name == "xa-prepare-missing"
    assert f"X'{name.encode().hex()}',X'63',1" in error.message
    assert error.position
    # Back where the rows are, it goes on.
    with running_sync(subtask, work_directory=tmp_path / "one") as sync:
        sync.wait_synced()
    identical(upstream, target, name)
    assert count(target, f"{name}.keyed") == 1


def test_what_is_undecided_for_ten_minutes_is_said_with_what_the_source_knows_of_it(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        prepare(
            upstream,
            f"'{name}', 0xff",
            f"INSERT INTO {name}.keyed (id) VALUES (1)",
            first=("SET SESSION timestamp = UNIX_TIMESTAMP() - 700",),
        )
        prepare(upstream, f"'{name}', 'young'", f"INSERT INTO {name}.keyed (id) VALUES (2)")
        sync.wait_synced()
        (said,) = entries(sync.wait_synced()["undecidedXa"])
        assert said["xid"] == f"X'{name.encode().hex()}',X'ff',1"
        assert said["knownToSource"] is True
        assert said["rowEvents"] == 1
        assert 700 <= int(str(said["undecidedSeconds"])) < 1000
        upstream.execute(f"XA COMMIT '{name}', 0xff", f"XA ROLLBACK '{name}', 'young'")
        assert sync.wait_synced()["undecidedXa"] == []
    identical(upstream, target, name)


def test_what_the_source_lost_or_decided_unlogged_is_let_go(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(prepared_watch, "ASK_SECONDS", 0.0)
    name = schema(upstream, target)
    create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
        old = ("SET SESSION timestamp = UNIX_TIMESTAMP() - 700",)
        prepare(upstream, f"'{name}'", f"INSERT INTO {name}.keyed (id) VALUES (1)", first=old)
        prepare(upstream, f"'{name}', 'stays'", f"INSERT INTO {name}.keyed (id) VALUES (2)", first=old)
        wait_until(lambda: len(entries(sync.wait_synced()["undecidedXa"])) == 2, "both to be reported")
        upstream.execute("SET SESSION sql_log_bin = 0", f"XA ROLLBACK '{name}'")
        wait_until(lambda: len(entries(sync.wait_synced()["undecidedXa"])) == 1, "the lost one to be let go")
        wait_until(
            lambda: len(list(tmp_path.rglob("*.xa"))) == 1, "its file to go, with a checkpoint after its PREPARE"
        )
        upstream.execute(f"XA COMMIT '{name}', 'stays'")
        assert sync.wait_synced()["undecidedXa"] == []
    with running_sync(subtask, work_directory=tmp_path) as sync:
        assert sync.wait_synced()["undecidedXa"] == []
    assert list(tmp_path.rglob("*.xa")) == []
    identical(upstream, target, name)


def test_the_source_is_asked_again_and_may_not_know_or_not_tell(
    upstream: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream)
    xid = f"X'{name.encode().hex()}',X'',1"
    place = TransactionEnd.of(Position("u", "bin.000001", 400), Gtid("mariadb", "0", 7))
    held = HeldXa(1, xid, place, 1000, items=3, bytes=99)
    clock = FakeClock()
    let_go: list[HeldXa] = []

    def take(held: HeldXa) -> bool:
        let_go.append(held)
        return True

    watch = PreparedWatch(lambda: [held], clock, read=lambda: read, let_go=take)
    upstream.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)")
    prepare(upstream, f"'{name}'", f"INSERT INTO {name}.t VALUES (1)")
    endpoint = endpoint_of(upstream)
    connection = connect(endpoint)
    try:
        facts = read_facts(connection)
        read = binlog_end(connection, facts)
        watch.look(connection, facts, 1000 + UNDECIDED_SECONDS - 1)
        assert watch.report == []
        watch.look(connection, facts, 1000 + UNDECIDED_SECONDS)
        assert [entry["knownToSource"] for entry in entries(watch.report)] == [True]
        upstream.execute(f"XA ROLLBACK '{name}'")
        clock.now += ASK_SECONDS - 1
        watch.look(connection, facts, 2000)
        assert [entry["undecidedSeconds"] for entry in entries(watch.report)] == [600]
        clock.now += 1
        watch.look(connection, facts, 2000)
        assert watch.report == [
            {
                "xid": xid,
                "undecidedSeconds": 1000,
                "rowEvents": 3,
                "bytes": 99,
                "position": "(bin.000001, 400)",
                "gtid": "0-0-7",
                "knownToSource": False,
                "message": "the source knows it no more: its rows go when the binlog up to now is read and has no"
                " verdict",
            }
        ]
        clock.now += ASK_SECONDS
        watch.look(connection, facts, 2000)
        assert not let_go, "the verdict may lie ahead"
        read = binlog_end(connection, facts)
        watch.look(connection, facts, 2000)
        assert (let_go, watch.report) == ([held], [])
    finally:
        connection.close()


def test_a_source_that_does_not_tell_its_prepared_transactions_says_why(mysql: ThrowawayServer) -> None:
    user = f"low_{time.time_ns():x}"
    mysql.create_user(user, "secret", "REPLICATION CLIENT ON *.*")
    low = pymysql.connect(host=mysql.host, port=mysql.port, user=user, password="secret")
    held = HeldXa(1, "X'61',X'',1", TransactionEnd.of(Position("u", "bin.000001", 400), None), 1000)
    nowhere = Position("u", "bin.000001")
    watch = PreparedWatch(lambda: [held], FakeClock(), read=lambda: nowhere, let_go=lambda _: False)
    try:
        watch.look(low, read_facts(low), 5000)
    finally:
        low.close()
    (said,) = entries(watch.report)
    assert said["knownToSource"] is None
    assert f"GRANT XA_RECOVER_ADMIN ON *.* TO '{user}'@'%'" in str(said["message"])
