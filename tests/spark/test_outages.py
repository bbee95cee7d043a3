"""What a dump or load needs goes away in its middle: JVM, Python worker, server, room on the disk.

Each time the run ends with an error that auto-resume tries again, and the next run does what was left: finished chunk
files are the same files afterwards, rows of finished parts are not written a second time, nothing is there twice.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.dump_files import DumpPlan, load_plan
from dm.errors import DMError
from dm.ident import TableName
from dm.spark import job
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, rows, wait_for
from tests.spark.kill import TRIED_AGAIN
from tests.testbed.fixtures import ServerFactory
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(900)]

KEYED_ROWS, KEYLESS_ROWS = 40, 20
MARK = 1000
TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT)",
    "INSERT INTO keyed VALUES " + ", ".join(f"({number}, {number})" for number in range(KEYED_ROWS)),
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO keyless VALUES " + ", ".join("(7)" for _ in range(KEYLESS_ROWS)),
)

Break = Callable[[int], None]  # given the process id of a worker that waits in the middle of its work


@dataclass
class Outage:
    """A Spark session whose workers can be met in their middle."""

    spark: SparkProvider
    directory: Path
    patch: pytest.MonkeyPatch

    def strikes(self, fault: str, run: Callable[[], object], break_it: Break) -> None:
        """Run, and break something while a worker is at the fault point; the run must end so that it is tried again."""
        log, go = self.directory / "struck", self.directory / "go"
        self.patch.setenv("DM_FAULTS", f"{fault}=hang:{go}@2")
        failures: list[BaseException] = []

        def guarded() -> None:
            try:
                run()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=guarded)
        thread.start()
        try:
            break_it(int(wait_for(log).split()[2]))
        finally:
            go.touch()
            thread.join()
            self.patch.delenv("DM_FAULTS")
        (error,) = failures
        assert isinstance(error, DMError), error
        assert error.retryable, error

    def kill_jvm(self, _worker: int) -> None:
        """SIGKILL."""
        assert self.spark.jvm_pid is not None
        os.kill(self.spark.jvm_pid, signal.SIGKILL)


@pytest.fixture
def outage(spark: SparkProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outage]:
    spark.close()  # the next JVM, and the workers below it, know where strikes are told
    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS_LOG", str(tmp_path / "struck"))
    yield Outage(spark, tmp_path, monkeypatch)
    spark.close()


def kill_worker(worker: int) -> None:
    os.kill(worker, signal.SIGKILL)


def crash(server: PrivateServer) -> Break:
    def kill_and_start(_worker: int) -> None:
        server.kill()
        server.start()

    return kill_and_start


def goes_on(load: FullLoad, before: DumpPlan, kept: dict[Path, int]) -> None:
    """The dump is ended by another run, which leaves finished chunks alone."""
    assert kept
    plan = load.dump()
    assert plan.finished
    assert (plan.dump_id, plan.p0) == (before.dump_id, before.p0)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert not list(load.directory.glob("*.tmp"))


def chunks_of(load: FullLoad) -> dict[Path, int]:
    """Finished chunk files, each with the time when it was written."""
    return {path: path.stat().st_mtime_ns for path in load.directory.glob("*.parquet")}


def planned(load: FullLoad) -> DumpPlan:
    plan = load_plan(load.storage)
    assert plan is not None
    assert not plan.finished
    return plan


@pytest.mark.parametrize("lost", ["jvm", "worker", "source"])
def test_a_dump_goes_on_after_its_finished_chunks(
    lost: str, outage: Outage, server: ServerFactory, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    source = server(target.flavor)
    load = full_load(source, target, *TABLES, rows=5)
    breaks = {"jvm": outage.kill_jvm, "worker": kill_worker, "source": crash(source)}
    outage.strikes("dumper.chunk_written", load.dump, breaks[lost])
    goes_on(load, planned(load), chunks_of(load))
    load.load()
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.parametrize("fault", ["loader.chunk_inserted", "loader.chunk_committed"])
@pytest.mark.parametrize("lost", ["jvm", "worker", "target"])
def test_a_load_writes_no_part_twice(
    lost: str, fault: str, outage: Outage, server: ServerFactory, upstream: ThrowawayServer, full_load: LoadFactory
) -> None:
    target = server(upstream.flavor)
    load = full_load(upstream, target, *TABLES, rows=5)
    load.dump()
    breaks = {"jvm": outage.kill_jvm, "worker": kill_worker, "target": crash(target)}
    outage.strikes(fault, load.load, breaks[lost])
    loaded_once(load, target)


@pytest.mark.tidb
@pytest.mark.parametrize("fault", ["loader.chunk_inserted", "loader.chunk_committed"])
def test_a_load_into_a_tidb_that_is_killed_writes_no_part_twice(
    fault: str, outage: Outage, own_tidb: TidbServer, mysql: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mysql, own_tidb, *TABLES, rows=5)
    load.dump()
    outage.strikes(fault, load.load, crash(own_tidb))
    loaded_once(load, own_tidb)


@pytest.mark.tidb
@pytest.mark.parametrize("fault", ["loader.chunk_inserted", "loader.chunk_committed"])
def test_a_dump_that_writes_into_a_tidb_that_is_killed_goes_on(
    fault: str, outage: Outage, own_tidb: TidbServer, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, own_tidb, *TABLES, rows=5, dump_files="none")
    outage.strikes(fault, load.dump, crash(own_tidb))
    load.dump()
    load.load()
    report = load.report(structures=False)
    assert report.identical, str(report)


def loaded_once(load: FullLoad, target: PrivateServer) -> None:
    """The load is ended by another run, which writes no row that is there."""
    keyed, keyless = TableName(load.target_schema, "keyed"), TableName(load.target_schema, "keyless")
    # Waits for sessions of the broken run that still have rows locked, which then are rolled back or committed.
    target.execute(f"UPDATE {keyed.sql} SET v = v + {MARK}")
    ((marked,),) = rows(target, f"SELECT COUNT(*) FROM {keyed.sql}")
    load.load()
    assert rows(target, f"SELECT COUNT(*), SUM(v >= {MARK}) FROM {keyed.sql}") == [(KEYED_ROWS, marked)]
    assert rows(target, f"SELECT COUNT(*) FROM {keyless.sql}") == [(KEYLESS_ROWS,)]
    target.execute(f"UPDATE {keyed.sql} SET v = v - {MARK} WHERE v >= {MARK}")
    report = load.report()
    assert report.identical, str(report)


LARGE = (
    *TABLES,
    "CREATE TABLE large (id INT PRIMARY KEY, v LONGBLOB)",
    "INSERT INTO large VALUES (1, 'small'), (2, 'small')",
)


def test_a_full_disk_is_named_and_room_lets_the_dump_go_on(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *LARGE, rows=1)
    noise = os.urandom(1 << 20).hex()  # which does not compress
    mariadb.execute(f"INSERT INTO `{load.schema}`.large VALUES (3, x'{noise}')")
    # As a full disk does it, writing fails in the middle of a file; only here for one that grows beyond 512 KiB.
    process = load.start("Dump", "", tmp_path / "log", "prlimit", f"--fsize={1 << 19}")
    assert process.wait() == TRIED_AGAIN, (tmp_path / "log.out").read_text()
    assert "[code=32910" in (tmp_path / "log.out").read_text()
    assert sum(path.stat().st_size for path in load.directory.glob("*.tmp")) < 1000, "what was half written is gone"
    goes_on(load, planned(load), chunks_of(load))
    load.load()
    report = load.report()
    assert report.identical, str(report)
