"""A table without a key, of which nearly all rows differ, is compared within a bound, and all of it is found."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.diff.options import DiffOptions
from dm.diff.unit import DiffUnit
from dm.diff.versions import ROW_COST
from dm.spark.session import SparkProvider
from tests.spark.conftest import LoadFactory
from tests.spark.test_diff import execute

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

ROWS, SAME, KEPT, THREADS = 900, 20, 200, 2
NUMBERS = f"WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"


def compared(unit: DiffUnit) -> DiffUnit:
    unit.run(threading.Event())
    assert unit.status()["over"]
    return unit


def test_few_rows_are_kept_however_many_differ(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> None:
    load = full_load(
        upstream, target, "CREATE TABLE t (v INT, w VARCHAR(10))", f"INSERT INTO t {NUMBERS} SELECT i, 'w' FROM n"
    )
    load.dump()
    load.load()
    target.execute(f"UPDATE `{load.target_schema}`.t SET w = 'other' WHERE v > {SAME}")
    options = DiffOptions(kept_bytes=KEPT * ROW_COST, threads=THREADS, fix_sql=str(tmp_path / "fix"))
    unit = compared(DiffUnit([load.subtask()], options, spark))
    (table,) = unit.report.tables
    assert (table.source_rows, table.target_rows, table.differing) == (ROWS, ROWS, 2 * (ROWS - SAME))
    assert len(table.shown) == options.shown
    rows, differences = unit.most_kept
    assert 0 < rows <= KEPT + 1
    assert KEPT <= differences <= 2 * KEPT + 1  # the last slice that was heard of brought the number above the bound
    execute(target, tmp_path / "fix")
    unit = compared(DiffUnit([load.subtask()], options, spark))
    assert unit.report.verdict == "equal", unit.report.tables[0].to_json()
