"""Every row of a dump is in the target once, whatever happened on the way, and then the syncer is told."""

from __future__ import annotations

import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dm.config.rules import BlockAllowList, TablePattern
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import load_plan
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.unit import LoadUnit
from dm.progress.checkpoint import read_checkpoint
from dm.progress.load_parts import PartKey, begin_run, claim_part, load_is_finished, loaded_parts, take_slot
from dm.progress.tables import SubtaskKey, create_tables, remove_progress
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, endpoint, rows, wait_for
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mariadb")]

KEYED = ("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
KEYLESS = ("CREATE TABLE keyless (v INT)", "INSERT INTO keyless VALUES (1), (1)")


def key_of(load: FullLoad) -> SubtaskKey:
    return SubtaskKey(load.meta_schema, load.subtask().task, load.source_id)


def kill_while_loading(load: FullLoad, log: Path, point: str, passage: int) -> None:
    """Load in another process, and kill it while a worker hangs at the point."""
    process = load.start("Load", f"{point}=hang:{log.parent / 'never'}@{passage}", log)
    wait_for(log, process)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.chaos
def test_a_load_killed_twice_doubles_nothing_and_loses_nothing(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=1)
    load.dump()
    for point in ("loader.chunk_inserted", "loader.chunk_committed"):
        kill_while_loading(load, tmp_path / point, point, 1)
    load.load()
    report = load.report()
    assert report.identical, str(report)


def test_a_lost_worker_is_tried_again(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dm.spark import job

    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS)
    load.dump()
    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS", "loader.chunk_inserted=kill")
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "spark-job-failed"
    assert caught.value.retryable
    load.load()
    assert load.report().identical


def test_the_syncer_gets_points_and_structures(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *KEYED, *KEYLESS)
    plan = load.dump()
    load.load()
    connection = TargetConnection(endpoint(target))
    try:
        found = read_checkpoint(connection, key_of(load))
    finally:
        connection.close()
    assert found is not None
    assert found.position == plan.p0
    # Where nothing was written meanwhile there is nothing to be safe from.
    assert found.bound == (plan.p1 if plan.p1 != plan.p0 else None)
    keyed = found.tables[TableName(load.schema, "keyed")]
    assert keyed.point == plan.p0, "by which the syncer knows that the dump read something under this name"
    assert keyed.schema is not None
    assert [column.name for column in keyed.schema.columns] == ["id", "v"]
    keyless = found.tables[TableName(load.schema, "keyless")]
    assert keyless.point is not None


def test_a_full_only_task_leaves_no_checkpoint_and_is_finished(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, mode="full", clean_dump_file=True)
    load.dump()
    load.load()
    assert not load.directory.exists()
    connection = TargetConnection(endpoint(mariadb))
    try:
        assert load_is_finished(connection, key_of(load))
        create_tables(connection, key_of(load))
        assert read_checkpoint(connection, key_of(load)) is None
    finally:
        connection.close()
    mariadb.execute(f"INSERT INTO `{load.target_schema}`.keyed VALUES (99, 99)")
    unit = load.load()  # once more: nothing happens
    assert unit.status()["progress"] == "100.00 %"
    assert rows(mariadb, f"SELECT COUNT(*) FROM `{load.target_schema}`.keyed") == [(5,)]


def test_a_pause_leaves_a_load_that_goes_on(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=1)
    load.dump()
    unit = LoadUnit(load.subtask(), load.storage, load.spark)

    class StopAfterFirst(threading.Event):
        """Set as soon as a part is loaded."""

        def is_set(self) -> bool:
            return unit.status()["finishedRows"] != "0" or super().is_set()

    unit.run(StopAfterFirst())
    connection = TargetConnection(endpoint(mariadb))
    try:
        assert not load_is_finished(connection, key_of(load))
    finally:
        connection.close()
    load.load()
    assert load.report().identical


def load_in_part(load: FullLoad, **changes: object) -> None:
    """Some of the dump's parts come to the target; then its files are lost, with the host that had them."""
    load.dump()
    unit = LoadUnit(load.subtask().model_copy(update=changes), load.storage, load.spark)

    class StopAfterFirst(threading.Event):
        """Set as soon as a part is loaded."""

        def is_set(self) -> bool:
            return unit.status()["finishedRows"] != "0" or super().is_set()

    unit.run(StopAfterFirst())
    shutil.rmtree(load.directory)


@pytest.mark.ci_sample(2)
@pytest.mark.parametrize(("consistency", "form"), [("none", "parquet"), ("flush", "parquet"), ("none", "sql")])
def test_a_dump_whose_files_are_lost_begins_anew_and_takes_its_rows_back(
    consistency: str, form: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=1, consistency=consistency, dump_format=form)
    load_in_part(load)
    assert rows(mariadb, f"SELECT COUNT(*) FROM `{load.meta_schema}`.`{load.subtask().task}_loader_checkpoint`") > [
        (1,)
    ]
    mariadb.execute(f"DELETE FROM `{load.schema}`.keyed WHERE id < 4", f"DELETE FROM `{load.schema}`.keyless LIMIT 1")
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)


def test_rows_of_a_lost_dump_in_a_table_that_was_there_keep_the_next_dump_from_beginning(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, rows=1)
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"CREATE TABLE `{load.target_schema}`.keyed (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO `{load.target_schema}`.keyed VALUES (99, 99)",
    )
    load_in_part(load)
    with pytest.raises(DMError, match=f"{load.target_schema}.keyed: which of the rows") as caught:
        load.dump()
    assert caught.value.name == "load-other-dump"
    assert load_plan(load.storage) is None
    assert (99, 99) in rows(mariadb, f"SELECT id, v FROM `{load.target_schema}`.keyed")


