"""A TiDB that is killed in phases that use Spark: a load's ends, tables that join, comparisons, replays.

A load's parts: test_outages.py. Phases without Spark: tests/live/syncer/test_tidb_killed_phases.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm import faults
from dm.demo.servers import ThrowawayServer
from dm.diff.options import DiffOptions
from dm.diff.unit import DiffUnit
from dm.errors import DMError
from dm.ident import TableName
from dm.spark import job
from dm.spark.session import SparkProvider
from dm.task.join_requests import add, reload
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import beside, rows
from tests.spark.kill import TRIED_AGAIN
from tests.spark.replaying import Scene
from tests.spark.test_added_tables import grown, with_list
from tests.spark.test_reload_table import TABLES, identical, task_of, writing
from tests.spark.test_replay import backlog
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.join_kills import OF_MAIN, Death
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_kills import TidbKill, demand_retryable
from tests.testbed.unit_thread import UnitThread

pytestmark = [
    pytest.mark.live,
    pytest.mark.spark,
    pytest.mark.tidb,
    pytest.mark.chaos,
    pytest.mark.ci_flavor("mysql"),
    pytest.mark.timeout(900),
]

INDEXED = (
    "CREATE TABLE parent (id INT PRIMARY KEY, a INT, UNIQUE KEY u (a), KEY by_both (a, id))",
    "CREATE TABLE child (id INT PRIMARY KEY, one INT, v INT, KEY k_one (one), KEY by_v (v),"
    " CONSTRAINT c_one FOREIGN KEY (one) REFERENCES parent (id))",
    "CREATE TABLE keyless (v INT, KEY by_v (v))",
    "INSERT INTO parent VALUES (1, 5), (2, NULL), (3, 6)",
    "INSERT INTO child VALUES (1, 1, 1), (2, 2, 1), (3, NULL, NULL)",
    "INSERT INTO keyless VALUES (7), (7), (NULL)",
)
OF_A_LOAD = (
    "loader.indexes_recorded", "loader.indexes_off", "loader.chunk_committed", "loader.index_added", "loader.finished",
)  # fmt: skip


@pytest.mark.parametrize("point", OF_A_LOAD)
def test_a_load_that_makes_tables_and_their_indexes(
    point: str, upstream: ThrowawayServer, own_tidb: TidbServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, own_tidb, *INDEXED, rows=1, defer_indexes=True)
    load.dump()
    kill = TidbKill(own_tidb, point, tmp_path)
    process = load.start("Load", kill.faults, kill.log)
    kill.strike(lambda: process.poll() is not None)
    said = kill.log.with_suffix(".out").read_text()
    # Behind the last point nothing is asked of the target any more.
    assert process.wait() in (TRIED_AGAIN, *([0] if point == "loader.finished" else [])), said
    load.load()
    task = load.subtask().task
    assert rows(own_tidb, f"SELECT target_table FROM `{load.meta_schema}`.`{task}_loader_deferral`") == []
    report = load.report()
    assert report.identical, str(report)


OF_A_RELOAD = (
    "join.given_up", "join.emptying", "join.emptied", "join.loading", "join.near", "join.before_ready", "join.ready",
    "join.called", "join.before_return", "join.returned",
)  # fmt: skip


@pytest.mark.parametrize("point", OF_A_RELOAD)
def test_a_table_that_is_loaded_again(
    point: str, upstream: ThrowawayServer, own_tidb: TidbServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, own_tidb, *TABLES)
    task = task_of(load)
    with task.following() as sync:
        sync.wait_synced()
    reload({"source-1": task.subtask}, TableName(load.schema, "keyed"), None)
    death = Death(point, tmp_path)
    with writing(load):
        death.strikes_target(task, own_tidb)
        death.goes_on(task)
    assert not task.phase()
    with task.following() as sync:
        sync.wait_synced()
    identical(load)


@pytest.mark.parametrize("point", ["join.emptied", "join.before_ready", *OF_MAIN])
def test_tables_that_are_added(
    point: str, upstream: ThrowawayServer, own_tidb: TidbServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, own_tidb, *TABLES)
    task, death = task_of(load, with_list(load, "other")), Death(point, tmp_path)
    with task.following() as sync:
        sync.wait_synced()
    after, added = grown(load, task)
    add(task.subtask, added)
    longer = type(task)(after, task.directory, task.spark)
    with writing(load):
        death.strikes_target(longer, own_tidb)
        death.goes_on(longer)
    assert not task.phase()
    with longer.following() as sync:
        sync.wait_synced()
    identical(load)


@contextmanager
def armed(kill: TidbKill, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The point is armed in this process, and in the workers of a new JVM."""
    spark.close()  # the next one knows where strikes are told
    with monkeypatch.context() as patch:
        patch.setattr(job, "_workers_lost", False)
        patch.setenv("DM_FAULTS_LOG", str(kill.log))
        patch.setenv("DM_FAULTS", kill.faults)
        faults.arm(kill.faults)
        try:
            yield
        finally:
            faults.arm("")
    spark.close()


def test_a_comparison(
    upstream: ThrowawayServer,
    own_tidb: TidbServer,
    full_load: LoadFactory,
    spark: SparkProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends by an error that tells of the target, and goes on behind the chunks that it has found equal."""
    numbers = "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT i, i FROM n"
    load = full_load(upstream, own_tidb, "CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t {numbers}")
    load.dump()
    load.load()
    own_tidb.execute(f"UPDATE `{load.target_schema}`.t SET v = -1 WHERE id = 890")
    kill = TidbKill(own_tidb, "diff.chunk_equal", tmp_path)
    with armed(kill, spark, monkeypatch):
        running = UnitThread(DiffUnit([load.subtask()], DiffOptions(rows=3), spark, directory=tmp_path / "diff"))
        kill.strike(lambda: running.error is not None)
        demand_retryable(running.wait_ended(120))
    again = DiffUnit([load.subtask()], DiffOptions(rows=3, resume=True), spark, directory=tmp_path / "diff")
    with UnitThread(again) as running:
        running.wait_ended(120)
    (table,) = again.report.tables
    assert (table.source_rows, table.target_rows, [row.key for row in table.shown]) == (900, 900, ["id=890"])


OF_A_REPLAY = (
    "replay.decoded", "replay.begun", "replay.inside_part", "replay.part_committed", "replay.removed",
    "replay.before_end", "replay.ended",
)  # fmt: skip


@pytest.mark.parametrize("point", OF_A_REPLAY)
def test_a_replay(
    point: str,
    upstream: ThrowawayServer,
    own_tidb: TidbServer,
    schema: SchemaFactory,
    spark: SparkProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(upstream, own_tidb, schema(upstream), tmp_path)
    with scene.session() as cursor:
        backlog(scene, cursor)
    kill = TidbKill(own_tidb, point, tmp_path)
    ended: list[DMError] = []

    def replay() -> None:
        try:
            scene.replay(spark)
        except DMError as error:
            ended.append(error)

    with armed(kill, spark, monkeypatch), beside(replay) as thread:
        kill.strike(lambda: not thread.is_alive())
    for error in ended:
        assert error.retryable, error
    if scene.record() is not None:
        assert ended, "it was over"
        scene.replay(spark)
    scene.resumed()
    scene.identical()
