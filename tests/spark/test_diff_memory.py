"""Tables of which nearly all rows differ, at once or from a second look on, are compared within a bound, wholly."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.spark.session import SparkProvider
from dm.tools.diff import unit as comparison
from dm.tools.diff.unit import DiffUnit
from dm.tools.diff.versions import ROW_COST
from dm.tools.errands import DiffRequest
from tests.spark.conftest import LoadFactory
from tests.spark.test_diff import execute

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql")]

ROWS, SAME, KEPT, THREADS = 70, 20, 100 * ROW_COST, 2
LONG = 2000
NUMBERS = f"WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"


def compared(unit: DiffUnit) -> DiffUnit:
    unit.run(threading.Event())
    assert unit.status()["over"]
    return unit


def test_few_rows_are_kept_however_many_differ(
    full_load: LoadFactory, spark: SparkProvider, upstream: ThrowawayServer, target: ThrowawayServer, tmp_path: Path
) -> None:
    load = full_load(
        upstream, target, f"CREATE TABLE t (v INT, w VARCHAR({LONG + 5}))",
        f"INSERT INTO t {NUMBERS} SELECT i, REPEAT('w', {LONG}) FROM n",
    )  # fmt: skip
    load.dump()
    load.load()
    target.execute(f"UPDATE `{load.target_schema}`.t SET w = CONCAT(w, 'other') WHERE v > {SAME}")
    options = DiffRequest(kept_bytes=KEPT, threads=THREADS, fix_sql=str(tmp_path / "fix"))
    unit = compared(DiffUnit([load.subtask()], options, spark))
    (table,) = unit.report.tables
    assert (table.source_rows, table.target_rows, table.differing) == (ROWS, ROWS, 2 * (ROWS - SAME))
    assert len(table.shown) == options.shown
    rows, size = unit.most_kept
    assert 0 < rows <= KEPT // (ROW_COST + 2 * LONG) + 1
    assert KEPT <= size <= 2.5 * KEPT  # the last slice that was heard of brought the size above the bound
    execute(target, tmp_path / "fix")
    unit = compared(DiffUnit([load.subtask()], options, spark))
    assert unit.report.verdict == "equal", unit.report.tables[0].to_json()


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (v)"])
def test_few_rows_are_kept_where_they_differ_only_at_a_second_look(
    key: str,
    full_load: LoadFactory,
    spark: SparkProvider,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = full_load(
        upstream, target, f"CREATE TABLE t (v INT, w VARCHAR({LONG + 5}){key})",
        f"INSERT INTO t {NUMBERS} SELECT i, REPEAT('w', {LONG}) FROM n",
    )  # fmt: skip
    load.dump()
    load.load()
    spoil = f"UPDATE `{load.target_schema}`.t SET w = CONCAT(w, 'other') WHERE CHAR_LENGTH(w) = {LONG}"
    target.execute(f"{spoil} AND v = 1")
    monkeypatch.setattr(comparison, "TargetProgress", lambda *_: _Meanwhile(lambda: target.execute(spoil)))
    options = DiffRequest(kept_bytes=KEPT, threads=THREADS, follows=(load.source_id,))
    unit = compared(DiffUnit([load.subtask()], options, spark))
    (table,) = unit.report.tables
    assert (table.source_rows, table.target_rows, table.unsettled) == (ROWS, ROWS, 0)
    assert table.differing == (ROWS if key else 2 * ROWS)
    assert table.done == table.chunks > 1
    _, size = unit.most_kept
    assert KEPT <= size <= 2.5 * KEPT


class _Meanwhile:
    """A target that is past the sources at once, and at which something happens before each look but the first."""

    lag = None

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    def wait_past(self, stop: threading.Event) -> bool:
        self._happens()
        return not stop.is_set()

    def rests(self) -> bool:
        return True

    def close(self) -> None:
        pass
