"""Killed at the very end: the work is done, the word about it is not."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.spark.conftest import LoadFactory

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(900)]  # two JVMs start

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT)",
    "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3)",
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO keyless VALUES (7), (7), (NULL)",
)


@pytest.mark.parametrize(("unit", "point"), [("Dump", "dumper.finished"), ("Load", "loader.finished")])
def test_a_unit_killed_when_it_is_done_does_nothing_twice(
    unit: str, point: str, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, rows=1)
    if unit == "Load":
        load.dump()
    process = load.start(unit, f"{point}=kill", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)
