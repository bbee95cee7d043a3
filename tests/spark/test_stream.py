"""Keyed tables go from source to target without files, each chunk once, whatever happens on the way."""

from __future__ import annotations

import random
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.dump_files import load_plan
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.spark import job
from dm.tools import lake
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside, follow, rows
from tests.spark.kill import TRIED_AGAIN
from tests.spark.test_fidelity import BOTH, MARIADB_ONLY, MYSQL_ONLY, TYPED_DOCUMENTS

pytestmark = [pytest.mark.live, pytest.mark.spark]

KEYED = ("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
KEYLESS = ("CREATE TABLE keyless (v INT)", "INSERT INTO keyless VALUES (1), (1)")


def records(load: FullLoad) -> list[tuple[object, ...]]:
    """Table, chunk, rows and time of each part that is at the target."""
    table = f"`{load.meta_schema}`.`{load.subtask().task}_loader_checkpoint`"
    return rows(
        load.target,
        f"SELECT cp_table, chunk, row_count, epoch FROM {table} WHERE cp_schema <> '' ORDER BY cp_table, chunk",
    )


@pytest.mark.ci_flavor("mysql")
def test_every_type_arrives_unchanged_without_files(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    only = (*MYSQL_ONLY, *TYPED_DOCUMENTS) if flavor == "mysql" else MARIADB_ONLY
    load = full_load(upstream, target, *BOTH, *only, rows=2, dump_files="none")
    plan = load.dump()
    streamed = {table.name for table in plan.tables if table.form == "stream"}
    assert len(streamed) > len(plan.tables) / 2
    files = [path.name for path in load.directory.glob("*.parquet")]
    assert sorted(files) == sorted(table.file_name(0) for table in plan.tables if table.name not in streamed)
    status = load.load().status()
    assert status["finishedRows"] == status["totalRows"]
    report = load.report()
    assert report.identical, str(report)
    with pytest.raises(DMError) as caught:
        lake.tables(load.directory)
    assert caught.value.name == "lake-dump-streamed"


def test_a_copy_cut_short_goes_on_with_the_chunks_that_are_missing(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=1, threads=1, dump_files="none", on_duplicate="replace")
    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS", "loader.chunk_inserted=error@2")
    with pytest.raises(DMError):
        load.dump()
    monkeypatch.delenv("DM_FAULTS")
    before = records(load)
    assert before
    assert len(before) < 4
    load.dump()
    between = records(load)
    assert [record for record in between if record in before] == before, "what was there is not written again"
    status = load.load().status()
    assert (status["replacedRows"], status["finishedRows"]) == ("0", "6")
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.chaos
@pytest.mark.timeout(900)  # JVMs start
@pytest.mark.parametrize("point", ["loader.chunk_inserted", "loader.chunk_committed", "dumper.before_p1"])
def test_a_copy_killed_anywhere_doubles_nothing_and_loses_nothing(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *KEYED, *KEYLESS, rows=1, dump_files="none", defer_indexes=True)
    process = load.start("Dump", f"{point}=kill@1", tmp_path / "log")
    assert process.wait() in (-signal.SIGKILL, TRIED_AGAIN)  # the latter where it was a worker
    assert (tmp_path / "log").exists()
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)


def test_a_table_that_is_altered_meanwhile_ends_the_copy(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, dump_files="none")
    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS", "loader.chunk_committed=error")
    with pytest.raises(DMError):
        load.dump()
    monkeypatch.delenv("DM_FAULTS")
    mariadb.execute(f"ALTER TABLE `{load.schema}`.keyed ADD COLUMN w INT")
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-streamed-table-changed"
    assert not caught.value.retryable
    plan = load_plan(load.storage)
    assert plan is not None
    assert not plan.finished


def test_rows_that_came_with_an_alter_are_not_blamed_on_the_target(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "CREATE TABLE keyed (id INT PRIMARY KEY, v VARCHAR(3))"
    load = full_load(mariadb, mariadb, table, "INSERT INTO keyed VALUES (1, 'a'), (2, 'b')", rows=1, dump_files="none")
    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS", "loader.chunk_inserted=error")
    with pytest.raises(DMError):
        load.dump()
    monkeypatch.delenv("DM_FAULTS")
    for statement in ("ALTER TABLE keyed MODIFY v VARCHAR(9)", "UPDATE keyed SET v = 'too long'"):
        mariadb.execute(f"USE `{load.schema}`", statement)
    for _ in range(2):  # the way out is another than to resume
        with pytest.raises(DMError) as caught:
            load.dump()
        assert caught.value.name == "dump-streamed-table-changed"
        assert "1406" in caught.value.cause


PEOPLE = range(1, 201)


@dataclass
class Moving:
    """Rows whose keys move between chunks, whose unique values change places, and that come and go."""

    table: str
    dice: random.Random
    slots: dict[int, int] = field(default_factory=lambda: {person: person for person in PEOPLE})
    gone: set[int] = field(default_factory=set)

    def transaction(self) -> list[str]:
        one, other = self.dice.sample(PEOPLE, 2)
        if one in self.gone:
            self.gone.remove(one)
            return [f"INSERT INTO {self.table} VALUES ({one}, {self.slots[one]}, {one})"]
        if one % 5 == 0:
            self.gone.add(one)
            return [f"DELETE FROM {self.table} WHERE person = {one}"]
        if one % 2:
            return [f"UPDATE {self.table} SET id = IF(id > 1000, id - 1000, id + 1000) WHERE person = {one}"]
        self.slots[one], self.slots[other] = self.slots[other], self.slots[one]
        return [
            f"UPDATE {self.table} SET slot = NULL WHERE person = {one}",
            f"UPDATE {self.table} SET slot = {self.slots[other]} WHERE person = {other}",
            f"UPDATE {self.table} SET slot = {self.slots[one]} WHERE person = {one}",
        ]


@pytest.mark.ci_flavor("mysql")
def test_rows_that_move_while_they_are_copied_are_in_the_end_where_the_source_has_them(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    load = full_load(
        upstream,
        target,
        "CREATE TABLE moving (id INT PRIMARY KEY, slot INT, person INT, UNIQUE KEY (slot))",
        f"INSERT INTO moving VALUES {', '.join(f'({person}, {person}, {person})' for person in PEOPLE)}",
        *KEYLESS,
        rows=10,
        dump_files="none",
    )
    moving = Moving(f"`{load.schema}`.moving", random.Random(seed))
    copied = threading.Event()

    def write() -> None:
        connection = upstream.connect(autocommit=True)
        with connection, connection.cursor() as cursor:
            while not copied.is_set():
                extra = f"INSERT INTO `{load.schema}`.keyless VALUES (7)"
                for statement in ("BEGIN", *moving.transaction(), extra, "COMMIT"):
                    cursor.execute(statement)

    with beside(write):
        try:
            load.dump()
            load.load()
        finally:
            copied.set()
    follow(load)
