"""A part of a load that its pace holds back for longer than the target waits for a packet."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dm.config.pace import PaceConfig
from dm.demo.servers import ThrowawayServer
from dm.loader.unit import LoadUnit
from dm.task.pace import bulk_pace
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import dump_unit

pytestmark = [pytest.mark.live, pytest.mark.spark]

LIMITS = PaceConfig.model_validate(
    {"rows_per_second": 5, "bytes_per_second": 1500}
)  # a row at a time, each two seconds


@pytest.mark.ci_flavor("mysql")
def test_no_statement_is_open_while_a_part_is_held_back(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    rows = "INSERT INTO held SELECT REPEAT('x', 3000) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS some"
    session = {"net_read_timeout": "1"}
    load = full_load(upstream, target, "CREATE TABLE held (v TEXT)", rows, session=session)
    subtask = load.subtask().model_copy(update={"pace": LIMITS})
    dump_unit(subtask, load.storage, load.spark).run(threading.Event())
    ((before,),) = target.query("SELECT @@GLOBAL.local_infile")
    target.execute("SET GLOBAL local_infile = 1")
    unit = LoadUnit(subtask, load.storage, load.spark).keep_pace(bulk_pace([subtask], tmp_path, reads=False))
    try:
        unit.run(threading.Event())
    finally:
        target.execute(f"SET GLOBAL local_infile = {before}")
    assert target.query(f"SELECT COUNT(*), SUM(LENGTH(v)) FROM `{load.target_schema}`.held") == ((3, 9000),)
