"""A dump meets its points while the source moves, and goes on after a crash where it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from pydantic import SecretStr

from dm import faults
from dm.demo.servers import ThrowawayServer
from dm.dumper.chunk_reader import report
from dm.dumper.unit import DumpUnit
from dm.dumpfiles.dump_files import DumpPlan, finished_chunk, load_plan, read_footer, save_plan
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import list_tables
from dm.sourcelog.upstream.snapshot import lower_bound
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, endpoint, follow, rows, wait_for
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

KEYED = ("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
KEYLESS = ("CREATE TABLE keyless (v INT)", "INSERT INTO keyless VALUES (1), (1)")


@pytest.fixture(autouse=True)
def disarmed() -> None:
    faults.arm("")


def dump_while(load: FullLoad, tmp_path: Path, act: Callable[[], None], place: str = "dumper.after_p0") -> DumpPlan:
    """Dump, and act between P0 and the first chunk, or at another place."""
    go, log = tmp_path / "go", tmp_path / "struck"
    failure: list[BaseException] = []

    def run() -> None:
        try:
            load.dump()
        except BaseException as error:
            failure.append(error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DM_FAULTS_LOG", str(log))
        faults.arm(f"{place}=hang:{go}")
        thread = threading.Thread(target=run)
        thread.start()
        wait_for(log)
        act()
        go.touch()
        thread.join()
    if failure:
        raise failure[0]
    plan = load_plan(load.storage)
    assert plan is not None
    return plan


def entry(plan: DumpPlan, load: FullLoad, table: str) -> tuple[int, bool]:
    """Generation of the table, and whether it has a point of its own."""
    found = next(dumped for dumped in plan.tables if dumped.name == TableName(load.schema, table))
    return found.generation, found.point is not None


def test_points_enclose_what_was_read(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *KEYED, *KEYLESS, rows=2)
    load.hold.create()
    plan = load.dump()
    assert load.held == [plan.p0.file], "the relay's files from P0 on are needed, and none before"
    load.hold.remove()
    load.hold.create()
    assert (load.held, load.dump(), load.held) == ([""], plan, [plan.p0.file]), "also for a run that finds it done"
    assert plan.p1 is not None
    assert plan.p1.covers(plan.p0)
    assert plan.p0.gtid_set
    keyless = next(table for table in plan.tables if table.name.table == "keyless")
    assert keyless.keyless
    assert keyless.point is not None
    assert keyless.point.covers(plan.p0)
    assert plan.p1.covers(keyless.point)
    keyed = next(table for table in plan.tables if table.name.table == "keyed")
    assert keyed.point is None
    footers = [finished_chunk(load.storage, plan, keyed, chunk) for chunk in range(keyed.chunks)]
    assert [footer.rows for footer in footers if footer is not None] == [2, 2, 0]


def test_rows_that_change_meanwhile_are_read_as_they_are(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS)
    plan = dump_while(load, tmp_path, lambda: mariadb.execute(f"INSERT INTO `{load.schema}`.keyless VALUES (9)"))
    keyless = next(table for table in plan.tables if table.name.table == "keyless")
    footer = finished_chunk(load.storage, plan, keyless, 0)
    assert footer is not None
    assert footer.rows == 3
    assert keyless.point is not None
    # The row that came after P0 is in the file, so the table's own point must cover it.
    assert keyless.point.gtid_set != plan.p0.gtid_set


def test_tables_that_move_are_read_again_from_their_own_point(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(
        upstream,
        target,
        *KEYED,
        *KEYLESS,
        "CREATE TABLE altered (id INT PRIMARY KEY, gone INT)",
        "INSERT INTO altered VALUES (1, 2)",
        "CREATE TABLE dropped (id INT PRIMARY KEY)",
        "CREATE TABLE renamed (id INT PRIMARY KEY)",
        "INSERT INTO renamed VALUES (5)",
        "CREATE TABLE counter (id INT AUTO_INCREMENT PRIMARY KEY)",
    )

    def move() -> None:
        upstream.execute(
            f"USE `{load.schema}`",
            "ALTER TABLE altered DROP COLUMN gone, ADD COLUMN came INT DEFAULT 7",
            "ALTER TABLE keyless ADD COLUMN w INT DEFAULT 8",
            "DROP TABLE dropped",
            "RENAME TABLE renamed TO arrived",
            "CREATE TABLE created (id INT PRIMARY KEY)",
            "INSERT INTO created VALUES (6)",
            "INSERT INTO counter VALUES (NULL)",
        )

    plan = dump_while(load, tmp_path, move)
    assert entry(plan, load, "keyed") == (0, False)
    assert entry(plan, load, "counter") == (0, False)  # its AUTO_INCREMENT is no change of structure
    assert entry(plan, load, "altered") == (1, True)
    assert entry(plan, load, "keyless") == (1, True)
    assert entry(plan, load, "arrived") == (1, True)
    assert entry(plan, load, "created") == (1, True)
    assert {name.table for name in plan.vanished} == {"dropped", "renamed"}
    assert plan.p1 is not None
    for point in plan.vanished.values():
        assert plan.p1.covers(point)
        assert point.gtid_set != plan.p0.gtid_set
    load.load()
    report = load.report()
    assert report.identical, str(report)


def test_without_gtids_the_point_is_taken_under_a_short_global_lock(
    server: ServerFactory, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    upstream = server("mysql", gtid=False)
    load = full_load(upstream, upstream, *KEYED, *KEYLESS)
    status = rows(upstream, "SHOW BINARY LOG STATUS")[0]
    plan = load.dump()
    assert (plan.p0.file, plan.p0.offset) == (status[0], status[1])
    assert not plan.p0.gtid_set
    upstream.execute(f"INSERT INTO `{load.schema}`.keyed VALUES (9, 9)")  # no lock is left behind


def test_a_killed_driver_keeps_the_chunks_that_are_done(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=1)
    process = load.start("Dump", "dumper.chunk_recorded=kill@3", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    before = load_plan(load.storage)
    assert before is not None
    assert not before.finished
    kept = {path: path.stat().st_mtime_ns for path in load.directory.glob("*.parquet")}
    assert len(kept) >= 3
    plan = load.dump()
    assert plan.dump_id == before.dump_id
    assert plan.p0 == before.p0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert not list(load.directory.glob("*.tmp"))
    load.load()
    assert load.report().identical


def test_a_large_chunk_file_has_groups_that_a_cache_holds(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(
        mariadb, mariadb, "CREATE TABLE keyless (v INT)", "INSERT INTO keyless SELECT seq FROM seq_1_to_40000"
    )
    load.dump()
    (file,) = load.directory.glob("*.parquet")
    found = parquet.ParquetFile(file).metadata
    assert [found.row_group(at).num_rows for at in range(found.num_row_groups)] == [16384, 16384, 7232]


def test_what_a_worker_of_a_killed_driver_still_writes_does_not_stay(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    dump_while(load, tmp_path, lambda: report(load.directory, "a_chunk_of_nobody", 1, 1))
    assert not list(load.directory.glob("*.tmp"))


@pytest.mark.parametrize("point", [pytest.param("dumper.after_p0", marks=pytest.mark.chaos), "dumper.before_p1"])
def test_a_driver_killed_between_phases_goes_on(
    point: str, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS)
    process = load.start("Dump", f"{point}=kill", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    before = load_plan(load.storage)
    assert before is not None
    plan = load.dump()
    assert plan.p0 == before.p0
    assert plan.finished


def test_a_pause_leaves_a_dump_that_goes_on(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=1)
    stop = threading.Event()
    unit = DumpUnit(load.subtask(), load.storage, load.spark)

    class StopAfterFirst(threading.Event):
        """Set as soon as a chunk is done."""

        def is_set(self) -> bool:
            return unit.status()["finishedRows"] != 0 or super().is_set()

    unit.run(StopAfterFirst())
    plan = load_plan(load.storage)
    assert plan is not None
    assert not plan.finished
    assert load.dump(stop).finished


def test_prepared_xa_transactions_stop_the_dump(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dm.dumper import lock_free
    from dm.sourcelog.upstream.snapshot import wait_for_no_prepared_xa

    load = full_load(upstream, target, *KEYED)
    monkeypatch.setattr(
        lock_free,
        "wait_for_no_prepared_xa",
        lambda connection, user, stop: wait_for_no_prepared_xa(connection, user, stop, seconds=0.1),
    )
    xid = f"'{load.schema}'"
    upstream.execute(
        f"XA START {xid}", f"INSERT INTO `{load.schema}`.keyed VALUES (8, 8)", f"XA END {xid}", f"XA PREPARE {xid}"
    )
    try:
        with pytest.raises(DMError) as caught:
            load.dump()
    finally:
        upstream.execute(f"XA COMMIT {xid}")
    assert caught.value.name == "dump-xa-prepared"
    assert caught.value.retryable
    load.dump()


def test_a_table_locked_for_long_is_named(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    from dm.sourcelog.upstream import snapshot
    from dm.sourcelog.upstream.facts import question_session, read_facts, row_session

    load = full_load(mariadb, mariadb, *KEYLESS)
    holder = mariadb.connect(autocommit=False)
    where = endpoint(mariadb)
    connection, reader = question_session(where), row_session(where)
    try:
        with holder.cursor() as cursor:
            cursor.execute(f"INSERT INTO `{load.schema}`.keyless VALUES (2)")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(snapshot._locked, "__defaults__", (0.5,))
            with (
                pytest.raises(DMError) as caught,
                snapshot.table_snapshot(
                    connection,
                    reader,
                    read_facts(connection),
                    TableName(load.schema, "keyless"),
                    transactional=True,
                ),
            ):
                raise AssertionError("the lock was given")
    finally:
        holder.close()
        connection.close()
        reader.close()
    assert caught.value.name == "dump-lock-refused"
    assert "keyless" in caught.value.message


def test_a_dump_directory_of_another_task_is_left_alone(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    load.dump()
    load.task = "other"
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-directory-foreign"
    plan = load_plan(load.storage)
    assert plan is not None
    assert plan.task == load.schema


@pytest.mark.chaos
def test_another_server_behind_the_address_starts_the_dump_anew(
    mysql: ThrowawayServer, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mysql, mysql, *KEYED, rows=1)
    process = load.start("Dump", "dumper.before_p1=kill", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    before = load_plan(load.storage)
    assert before is not None
    mariadb.execute(f"CREATE DATABASE `{load.schema}`", f"USE `{load.schema}`", *KEYED)
    try:
        load.upstream = mariadb
        plan = load.dump()
    finally:
        mariadb.execute(f"DROP DATABASE `{load.schema}`")
    assert plan.dump_id != before.dump_id
    assert plan.server_uuid != before.server_uuid


def test_no_password_is_in_any_file_of_the_dump(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS)
    load.dump()
    files = [path for path in load.directory.iterdir() if path.is_file()]
    assert files
    for path in files:
        assert mariadb.password.encode() not in path.read_bytes()


def test_chunk_files_tell_what_they_are(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    plan = load.dump()
    (path,) = load.directory.glob("*.parquet")
    footer = read_footer(load.storage, path.name)
    assert footer is not None
    assert (footer.dump_id, footer.table.table, footer.chunk, footer.rows) == (plan.dump_id, "keyed", 0, 4)


def test_a_table_whose_key_the_target_lacks_is_read_at_a_point_of_its_own(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, rows=1)
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`", f"CREATE TABLE `{load.target_schema}`.keyed (id INT, v INT)"
    )
    plan = load.dump()
    assert plan.tables[0].keyless
    assert plan.tables[0].point is not None
    load.load()
    assert rows(mariadb, f"SELECT COUNT(*), COUNT(DISTINCT id) FROM `{load.target_schema}`.keyed") == [(4, 4)]


@pytest.mark.parametrize("looks", [4, pytest.param(5, marks=pytest.mark.chaos)])
def test_a_table_that_was_there_at_the_start_and_then_no_more_is_told_to_the_syncer(
    looks: int, mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dm.dumper import lock_free, structures

    load = full_load(mariadb, mariadb, *KEYED)
    looked = 0

    def create_and_take(*arguments: Any) -> Position:
        if looked > 2:
            return lower_bound(*arguments)
        mariadb.execute(f"CREATE TABLE `{load.schema}`.brief (id INT)")  # not there when structures were read
        point = lower_bound(*arguments)
        mariadb.execute(f"INSERT INTO `{load.schema}`.brief VALUES (1)", f"ALTER TABLE `{load.schema}`.brief ADD v INT")
        return point

    def look(connection: Connection) -> tuple[TableName, ...]:
        nonlocal looked
        looked += 1
        if looked == looks:  # before its structure is read at all, or before the structures of the end are
            mariadb.execute(f"DROP TABLE `{load.schema}`.brief")
        return list_tables(connection)

    monkeypatch.setattr(lock_free, "lower_bound", create_and_take)
    monkeypatch.setattr(structures, "list_tables", look)
    plan = load.dump()
    assert [name.table for name in plan.vanished] == ["brief"]
    assert not plan.unsettled
    load.load()
    follow(load)


def test_a_name_that_is_used_again_has_nothing_of_its_first_table(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    plan = dump_while(load, tmp_path, lambda: mariadb.execute(f"DROP TABLE `{load.schema}`.keyed"))
    assert not plan.tables
    assert [name.table for name in plan.vanished] == ["keyed"]
    # As if the table had come back before the end.
    save_plan(load.storage, replace(plan, p1=None))
    mariadb.execute(f"USE `{load.schema}`", KEYED[0], "INSERT INTO keyed VALUES (77, 7)")
    plan = load.dump()
    assert not plan.vanished
    (table,) = plan.tables
    assert table.generation == 2
    assert table.point is not None
    load.load()
    assert load.report().identical


def test_a_table_with_history_is_refused_and_not_left_out(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, "CREATE TABLE t (id INT PRIMARY KEY) WITH SYSTEM VERSIONING")
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "structure-not-understood"


def test_rows_of_two_conditions_never_come_together(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, rows=1, where="id > 1")
    first = load.dump()
    load.settings["where"] = "id > 2"
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-directory-foreign"
    assert "`where: id > 1`" in caught.value.message
    save_plan(load.storage, replace(first, p1=None))  # as if it had been stopped at its last chunk
    assert load.dump().dump_id != first.dump_id
    load.load()
    everything = rows(mariadb, f"SELECT id FROM `{load.schema}`.keyed WHERE id > 2 ORDER BY id")
    assert rows(mariadb, f"SELECT id FROM `{load.target_schema}`.keyed ORDER BY id") == everything


@pytest.mark.parametrize("mode", ["all", "full"])
def test_tables_that_the_source_hides_end_no_dump(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, mode: str
) -> None:
    load = full_load(upstream, target, *KEYED, "CREATE TABLE other (id INT PRIMARY KEY)", mode=mode)
    user = f"u{load.schema}"[:16]
    admin = ["XA_RECOVER_ADMIN ON *.*"] if upstream.flavor == "mysql" else []
    upstream.create_user(
        user, "p", "RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"SELECT ON `{load.schema}`.keyed", *admin
    )
    load.settings["source"] = endpoint(upstream).model_copy(update={"user": user, "password": SecretStr("p")})
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-tables-hidden"
    upstream.execute(str(caught.value.details["grant"]))
    assert {table.name.table for table in load.dump().tables} == {"keyed", "other"}


def test_a_privilege_that_is_taken_away_meanwhile_ends_no_dump(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *KEYED)
    user = f"u{load.schema}"[:16]
    admin = ["XA_RECOVER_ADMIN ON *.*"] if upstream.flavor == "mysql" else []
    upstream.create_user(
        user, "p", "RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.*", f"SELECT ON `{load.schema}`.*", *admin
    )
    load.settings["source"] = endpoint(upstream).model_copy(update={"user": user, "password": SecretStr("p")})
    revoke = f"REVOKE SELECT ON `{load.schema}`.* FROM {user}"
    with pytest.raises(DMError) as caught:
        dump_while(load, tmp_path, lambda: upstream.execute(revoke), "dumper.chunk_recorded")
    assert caught.value.name == "dump-tables-hidden"


def test_a_full_dump_of_nothing_is_an_error(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    with pytest.raises(DMError) as caught:
        full_load(upstream, target, mode="full").dump()
    assert caught.value.name == "dump-without-tables"
    assert full_load(upstream, target).dump().tables == (), "with a binlog after it tables may come"


@pytest.mark.parametrize(("table", "name"), [("late", "structure-unknown"), ("keyed", "target-table-missing")])
def test_after_a_full_load_a_table_that_it_did_not_bring_lacks_rows(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, table: str, name: str
) -> None:
    load = full_load(upstream, target, *KEYED)
    load.dump()
    load.load()
    target.execute(f"DROP TABLE IF EXISTS `{load.target_schema}`.`{table}`")
    upstream.execute(
        "SET SESSION sql_log_bin = 0",
        f"CREATE TABLE `{load.schema}`.late (id INT PRIMARY KEY, v INT)",
        "SET SESSION sql_log_bin = 1",
        f"INSERT INTO `{load.schema}`.`{table}` VALUES (9, 9)",
    )
    with pytest.raises(DMError) as caught:
        follow(load)
    assert caught.value.name == name
    assert "the rows that it had before are missing at the target" in caught.value.message
