"""What many small tables cost a dump and a load, and how many sessions read a source at a time; counted there."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.progress.load_parts import SUFFIX
from dm.progress.tables import SubtaskKey
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, rows
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark]

COUNTERS = ("Connections", "Com_show_create_table", "Com_select", "Com_set_option")


def counters(server: ThrowawayServer) -> dict[str, int]:
    return {name: int(rows(server, f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1]) for name in COUNTERS}


def jobs(spark: SparkProvider) -> int:
    """How many jobs the session has ever been given; it numbers them."""
    context = spark.context()
    return int(context._jsc.sc().statusStore().jobsList(None).size())


def small_tables(count: int) -> list[str]:
    """Every third one has no key."""
    return [
        statement
        for number in range(count)
        for statement in (
            f"CREATE TABLE small_{number} (id INT{'' if number % 3 == 0 else ' PRIMARY KEY'}, v VARCHAR(20))",
            f"INSERT INTO small_{number} VALUES (1, 'one'), (2, 'two')",
        )
    ]


def counted(server: ThrowawayServer, spark: SparkProvider, act: Callable[[], object]) -> tuple[dict[str, int], int]:
    """What the server counted meanwhile, and the Spark jobs."""
    jobs_before, before = jobs(spark), counters(server)
    act()
    after = counters(server)
    return {name: after[name] - before[name] for name in COUNTERS}, jobs(spark) - jobs_before


def records(load: FullLoad) -> int:
    """How many parts the target knows of."""
    table = SubtaskKey(load.meta_schema, load.subtask().task, load.source_id).table(SUFFIX).sql
    return int(rows(load.target, f"SELECT COUNT(*) FROM {table} WHERE cp_schema <> ''")[0][0])


@pytest.mark.parametrize("dump_format", ["parquet", "sql"])
@pytest.mark.ci_sample(1)
def test_sixty_small_tables_are_one_job_and_a_handful_of_connections(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider, dump_format: str
) -> None:
    load = full_load(mariadb, mariadb, *small_tables(60), dump_format=dump_format)
    told, used = counted(mariadb, spark, load.dump)
    assert len(list(load.directory.glob("*.000000000.*"))) == 60
    assert used == 1  # rows are read; keys so few are walked without one
    assert told["Connections"] <= 16  # of which the test has some itself
    assert told["Com_show_create_table"] == 3 * 60 + 20  # around P0, at the end, and where a keyless one has its point
    assert told["Com_select"] <= 60 + 40 + 60
    assert told["Com_set_option"] < 2 * 60 + 40
    told, used = counted(mariadb, spark, load.load)
    assert used == 1
    assert told["Connections"] <= 8 + (60 if dump_format == "sql" else 0)  # SQL files set variables of their sessions
    assert load.report().identical


def test_sixty_small_tables_without_files_go_through_a_handful_of_connections(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load = full_load(mariadb, mariadb, *small_tables(60), dump_files="none")
    told, used = counted(mariadb, spark, load.dump)
    assert used == 1
    assert records(load) == 40  # the others have no key
    assert told["Connections"] <= 20  # of both sides
    load.load()
    assert load.report().identical


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_a_thousand_small_tables_cost_what_a_thousand_queries_cost(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load = full_load(upstream, target, *small_tables(1000))
    told, used = counted(upstream, spark, load.dump)
    print(told, used)
    assert used <= 2  # keys are walked by one where they are too many for one item
    assert told["Connections"] <= 60  # 14 items of up to 128 tables
    assert told["Com_show_create_table"] == 3 * 1000 + 334
    told, used = counted(target, spark, load.load)
    print(told, used)
    assert used == 1
    assert told["Connections"] <= 30
    assert records(load) == 1000
    assert load.report().identical


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_ten_thousand_small_tables_are_some_dozens_of_tasks(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load = full_load(mariadb, mariadb, *small_tables(10_000), mode="full")
    _, used = counted(mariadb, spark, load.dump)
    assert used <= 2
    told, used = counted(mariadb, spark, load.load)
    print(told, used)
    assert used == 1
    assert told["Connections"] <= 120  # 79 tasks
    assert records(load) == 10_000
    assert load.report().identical


def test_indexes_of_forty_small_tables_are_added_by_one_job(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    indexed = [f"CREATE INDEX by_value ON small_{number} (v)" for number in range(40)]
    load = full_load(mariadb, mariadb, *small_tables(40), *indexed, mode="full", defer_indexes=True)
    load.dump()
    told, used = counted(mariadb, spark, load.load)
    assert used == 2  # rows, and indexes
    assert told["Connections"] <= 10
    assert load.report().identical


def test_which_of_many_parts_failed_is_told_and_those_before_it_are_not_loaded_again(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *small_tables(4), mode="full", on_duplicate="error")
    load.dump()
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"CREATE TABLE `{load.target_schema}`.small_2 (id INT PRIMARY KEY, v VARCHAR(20))",
        f"INSERT INTO `{load.target_schema}`.small_2 VALUES (2, 'in the way')",
    )
    with pytest.raises(DMError, match="small_2") as caught:
        load.load()
    assert caught.value.name == "load-duplicate"
    assert f"part 0 of chunk 0 of {load.schema}.small_2" in caught.value.cause
    assert records(load) == 2
    mariadb.execute(f"DELETE FROM `{load.target_schema}`.small_2")
    load.load()
    assert records(load) == 4
    assert load.report().identical


def dump_beside(act: Callable[[], None], dump: Callable[[], object]) -> None:
    """Dump in a thread of its own, and act meanwhile."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            dump()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        act()
    finally:
        thread.join()
    assert not failures, failures


def test_a_source_is_read_by_no_more_sessions_than_threads_allow(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    values = ", ".join(f"({number})" for number in range(40))
    tables = [f"t{number}" for number in range(4)]
    load = full_load(
        mariadb,
        mariadb,
        *(f"CREATE TABLE {table} (id INT PRIMARY KEY)" for table in tables),
        *(f"INSERT INTO {table} VALUES {values}" for table in tables),
        *(f"ANALYZE TABLE {table}" for table in tables),
        rows=5,
        threads=1,
    )
    assert spark.context().defaultParallelism > 1
    stop = threading.Event()
    most = 0

    def reading() -> int:
        questions = [str(row[7]) for row in rows(mariadb, "SHOW PROCESSLIST") if row[4] != "Sleep"]
        return len([text for text in questions if text.startswith("SELECT") and f"FROM `{load.schema}`.`t" in text])

    def watch() -> None:
        nonlocal most
        while not stop.is_set():
            most = max(most, reading())

    holder = mariadb.connect()
    with holder.cursor() as cursor:
        # Whoever reads has to wait, so all that would read at the same time are seen together.
        cursor.execute(f"LOCK TABLES {', '.join(f'`{load.schema}`.{table} WRITE' for table in tables)}")

    def act() -> None:
        wait_until(lambda: reading() > 0, "somebody reads")
        tracker = spark.context().statusTracker()

        def active() -> list[int]:
            running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            return [stage.numActiveTasks for stage in running if stage is not None]

        try:
            wait_until(lambda: active() == [1], "Spark counts one task")
            assert reading() == 1
        finally:
            holder.close()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        dump_beside(act, load.dump)
    finally:
        stop.set()
        watcher.join()
        if holder.open:
            holder.close()
    assert most == 1
