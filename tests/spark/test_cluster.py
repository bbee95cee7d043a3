"""The same job on a standalone cluster of two workers, also when one of them is lost."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dm.accelerator import switch
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.loader.unit import LoadUnit
from dm.spark.job import run_tasks
from dm.spark.session import SparkProvider
from dm.tools.diff.report import TableReport
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside, dump_unit, rows, wait_for
from tests.spark.replaying import Scene
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.standalone import StandaloneCluster

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1800)]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v VARCHAR(20), f FLOAT)",
    "INSERT INTO keyed VALUES " + ", ".join(f"({number}, 'v{number}', {number}.1)" for number in range(200)),
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO keyless VALUES " + ", ".join("(7)" for _ in range(50)),
)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Of two workers, or as many as the test's parameter says."""
    made = StandaloneCluster(tmp_path / "cluster")
    try:
        yield made.start(getattr(request, "param", 2))
    finally:
        made.close()


@pytest.fixture
def remote(cluster: StandaloneCluster, spark: SparkProvider, tmp_path: Path) -> Iterator[SparkProvider]:
    spark.close()  # a process has one session at a time; the next test that needs the other one starts it again
    conf = {
        **cluster.settings,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.DM_FAULTS_LOG": str(tmp_path / "struck"),
    }
    provider = SparkProvider(cluster.url, conf, tmp_path / "spark", python=sys.executable)
    yield provider
    provider.close()


def test_checksums_are_those_of_one_machine_and_the_code_comes_with_the_job(
    flavor: str,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    full_load: LoadFactory,
    spark: SparkProvider,
    remote: SparkProvider,
) -> None:
    places: list[tuple[bool, str]] = []

    def where(_item: int) -> tuple[bool, str]:
        import dm.dumper.chunk_group
        from dm.accelerator import switch

        return ".zip" in str(dm.dumper.chunk_group.__file__), switch.state()

    assert run_tasks(remote.context(), where, range(4), threading.Event(), places.append, "where")
    assert places == [(True, switch.state())] * 4
    load = full_load(upstream, target, *TABLES, rows=20)
    load.spark = remote
    load.dump()
    load.load()
    assert load.report().identical
    query = "CHECKSUM TABLE `{0}`.keyed, `{0}`.keyless"
    there = [row[1] for row in rows(target, query.format(load.target_schema))]
    remote.close()
    here = replace(load, spark=spark, directory=load.directory.with_name("here"), task="here")
    target.execute(f"DROP DATABASE `{load.target_schema}`")
    here.dump()
    here.load()
    assert [row[1] for row in rows(target, query.format(load.target_schema))] == there


