"""How long a task's other tables wait while one is added or loaded again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.task.join_requests import add, reload
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside
from tests.spark.test_added_tables import grown, with_list
from tests.spark.test_reload_table import TABLES, identical, task_of
from tests.testbed.figures import record
from tests.testbed.joining import Task

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos]

ROWS = (
    "WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 200), m AS (SELECT 1 i UNION ALL"
    " SELECT i + 1 FROM m WHERE i < 100)"
)
FILLED = (*TABLES, f"INSERT INTO keyed {ROWS} SELECT n.i * 100 + m.i, REPEAT('x', 20) FROM n, m")
MOST_SECONDS = 5.0  # on a machine that has nothing else to do, as where these tests run


def reloaded(load: FullLoad) -> Task:
    """A task of which a table is to be loaded again."""
    task = task_of(load)
    with task.following() as sync:
        sync.wait_synced()
    reload({"source-1": task.subtask}, TableName(load.schema, "keyed"), None)
    return task


def added(load: FullLoad) -> Task:
    """A task that has got a longer list."""
    task = task_of(load, with_list(load, "other"))
    with task.following() as sync:
        sync.wait_synced()
    after, tables = grown(load, task)
    add(task.subtask, tables)
    return replace(task, subtask=after)


@pytest.mark.parametrize("ask", [reloaded, added])
def test_other_tables_wait_for_seconds_at_most(
    ask: Callable[[FullLoad], Task],
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    full_load: LoadFactory,
) -> None:
    """Twenty rows per second go into another table; each is looked for at the target."""
    load = full_load(upstream, target, *FILLED)
    task = ask(load)
    over, written, most, busy = threading.Event(), dict[int, float](), 0.0, os.getloadavg()[0]

    def write() -> None:
        while not over.wait(0.05):
            number = 100 + len(written)
            upstream.execute(f"INSERT INTO `{load.schema}`.other VALUES ({number}, 0)")
            written[number] = time.monotonic()

    with task.following() as sync, beside(write):
        try:
            with task.joining():
                while task.phase():
                    over.wait(0.1)
                    there = int(target.query(f"SELECT MAX(id) FROM `{load.target_schema}`.other")[0][0])
                    missing = [at for number, at in list(written.items()) if number > there]
                    most = max([most, *(time.monotonic() - at for at in missing)])
        finally:
            over.set()
        sync.wait_synced()
    identical(load)
    figures = {"rows loaded": 20_000, "others wait at most, s": round(most, 2), "load before": round(busy, 2)}
    record(f"joining.lag.{ask.__name__}.{upstream.flavor}", figures)
    assert most <= MOST_SECONDS
