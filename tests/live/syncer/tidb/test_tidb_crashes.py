"""TiDB as a target: processes that die at drawn points, and a TiDB that is killed; in the end every row is compared.

A seed that failed is in the message; DM_SEED=<seed> draws the same again.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.workload import Writer
from dm.mysql.dialect import Flavor
from tests.testbed.crash_loop import ALTERED_POINTS, SYNC_POINTS, CrashLoop
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.hot_keys import HotKeys
from tests.testbed.loop_result import draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.sync import SyncProcess, subtask_for
from tests.testbed.tidb import TidbServer
from tests.testbed.tidb_kills import TidbKill, demand_tried_again

pytestmark = [pytest.mark.live, pytest.mark.tidb, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("flavor", "lives"),
    [
        ("mysql", 3),
        pytest.param("mysql", 25, marks=pytest.mark.chaos),
        pytest.param("mariadb", 25, marks=pytest.mark.chaos),
    ],
)
def test_rows_are_equal_after_deaths_at_drawn_points(
    park: ServerPark, tidb: TidbServer, schema: SchemaFactory, tmp_path: Path, flavor: Flavor, lives: int
) -> None:
    upstream = park.shared(flavor, "upstream-1")
    seed = draw_seed(flavor, lives)
    name = schema(upstream, tidb)
    with CrashLoop(upstream, tidb, name, tmp_path, seed=seed, relay=False, rate=40) as loop:
        result = loop.round(lives)
    assert result.identical, f"seed {seed}: {result.problem}"
    assert result.batches > 0


@pytest.mark.parametrize(
    ("flavor", "kills"),
    [
        ("mysql", 2),
        pytest.param("mysql", 12, marks=pytest.mark.chaos),
        pytest.param("mariadb", 12, marks=pytest.mark.chaos),
    ],
)
def test_rows_are_equal_after_kills_of_the_target(
    park: ServerPark, own_tidb: TidbServer, schema: SchemaFactory, flavor: Flavor, kills: int
) -> None:
    upstream = park.shared(flavor, "upstream-1")
    seed = draw_seed(flavor, kills)
    chance = random.Random(seed)
    name = schema(upstream)
    scene = HotKeys(name, tidb=True)
    for server in (upstream, own_tidb):
        server.execute(f"DROP DATABASE IF EXISTS {name}", *scene.create())
    subtask = subtask_for(upstream, own_tidb, name, task=name, checkpoint_flush_interval=1)
    undisturbed(subtask, seed)  # which stores where the task begins
    pause = threading.Event()
    with Writer(upstream, scene, seed=seed, rate=40) as writer:
        for number in range(kills):
            process = SyncProcess(subtask)
            try:
                applied(process, 1 + chance.randrange(200))
                if number % 2:
                    writer.alter()
                pause.wait(chance.uniform(0, 0.5))
                own_tidb.kill()
                demand_tried_again(process, f"seed {seed}")
            finally:
                process.close(kill=True)
                if not own_tidb.running:
                    own_tidb.start()
        writer.pause()
        undisturbed(subtask, seed)
        report = compare(pair_tables([upstream], [name]), own_tidb)
        assert report.identical, f"seed {seed}: {report}"


@pytest.mark.chaos
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_rows_are_equal_after_a_kill_of_the_target_at_every_point(
    park: ServerPark, own_tidb: TidbServer, schema: SchemaFactory, flavor: Flavor, tmp_path: Path
) -> None:
    upstream = park.shared(flavor, "upstream-1")
    seed = draw_seed(flavor, 0)
    name = schema(upstream)
    scene = HotKeys(name, tidb=True)
    for server in (upstream, own_tidb):
        server.execute(f"DROP DATABASE IF EXISTS {name}", *scene.create())
    subtask = subtask_for(upstream, own_tidb, name, task=name, checkpoint_flush_interval=1)
    undisturbed(subtask, seed)
    with Writer(upstream, scene, seed=seed, rate=40) as writer:
        for point in SYNC_POINTS:
            kill = TidbKill(own_tidb, point, tmp_path)
            process = SyncProcess(subtask, faults=kill.faults, fault_log=kill.log)
            try:
                if point in ALTERED_POINTS:
                    writer.alter()
                kill.strike_process(process)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
            finally:
                process.close(kill=True)
        writer.pause()
        undisturbed(subtask, seed)
        report = compare(pair_tables([upstream], [name]), own_tidb)
        assert report.identical, f"seed {seed}: {report}"


def undisturbed(subtask: SubtaskConfig, seed: int) -> None:
    """A life that nobody disturbs."""
    last = SyncProcess(subtask)
    try:
        last.wait_synced(180)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        last.close()


def applied(process: SyncProcess, rows: int) -> None:
    """Wait until the process has applied so many rows."""
    while (status := process.status()) is not None:
        total = status.get("totalRows")
        if isinstance(total, int) and total >= rows:
            return
    raise AssertionError(f"the sync process ended: {process.errors()[-3000:]}")
