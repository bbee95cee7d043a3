"""What a dump asks of a source with many small tables, and how many sessions read it at a time; counted there."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from dm.demo.servers import ThrowawayServer
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import rows
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


def dump_counted(
    count: int, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> tuple[dict[str, int], int]:
    """Dump so many tables; gives what the server counted meanwhile, and the Spark jobs."""
    load = full_load(upstream, target, *small_tables(count))
    jobs_before, before = jobs(spark), counters(upstream)
    plan = load.dump()
    after = counters(upstream)
    assert len(plan.tables) == count
    assert len(list(load.directory.glob("*.parquet"))) == count
    return {name: after[name] - before[name] for name in COUNTERS}, jobs(spark) - jobs_before


def test_sixty_small_tables_are_one_job_and_a_handful_of_connections(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    told, used = dump_counted(60, mariadb, mariadb, full_load, spark)
    print(told, used)
    assert used == 1  # rows are read; keys so few are walked without one
    assert told["Connections"] <= 16  # of which the test has some itself
    assert told["Com_show_create_table"] == 3 * 60 + 20  # around P0, at the end, and where a keyless one has its point
    assert told["Com_select"] <= 60 + 40 + 60
    assert told["Com_set_option"] < 2 * 60 + 40


@pytest.mark.chaos
@pytest.mark.timeout(1200)
def test_a_thousand_small_tables_cost_what_a_thousand_queries_cost(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    told, used = dump_counted(1000, upstream, target, full_load, spark)
    print(told, used)
    assert used == 2
    assert told["Connections"] <= 60  # 14 items of up to 128 tables
    assert told["Com_show_create_table"] == 3 * 1000 + 334


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
