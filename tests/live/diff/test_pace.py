"""A comparison waits for a server that has other work, and goes on when it has none."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from dm.clock import SystemClock
from dm.config.pace import PaceConfig
from dm.demo.servers import ThrowawayServer
from dm.pace.governor import Governor
from dm.pace.handle import BulkPace
from dm.pace.shared import SharedPace
from dm.sourcelog.upstream.connection import Connection, connect, threads_running
from dm.spark.session import SparkProvider
from dm.tools.diff.chunk import Chunk, ChunkComparer, wait_for_rest
from dm.tools.diff.planner import DiffPlanner
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import endpoint_of, subtask_for, wait_until
from tests.testbed.tidb import TidbServer
from tests.testbed.unit_thread import UnitThread

pytestmark = pytest.mark.live


def busy_session(server: ThrowawayServer) -> int:
    """The number of the session that sleeps; 0 without one."""
    found = server.query("SELECT id FROM information_schema.processlist WHERE info = 'SELECT SLEEP(600)'")
    return int(found[0][0]) if found else 0


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_it_waits_while_more_threads_run(server: ServerFactory, kind: str) -> None:
    one = server("mysql" if kind == "mysql" else "mariadb")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            one.execute(f"KILL {busy_session(one)}")
            wait_until(lambda: not busy_session(one), "the session ends")

    with closing(connect(endpoint_of(one))) as session, closing(connect(endpoint_of(one))) as other:
        # Whoever has just gone counts for a moment.
        alone = min(threads_running(session) for _ in range(100))
        wait_until(lambda: threads_running(session) == alone, "nobody else is at work")
        assert wait_for_rest([session], alone, sleep) == 0.0
        assert waits == []
        other._execute_command(3, "SELECT SLEEP(600)")  # type: ignore[attr-defined]
        wait_until(lambda: busy_session(one) > 0, "the other session sleeps")
        waited = wait_for_rest([session], alone, sleep)
        assert waited == sum(waits)
        assert len(waits) >= 3  # until then it sleeps; the session that ends it counts for a moment, too


@pytest.mark.tidb
def test_a_tidb_tells_its_running_threads(tidb: TidbServer) -> None:
    with closing(connect(endpoint_of(tidb), role="target")) as session:
        assert threads_running(session) >= 1  # the session that asks


def test_a_comparison_asks_all_servers_before_each_chunk(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(*(f"CREATE TABLE {name}.t{number} (id INT PRIMARY KEY)" for number in range(3)))
    planner = DiffPlanner([subtask_for(upstream, target, name, task=name)], DiffRequest(), threading.Event())
    tables = [each.compared for each in planner.plan() if each.compared is not None]
    chunks = tuple(Chunk(number, 0, "TRUE") for number in range(len(tables)))
    asked: list[tuple[int, ...]] = []

    def ask(sessions: Iterable[Connection], most: int) -> None:
        ports = sorted(int(session.port) for session in sessions)
        asked.append((most, *ports))

    monkeypatch.setattr("dm.tools.diff.chunk.wait_for_rest", ask)
    for most in (0, 7):
        outcomes = ChunkComparer(planner.endpoints, tuple(tables), max_load=most)(chunks)
        assert [outcome.equal for outcome in outcomes] == [True] * 3
    assert asked == [(7, *sorted((upstream.port, target.port)))] * 3


def test_few_rows_that_are_compared_without_spark_keep_the_pace(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY)", f"INSERT INTO {name}.t VALUES (1), (2)")
    shared = SharedPace.begun(tmp_path / "task", PaceConfig(rows_per_second=1), SystemClock())
    assert not shared.take(1_000_000, 0)  # earned again in days
    pace = BulkPace(Governor(shared, lambda _: (), SystemClock()))
    spark = SparkProvider("local[1]", {}, scratch=tmp_path / "spark")
    unit = DiffUnit([subtask_for(upstream, target, name, task=name)], DiffRequest(), spark).keep_pace(pace)
    with UnitThread(unit, "diff"):
        wait_until(lambda: pace.status().get("paceHolds") == "the limit of 1 rows per second", "it waits")
        assert unit.status()["doneChunks"] == 0
    assert not unit.report.over
