"""Tables that are loaded beside their task, killed inside dump and load: in the end all is identical."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.task.join_requests import reload
from tests.spark.conftest import LoadFactory
from tests.spark.test_added_tables import add_in_spite_of
from tests.spark.test_reload_table import TABLES, spoiled, task_of, writing
from tests.testbed.join_kills import OF_THE_COPY, Death

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1200)]

# Indexes are taken off, and made again after the rows.
INDEXED = (*TABLES, "ALTER TABLE keyed ADD KEY by_v (v)", "ALTER TABLE keyless ADD KEY by_v (v)")


@pytest.mark.parametrize("point", OF_THE_COPY)
def test_a_reload_survives_a_kill_in_the_copy(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *INDEXED, defer_indexes=True)
    task, death = task_of(load), Death(point, tmp_path)
    with spoiled(load, task):
        for table in ("keyed", "keyless"):
            # Only tables that the load itself makes lose their indexes for the time of it.
            anew = table == "keyless" or "index" in point
            reload({"source-1": task.subtask}, TableName(load.schema, table), None, anew=anew)
            with writing(load):
                death.strikes(task)
                death.goes_on(task)
            assert not task.phase()


@pytest.mark.parametrize("point", OF_THE_COPY)
def test_an_addition_survives_a_kill_in_the_copy(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *INDEXED, defer_indexes=True)
    add_in_spite_of(load, Death(point, tmp_path))
