"""A TiDB that is killed in phases that use Spark: a load's ends, tables that join.

A load's parts: test_outages.py. Phases without Spark: tests/live/syncer/tidb/test_tidb_killed_phases.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.task.join_requests import reload
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import rows
from tests.spark.kill import TRIED_AGAIN
from tests.spark.test_added_tables import add_in_spite_of
from tests.spark.test_reload_table import TABLES, identical, task_of, writing
from tests.testbed.join_kills import OF_MAIN, Death
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_kills import TidbKill

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
    # After the last point nothing is asked of the target any more.
    assert process.wait() in (TRIED_AGAIN, *([0] if point == "loader.finished" else [])), said
    load.load()
    task = load.subtask().task
    assert rows(own_tidb, f"SELECT target_table FROM `{load.meta_schema}`.`{task}_loader_deferral`") == []
    report = load.report()
    assert report.identical, str(report)


# What a MariaDB commits without rest is more than a TiDB on the same processors applies within the time of the test.
PAUSE = 0.2

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
    with writing(load, PAUSE):
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
    death = Death(point, tmp_path)
    add_in_spite_of(load, death, lambda task: death.strikes_target(task, own_tidb), PAUSE)
