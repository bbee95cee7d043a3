"""A load that wakes after another one took over changes nothing at the target, and says that it was fenced.

Each process of it stands still at some point, as on a host that is frozen. The other one is of the same dump, as after
a dump in object storage, or of a dump that begins anew, as where the files were on the frozen host. All that the frozen
one has under way at the target then comes late: rows of a part, tables, indexes that it takes off or adds, its last
words.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, rows, wait_for
from tests.testbed.frozen import frozen

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mariadb")]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v INT, KEY k (v))",
    "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
    "CREATE TABLE keyless (v INT, KEY k (v))",
    "INSERT INTO keyless VALUES (1), (1)",
)


@contextmanager
def standing_still(load: FullLoad, unit: str, point: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A unit in another process, at a point; it goes on when the block has ended."""
    gate, log = directory / "gate", directory / "strikes"
    process = load.start(unit, f"{point}=hang:{gate}", log)
    wait_for(log, process)
    with frozen(process.pid):
        gate.touch()
        yield process


def fenced(process: subprocess.Popen[str], directory: Path) -> None:
    """It ends with the error that is not tried again."""
    assert process.wait() == 1
    assert "a newer run of the load" in (directory / "strikes.out").read_text()


def is_whole(load: FullLoad) -> None:
    """All rows are there once, with the tables' indexes."""
    report = load.report()
    assert report.identical, str(report)


CHAOS = pytest.mark.chaos
POINTS = (
    pytest.param("loader.tables_announced", marks=CHAOS),
    pytest.param("loader.indexes_recorded", marks=CHAOS),
    pytest.param("loader.indexes_off", marks=CHAOS),
    pytest.param("loader.tables_made", marks=CHAOS),
    "loader.chunk_inserted",
    pytest.param("loader.chunk_committed", marks=CHAOS),
    pytest.param("loader.index_added", marks=CHAOS),
)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("dump", ["same", pytest.param("new", marks=CHAOS)])
def test_a_load_that_wakes_late_changes_nothing(
    point: str, dump: str, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, rows=1, defer_indexes=True)
    load.dump()
    other = load if dump == "same" else replace(load, directory=tmp_path / "of the other host")
    with standing_still(load, "Load", point, tmp_path) as late:
        if dump == "new":
            mariadb.execute(f"DELETE FROM `{load.schema}`.keyed WHERE id < 3", f"DELETE FROM `{load.schema}`.keyless")
            other.dump()
        other.load()
        is_whole(load)
        # What the next unit, and people, have done since; a table that is taken back would lack it.
        mariadb.execute(f"INSERT INTO `{load.target_schema}`.keyed VALUES (99, 99)")
    fenced(late, tmp_path)
    assert rows(mariadb, f"SELECT id FROM `{load.target_schema}`.keyed WHERE id = 99") == [(99,)]
    mariadb.execute(f"DELETE FROM `{load.target_schema}`.keyed WHERE id = 99")
    is_whole(load)
    assert len(rows(mariadb, f"SHOW INDEX FROM `{load.target_schema}`.keyed")) == 2
    assert len(rows(mariadb, f"SHOW INDEX FROM `{load.target_schema}`.keyless")) == 1


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["loader.tables_announced", "loader.indexes_recorded", "loader.chunk_inserted"])
def test_a_copy_without_files_that_wakes_late_changes_nothing(
    point: str, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, rows=1, defer_indexes=True, dump_files="auto", clean_dump_file=True)
    other = replace(load, directory=tmp_path / "of the other host")
    with standing_still(load, "Dump", point, tmp_path) as late:
        mariadb.execute(f"DELETE FROM `{load.schema}`.keyed WHERE id < 3")
        other.dump()
        other.load()
        is_whole(load)
    fenced(late, tmp_path)
    is_whole(load)
