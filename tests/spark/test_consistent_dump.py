"""With consistency `flush` every row is of one moment, whoever writes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyarrow import parquet
from pydantic import SecretStr

from dm import faults
from dm.demo.servers import ThrowawayServer
from dm.dumper.chunk_reader import ChunkReader, shared_marker
from dm.dumper.one_moment import SlotReader, SlotTask
from dm.dumpfiles.dump_files import SLOTS_DIRECTORY, load_plan
from dm.dumpfiles.storage import LocalStorage
from dm.dumpfiles.text_rows import read_all
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import ServerFacts, question_session, read_facts, row_session
from dm.sourcelog.upstream.snapshot import lock_tables
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, endpoint, rows, wait_for
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

ACCOUNTS = (
    "CREATE TABLE accounts (id INT PRIMARY KEY, amount INT)",
    "INSERT INTO accounts VALUES " + ", ".join(f"({number}, 100)" for number in range(200)),
    "CREATE TABLE ledger (amount INT)",
    "INSERT INTO ledger VALUES (20000)",
)


class Payments:
    """Moves money between accounts, and between accounts and the ledger, until the end of the block."""

    def __init__(self, load: FullLoad) -> None:
        self._load = load
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._pay)
        self.count = 0

    def _pay(self) -> None:
        connection = self._load.upstream.connect(autocommit=False, database=self._load.schema)
        with connection, connection.cursor() as cursor:
            while not self._stop.is_set():
                one, other = self.count % 200, (self.count * 37 + 11) % 200
                cursor.execute("UPDATE accounts SET amount = amount - 7 WHERE id = %s", (one,))
                cursor.execute("UPDATE accounts SET amount = amount + 7 WHERE id = %s", (other,))
                cursor.execute("UPDATE accounts SET amount = amount - 1 WHERE id = %s", (one,))
                cursor.execute("UPDATE ledger SET amount = amount + 1")
                connection.commit()
                self.count += 1

    def __enter__(self) -> Payments:
        self._thread.start()
        while self.count == 0:
            self._stop.wait(0.01)
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()


def total(load: FullLoad) -> int:
    query = (
        f"SELECT (SELECT SUM(amount) FROM `{load.target_schema}`.accounts) + (SELECT SUM(amount) FROM `{{}}`.ledger)"
    )
    return int(rows(load.target, query.format(load.target_schema))[0][0])


def test_a_full_only_task_sees_one_moment(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *ACCOUNTS, mode="full", rows=10)
    with Payments(load) as payments:
        plan = load.dump()
        seen = payments.count
    assert seen > 0
    assert plan.consistent
    assert plan.p0 == plan.p1
    assert not (load.directory / SLOTS_DIRECTORY).exists()
    load.load()
    assert total(load) == 40_000
    assert rows(target, f"SELECT COUNT(*) FROM `{load.target_schema}`.accounts") == [(200,)]


def test_duplicates_can_be_errors_then(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *ACCOUNTS, on_duplicate="error", rows=50)
    assert load.dump().consistent
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"USE `{load.target_schema}`",
        ACCOUNTS[0],
        "INSERT INTO accounts VALUES (7, 7)",
    )
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-duplicate"
    mariadb.execute(f"DELETE FROM `{load.target_schema}`.accounts WHERE amount = 7")
    load.load()
    assert load.report().identical


def test_without_one_moment_duplicates_can_not_be_errors(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *ACCOUNTS, on_duplicate="error", consistency="none")
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-error-mode"


def test_a_table_that_changes_before_the_snapshot_starts_the_dump_anew(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *ACCOUNTS, consistency="flush")
    go, log = tmp_path / "go", tmp_path / "log"
    monkeypatch.setenv("DM_FAULTS_LOG", str(log))
    failures: list[DMError] = []

    def run() -> None:
        try:
            load.dump()
        except DMError as error:
            failures.append(error)

    faults.arm(f"dumper.after_p0=hang:{go}")
    thread = threading.Thread(target=run)
    thread.start()
    wait_for(log)
    mariadb.execute(f"ALTER TABLE `{load.schema}`.accounts ADD COLUMN note INT")
    go.touch()
    thread.join()
    faults.arm("")
    assert [error.name for error in failures] == ["dump-table-unstable"]
    assert failures[0].retryable
    before = load_plan(load.storage)
    assert before is not None
    plan = load.dump()
    assert plan.dump_id != before.dump_id
    load.load()
    assert load.report().identical


@pytest.mark.parametrize("consistency", ["lock", "flush"])
def test_without_the_privilege_for_all_the_dumped_tables_are_locked(
    consistency: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    user = f"reader_{consistency}_{upstream.port}"
    admin = ["XA_RECOVER_ADMIN ON *.*"] if upstream.flavor == "mysql" else []
    upstream.create_user(user, "p", "SELECT, LOCK TABLES, REPLICATION CLIENT ON *.*", *admin)
    source = endpoint(upstream).model_copy(update={"user": user, "password": SecretStr("p")})
    load = full_load(
        upstream,
        target,
        *ACCOUNTS,
        "CREATE TABLE without_snapshots (id INT PRIMARY KEY) ENGINE = MyISAM",
        "INSERT INTO without_snapshots VALUES (1), (2)",
        mode="dump",
        rows=10,
        consistency=consistency,
        source=source,
    )
    before = counted(upstream)
    with Payments(load) as payments:
        plan = load.dump()
        seen = payments.count
    assert seen > 0
    assert plan.consistent
    assert plan.p0 == plan.p1
    assert counted(upstream) - before == 2, "all tables for the snapshots, one until everything is read"
    upstream.execute(f"INSERT INTO `{load.schema}`.without_snapshots VALUES (3)")  # no lock is left behind
    assert sum(amounts(load, "accounts")) + sum(amounts(load, "ledger")) == 40_000


def test_a_lost_session_gets_no_second_snapshot(mariadb: ThrowawayServer, tmp_path: Path) -> None:
    reader = ChunkReader(endpoint(mariadb), server_facts(mariadb), LocalStorage(tmp_path), "dump")
    shared_marker(tmp_path, "dump").touch()
    meeting = tmp_path / SLOTS_DIRECTORY
    meeting.mkdir()
    for name in ("invited-0", "invited-1", "locked"):
        (meeting / name).touch()
    slots = SlotReader(reader, meeting)
    assert slots(SlotTask(0, ())) == ()
    assert slots(SlotTask(1, ())) == ()
    assert slots(SlotTask(2, ())) == (), "it came too late for the moment"
    assert not (meeting / "open-2").exists()
    with pytest.raises(DMError) as caught:
        slots(SlotTask(0, ()))
    assert caught.value.name == "dump-snapshot-lost"
    assert caught.value.retryable


@pytest.mark.chaos
def test_a_session_that_no_core_is_left_for_is_not_waited_for(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, tmp_path: Path
) -> None:
    spark.close()  # a process has one session at a time; the next test that needs it starts it again
    narrow = SparkProvider("local[1]", {"spark.default.parallelism": "3"}, tmp_path / "spark")
    try:
        load = full_load(mariadb, mariadb, *ACCOUNTS, mode="full", rows=10)
        load.spark = narrow
        assert load.dump().consistent
        load.load()
    finally:
        narrow.close()
    assert load.report().identical


def server_facts(server: ThrowawayServer) -> ServerFacts:
    connection = question_session(endpoint(server))
    try:
        return read_facts(connection)
    finally:
        connection.close()


def test_locks_of_tables_without_snapshots_last_until_all_is_read(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends the session that holds them ends the dump."""
    load = full_load(
        mariadb, mariadb, "CREATE TABLE bare (v INT) ENGINE = MyISAM", "INSERT INTO bare VALUES (1)", mode="dump"
    )
    held = threading.Event()

    def lock_and_lose(keeper: Connection, tables: Sequence[TableName]) -> None:
        lock_tables(keeper, tables)
        mariadb.execute(f"KILL {fetch(keeper, 'SELECT CONNECTION_ID()')[0][0]}")
        held.set()

    monkeypatch.setattr("dm.dumper.one_moment.lock_tables", lock_and_lose)
    with pytest.raises(DMError) as caught:
        load.dump()
    monkeypatch.undo()
    assert held.is_set()
    assert caught.value.name == "connection-lost"
    assert load.dump().finished