def lose_a_worker_at(
    fault: str, run: Callable[[], object], cluster: StandaloneCluster, tmp_path: Path, patch: pytest.MonkeyPatch
) -> None:
    """Run, and SIGKILL the worker on which the fault point is reached first; the other one goes on."""
    go = tmp_path / "go"
    patch.setenv("DM_FAULTS", f"{fault}=hang:{go}")
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    try:
        line = wait_for(tmp_path / "struck").splitlines()[0]
        cluster.kill_host(cluster.worker_of(int(line.split()[-1])))
    finally:
        go.touch()
        thread.join()
    # Spark's own retries do it, and where they are not enough, the next run.
    if failures:
        assert isinstance(failures[0], DMError), failures
        assert failures[0].retryable, failures
        run()


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(
    ("unit", "fault"),
    [("dump", "dumper.chunk_written"), ("load", "loader.chunk_inserted"), ("load", "loader.chunk_committed")],
)
def test_a_worker_that_is_killed_costs_what_it_had_under_way(
    unit: str,
    fault: str,
    mariadb: ThrowawayServer,
    full_load: LoadFactory,
    remote: SparkProvider,
    cluster: StandaloneCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load: FullLoad = full_load(mariadb, mariadb, *TABLES, rows=20)
    load.spark = remote
    if unit == "dump":
        lose_a_worker_at(fault, load.dump, cluster, tmp_path, monkeypatch)
        load.load()
    else:
        load.dump()
        lose_a_worker_at(fault, load.load, cluster, tmp_path, monkeypatch)
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("cluster", [0], indirect=True)
def test_a_job_that_no_executor_takes_says_so_until_one_does(
    mariadb: ThrowawayServer,
    full_load: LoadFactory,
    remote: SparkProvider,
    cluster: StandaloneCluster,
) -> None:
    load: FullLoad = full_load(mariadb, mariadb, *TABLES)
    load.spark = remote
    units = (
        dump_unit(load.subtask(), load.storage, remote, load.hold),
        LoadUnit(load.subtask(), load.storage, remote),
    )
    for unit in units:
        stop = threading.Event()
        with beside(partial(unit.run, stop)) as running, ExitStack() as failed:
            failed.callback(stop.set)  # else nobody would ever end the run
            while not unit.status()["waiting"]:
                assert running.is_alive(), "the work was done without anybody to do it"
                running.join(0.05)
            said = str(unit.status()["waiting"])
            assert said.startswith(f"{cluster.url} has no free executor: no task has run since "), said
            cluster.add_worker()
            failed.pop_all()
        assert unit.status()["waiting"] == ""
        cluster.kill_host(cluster.workers[0])
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_one_core_is_enough_for_a_dump_of_one_moment(
    mariadb: ThrowawayServer, full_load: LoadFactory, remote: SparkProvider
) -> None:
    load: FullLoad = full_load(mariadb, mariadb, *TABLES, rows=20, mode="full")
    load.spark = remote
    assert load.dump().consistent
    load.load()
    report = load.report()
    assert report.identical, str(report)


def test_a_dump_directory_that_workers_do_not_see_is_named(
    mariadb: ThrowawayServer,
    full_load: LoadFactory,
    remote: SparkProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = full_load(mariadb, mariadb, *TABLES)
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path / "own")
    load.directory = Path("/proc/self/cwd")  # every process has another one there
    load.spark = remote
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-directory-not-shared"


@pytest.mark.ci_flavor("mysql")
def test_executors_compare(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, remote: SparkProvider, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES, rows=20)
    load.spark = remote
    load.dump()
    load.load()

    def compared() -> tuple[str, dict[str, TableReport]]:
        unit = DiffUnit([load.subtask()], DiffRequest(spark_from=0, rows=20), remote, directory=tmp_path / "done")
        unit.run(threading.Event())
        return unit.report.verdict, {table.name.table: table for table in unit.report.tables}

    verdict, tables = compared()
    assert (verdict, tables["keyed"].source_rows, tables["keyless"].target_rows) == ("equal", 200, 50)
    assert tables["keyed"].chunks >= 9
    target.execute(
        f"UPDATE `{load.target_schema}`.keyed SET v = 'V77' WHERE id = 77",
        f"DELETE FROM `{load.target_schema}`.keyless LIMIT 1",
    )
    verdict, tables = compared()
    assert [row.key for row in tables["keyed"].shown] == ["id=77"]
    assert [(row.sources, row.targets) for row in tables["keyless"].shown] == [(1, 0)]


@pytest.mark.ci_flavor("mysql")
def test_executors_replay_a_backlog(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, remote: SparkProvider, tmp_path: Path
) -> None:
    scene = Scene(upstream, target, schema(upstream), tmp_path)
    with scene.session() as cursor:
        with scene.following():
            for statement in TABLES:
                cursor.execute(statement)
        with scene.relayed():
            for number in range(100):
                cursor.execute(f"UPDATE keyed SET v = 'w{number}' WHERE id % 7 = {number % 7}")
                if number % 30 == 0:
                    cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("DELETE FROM keyed WHERE id > 150")
    report = scene.replay(remote)
    assert (report["left"], [*report["tables"]]) == ({}, [f"{scene.there}.keyed"])
    scene.identical()
    scene.resumed()
    scene.identical()