def test_lists_choose_among_the_tables_of_a_dump(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, mode="load")
    replace(load, settings={"mode": "dump"}).dump()
    lists = BlockAllowList(ignore_tables=(TablePattern(db_name=load.schema, tbl_name="keyless"),))
    config = load.subtask().model_copy(update={"block_allow_list": lists})
    LoadUnit(config, load.storage, load.spark).run(threading.Event())
    assert rows(mariadb, f"SHOW TABLES FROM `{load.target_schema}`") == [("keyed",)]
    assert rows(mariadb, f"SELECT COUNT(*) FROM `{load.target_schema}`.keyed") == [(4,)]


@pytest.mark.parametrize(("mode", "kept"), [("load", True), ("full", False)])
def test_a_task_cleans_away_what_it_has_dumped_itself(
    mode: str, kept: bool, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, mode=mode, clean_dump_file=True)
    load.dump()
    load.load()
    assert load.report().identical
    assert (load.directory / "metadata").exists() is kept


def test_without_a_dump_the_load_says_so(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "dump-missing"


def test_progress_of_another_dump_is_not_built_upon(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS)
    load.dump()
    connection = TargetConnection(endpoint(mariadb))
    try:
        begin_run(connection, key_of(load), "another", threading.Event())
        with pytest.raises(DMError) as caught:
            load.load()
        assert caught.value.name == "load-other-dump"
        remove_progress(connection, key_of(load))
    finally:
        connection.close()
    load.load()
    assert load.report().identical


@pytest.fixture(params=["mariadb", pytest.param("tidb", marks=pytest.mark.tidb)])
def loaded(request: pytest.FixtureRequest) -> PrivateServer:
    """Into what a load writes."""
    server: PrivateServer = request.getfixturevalue(request.param)
    return server


def test_a_session_of_an_older_run_can_not_claim_a_part(
    mariadb: ThrowawayServer, loaded: PrivateServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, loaded, *KEYED)
    part = PartKey(TableName(load.schema, "keyed"), 0, 0, 0)
    older, newer = TargetConnection(endpoint(loaded)), TargetConnection(endpoint(loaded))
    try:
        old = begin_run(older, key_of(load), "d", threading.Event())
        new = begin_run(newer, key_of(load), "d", threading.Event())
        assert new.epoch > old.epoch
        older.begin()
        with pytest.raises(DMError) as caught:
            claim_part(older, old, part, 1, 1, part.table)
        assert caught.value.name == "load-fenced"
        older.rollback()
        newer.begin()
        assert claim_part(newer, new, part, 1, 1, part.table)
        newer.commit()
        newer.begin()
        assert not claim_part(newer, new, part, 1, 1, part.table)
        newer.rollback()
        assert set(loaded_parts(newer, new)) == {part}
    finally:
        older.close()
        newer.close()


def test_a_session_parked_inside_its_transaction_is_ended_by_a_newer_run(
    mariadb: ThrowawayServer, loaded: PrivateServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, loaded, *KEYED)
    part = PartKey(TableName(load.schema, "keyed"), 0, 0, 0)
    parked, newer = TargetConnection(endpoint(loaded)), TargetConnection(endpoint(loaded))
    try:
        old = begin_run(parked, key_of(load), "d", threading.Event())
        take_slot(parked, key_of(load))
        parked.begin()
        assert claim_part(parked, old, part, 1, 1, part.table)
        new = begin_run(newer, key_of(load), "d", threading.Event())
        assert loaded_parts(newer, new) == {}
        with pytest.raises(DMError):
            parked.commit()
        assert loaded_parts(newer, new) == {}
    finally:
        parked.close()
        newer.close()


def test_no_more_sessions_write_than_the_pool_has(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, rows=1, pool_size=1)
    load.dump()
    mariadb.execute(f"CREATE DATABASE `{load.target_schema}`", f"USE `{load.target_schema}`", KEYED[0])

    def writing() -> int:
        return len([row for row in rows(mariadb, "SHOW PROCESSLIST") if "`keyed`" in str(row[7]) and row[4] != "Sleep"])

    def active() -> list[int]:
        tracker = spark.context().statusTracker()
        running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return [stage.numActiveTasks for stage in running if stage is not None]

    holder = mariadb.connect()
    loading = threading.Thread(target=load.load)
    try:
        with holder.cursor() as cursor:
            # Whoever writes has to wait, so all that would write at the same time are seen together.
            cursor.execute(f"LOCK TABLES `{load.target_schema}`.keyed READ")
        loading.start()
        wait_until(lambda: active() == [1] and writing() > 0, "a session writes, and Spark counts one task")
        assert spark.context().defaultParallelism > 1
        assert writing() == 1
    finally:
        holder.close()
        loading.join()
    assert load.report().identical


def test_a_damaged_chunk_file_is_named(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    plan = load.dump()
    path = load.directory / plan.tables[0].file_name(0)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "dump-file-damaged"
    assert path.name in caught.value.message
    assert load_plan(load.storage) == plan


def test_the_status_has_dms_fields(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS)
    plan = load.dump()
    status = load.load().status()
    assert status["progress"] == "100.00 %"
    assert status["finishedBytes"] == status["totalBytes"]
    assert status["finishedRows"] == status["totalRows"] == "6"
    assert status["metaBinlog"] == f"({plan.p0.file}, {plan.p0.offset})"
    assert status["metaBinlogGTID"] == str(plan.p0.gtid_set)
