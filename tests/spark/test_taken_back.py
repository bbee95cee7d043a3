"""With `dump-files: auto` a table that changes while it is copied without files is taken back and read again."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dm import faults
from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.dump_files import DumpPlan, load_plan
from dm.errors import DMError
from dm.spark import job
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, follow, rows
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.spark]

TABLES = (
    "CREATE TABLE altered (id INT PRIMARY KEY, v VARCHAR(3), KEY (v))",
    "INSERT INTO altered VALUES (1, 'a'), (2, 'b')",
    "CREATE TABLE kept (id INT PRIMARY KEY, v INT, KEY (v))",
    "INSERT INTO kept VALUES (1, 1), (2, 2)",
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO keyless VALUES (1), (1)",
)
AUTO: dict[str, Any] = {"dump_files": "auto", "clean_dump_file": True}
POINTS = ("dumper.tables_given_up", "loader.table_dropped", "loader.table_forgotten")


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    faults.arm("")


def cut_short(load: FullLoad, monkeypatch: pytest.MonkeyPatch, point: str = "dumper.before_p1") -> None:
    """All chunks are at the target, and the dump is not at its end."""
    monkeypatch.setattr(job, "_workers_lost", False)
    faults.arm(f"{point}=error")
    with pytest.raises(faults.FaultError):
        load.dump()


def change(load: FullLoad, *statements: str) -> None:
    load.upstream.execute(f"USE `{load.schema}`", *statements)


def forms(plan: DumpPlan) -> dict[str, str]:
    return {table.name.table: table.form for table in plan.tables}


def arrived(load: FullLoad) -> None:
    """The copy is loaded, the syncer follows it, and both sides are the same."""
    load.load()
    follow(load)


def chunks(load: FullLoad) -> list[tuple[object, ...]]:
    """Table, chunk and time of each chunk that is at the target."""
    table = f"`{load.meta_schema}`.`{load.subtask().task}_loader_checkpoint`"
    return rows(load.target, f"SELECT cp_table, chunk, epoch FROM {table} WHERE cp_schema <> '' ORDER BY 1, 2")


@pytest.mark.ci_flavor("mysql")
def test_tables_that_are_altered_renamed_and_dropped_are_read_again(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = [f"CREATE TABLE {name} LIKE altered" for name in ("renamed", "dropped", "unkeyed")]
    load = full_load(upstream, target, *TABLES, *more, **AUTO, defer_indexes=True)
    change(load, "INSERT INTO renamed SELECT * FROM altered", "INSERT INTO dropped SELECT * FROM altered")
    cut_short(load, monkeypatch)
    before = [chunk for chunk in chunks(load) if chunk[0] == "kept"]
    change(
        load,
        "ALTER TABLE altered MODIFY v VARCHAR(9), ADD w INT",
        "UPDATE altered SET v = 'too long', w = 1",
        "RENAME TABLE renamed TO found",
        "DROP TABLE dropped",
        "ALTER TABLE unkeyed DROP PRIMARY KEY",
        "INSERT INTO unkeyed VALUES (1, 'a'), (1, 'a')",
        "UPDATE kept SET v = 7 WHERE id = 1",
    )
    plan = load.dump()
    again = dict.fromkeys(("altered", "found", "keyless", "unkeyed"), "parquet")
    assert forms(plan) == {"kept": "stream", **again}
    assert chunks(load) == before, "what did not change is not written again, what did is gone"
    tables = {name for (name,) in rows(load.target, f"SHOW TABLES FROM `{load.target_schema}`")}
    assert tables == {"kept"}
    arrived(load)


@pytest.mark.ci_flavor("mysql")
def test_a_dump_goes_on_at_a_host_that_has_nothing_of_it(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(upstream, target, *TABLES, **AUTO)
    cut_short(load, monkeypatch)
    assert {table for table, *_ in chunks(load)} == {"altered", "kept"}
    shutil.rmtree(load.directory)
    change(load, "DELETE FROM kept WHERE id = 1", "INSERT INTO keyless VALUES (2)", "DELETE FROM altered")
    load.dump()
    arrived(load)


def test_rows_that_came_with_an_alter_and_that_the_target_refuses_are_read_again(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, rows=1, threads=1, **AUTO)
    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS", "loader.chunk_inserted=error@2")
    with pytest.raises(DMError):
        load.dump()
    monkeypatch.delenv("DM_FAULTS")
    change(load, "ALTER TABLE altered MODIFY v VARCHAR(9)", "UPDATE altered SET v = 'too long'")
    assert forms(load.dump())["altered"] == "parquet"
    arrived(load)


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_ends_while_it_takes_back_is_followed_by_one_that_goes_on(
    point: str, mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, **AUTO, defer_indexes=True)
    cut_short(load, monkeypatch)
    change(load, "ALTER TABLE altered DROP PRIMARY KEY, ADD w INT", "INSERT INTO altered VALUES (2, 'b', 1)")
    cut_short(load, monkeypatch, point)
    assert forms(load.dump()) == {"altered": "parquet", "kept": "stream", "keyless": "parquet"}
    load.load()
    assert load.report().identical


@pytest.mark.chaos
@pytest.mark.timeout(900)  # JVMs start
@pytest.mark.parametrize("point", [*POINTS, "loader.tables_announced", "loader.tables_made"])
def test_a_dump_killed_while_tables_are_made_or_taken_back_loses_and_doubles_nothing(
    point: str,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    full_load: LoadFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = full_load(upstream, target, *TABLES, rows=1, **AUTO, defer_indexes=True)
    if point in POINTS:
        cut_short(load, monkeypatch)
        change(load, "ALTER TABLE altered ADD w INT", "INSERT INTO altered VALUES (3, 'c', 1)")
    process = load.start("Dump", f"{point}=kill", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    if point not in POINTS:
        change(load, "INSERT INTO altered VALUES (3, 'c')")
    assert forms(load.dump())["kept"] == "stream"
    arrived(load)


def test_a_table_of_a_person_is_loaded_from_files_and_kept(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, **AUTO)
    mariadb.execute(
        f"CREATE DATABASE `{load.target_schema}`",
        f"CREATE TABLE `{load.target_schema}`.altered (id INT PRIMARY KEY, v VARCHAR(3), own INT DEFAULT 5)",
        f"INSERT INTO `{load.target_schema}`.altered VALUES (99, 'x', 6)",
    )
    cut_short(load, monkeypatch)
    change(load, "ALTER TABLE altered ADD KEY twice (v)")
    assert forms(load.dump()) == {"altered": "parquet", "kept": "stream", "keyless": "parquet"}
    load.load()
    found = rows(mariadb, f"SELECT * FROM `{load.target_schema}`.altered ORDER BY id")
    assert found == [(1, "a", 5), (2, "b", 5), (99, "x", 6)]


@pytest.mark.parametrize("changed", [{"where": "v IS NOT NULL"}, {"dump_format": "sql"}], ids=str)
def test_a_dump_that_has_to_begin_anew_does_so(
    changed: dict[str, str], mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, **AUTO)
    cut_short(load, monkeypatch)
    before = load_plan(load.storage)
    load.settings |= changed
    plan = load.dump()
    assert before is not None
    assert plan.dump_id != before.dump_id
    keyless = changed.get("dump_format", "parquet")
    keyed = "sql" if keyless == "sql" else "stream"
    assert forms(plan) == {"altered": keyed, "kept": keyed, "keyless": keyless}
    load.load()
    assert load.report().identical


@pytest.mark.parametrize("settings", [{"mode": "full"}, {"clean_dump_file": False}], ids=str)
def test_where_files_are_wanted_all_is_in_files(
    settings: dict[str, object], mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, **(AUTO | settings))
    assert set(forms(load.dump()).values()) == {"parquet"}
    load.load()
    assert load.report().identical


@pytest.mark.tidb
def test_a_tidb_is_loaded_from_files(mysql: ThrowawayServer, tidb: TidbServer, full_load: LoadFactory) -> None:
    load = full_load(mysql, tidb, *TABLES, **AUTO)
    assert set(forms(load.dump()).values()) == {"parquet"}
    load.load()
    assert load.report(structures=False).identical