def test_sessions_of_a_dump_see_only_what_is_committed_and_may_be_silent_for_days(
    server: ServerFactory, flavor: Flavor
) -> None:
    isolation = "transaction_isolation" if flavor == "mysql" else "tx_isolation"
    started = server(flavor, transaction_isolation="READ-UNCOMMITTED", wait_timeout=5)
    connection = row_session(endpoint(started))
    try:
        found = read_all(connection, f"SELECT @@{isolation}, @@wait_timeout > 1000000")
    finally:
        connection.close()
    assert found == [(b"REPEATABLE-READ", b"1")]


def amounts(load: FullLoad, table: str) -> list[int]:
    files = load.directory.glob(f"{load.schema}.{table}.*.parquet")
    return [int(value) for file in files for value in parquet.read_table(file)["amount"].to_pylist()]


def counted(server: ThrowawayServer) -> int:
    return int(rows(server, "SHOW GLOBAL STATUS LIKE 'Com_lock_tables'")[0][1])


@pytest.mark.parametrize("consistency", ["none", "flush"])
def test_a_table_that_can_not_be_read_is_told_in_the_servers_words(
    upstream: ThrowawayServer, full_load: LoadFactory, consistency: str
) -> None:
    load = full_load(
        upstream,
        upstream,
        "CREATE TABLE gone (id INT PRIMARY KEY)",
        "INSERT INTO gone VALUES (1)",
        "ALTER TABLE gone DISCARD TABLESPACE",
        consistency=consistency,
    )
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-table-unstable"
    assert "1814: Tablespace" in caught.value.cause
