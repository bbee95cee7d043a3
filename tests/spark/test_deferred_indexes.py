"""Secondary indexes and foreign keys come after the rows, and no table is left without them."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.loader import destinations
from dm.progress.tables import SubtaskKey, remove_progress
from dm.spark import job
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside, endpoint, rows
from tests.spark.kill import TRIED_AGAIN
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark]

# The child's name comes first, so it is made and completed before its parents.
TABLES = (
    "CREATE TABLE parent (id INT AUTO_INCREMENT PRIMARY KEY, a INT, t TEXT, p POINT NOT NULL, UNIQUE KEY u (a),"
    " KEY `odd ``name, (x)` (a, id) COMMENT 'a,\nb', FULLTEXT KEY f1 (t), FULLTEXT KEY f2 (t), SPATIAL KEY s (p))",
    "CREATE TABLE child (id INT PRIMARY KEY, one INT, two INT, g INT AS (one + two) VIRTUAL, KEY k_two (two DESC),"
    " KEY k_g (g), KEY k_one (one), CONSTRAINT c_one FOREIGN KEY (one) REFERENCES parent (id) ON DELETE CASCADE,"
    " CONSTRAINT c_two FOREIGN KEY (two) REFERENCES parent (a))",
    "CREATE TABLE counting (id INT AUTO_INCREMENT, v INT, KEY (v), KEY by_id (id))",
    "CREATE TABLE own (id INT PRIMARY KEY, up INT, KEY k (up), CONSTRAINT c_up FOREIGN KEY (up) REFERENCES own (id))",
    "CREATE TABLE plain (id INT PRIMARY KEY, v INT)",
    "INSERT INTO parent (a, t, p) VALUES (5, 'some words', POINT(1, 2)), (NULL, NULL, POINT(3, 4))",
    "INSERT INTO child (id, one, two) VALUES (1, 1, 5), (2, 2, NULL)",
    "INSERT INTO counting (v) VALUES (1), (1)",
    "INSERT INTO own VALUES (1, 1), (2, 1)",
    "INSERT INTO plain VALUES (1, 1)",
)
POINTS = ("loader.indexes_recorded", "loader.indexes_off", "loader.chunk_committed", "loader.index_added")


def structures(load: FullLoad) -> dict[str, str]:
    names = [str(name) for (name,) in rows(load.target, f"SHOW TABLES FROM `{load.target_schema}`")]
    return {name: rows(load.target, f"SHOW CREATE TABLE `{load.target_schema}`.`{name}`")[0][1] for name in names}


def without_counter(text: str) -> str:
    return " ".join(word for word in text.split(" ") if not word.startswith("AUTO_INCREMENT="))


def structures_of_a_plain_load(load: FullLoad) -> dict[str, str]:
    """What the target has where indexes are never taken off."""
    load.settings["defer_indexes"] = False
    load.load()
    found = structures(load)
    load.forget()
    load.settings["defer_indexes"] = True
    return found


def deferred(load: FullLoad) -> list[tuple[object, ...]]:
    task = load.subtask().task
    return rows(load.target, f"SELECT target_table FROM `{load.meta_schema}`.`{task}_loader_deferral` ORDER BY 1")


def load_until_a_part_is_there(load: FullLoad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_workers_lost", False)
    monkeypatch.setenv("DM_FAULTS", "loader.chunk_committed=error")
    with pytest.raises(DMError):
        load.load()
    monkeypatch.delenv("DM_FAULTS")


@pytest.mark.ci_flavor("mysql")
def test_tables_are_in_the_end_what_they_are_without_the_option(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(upstream, target, *TABLES)
    load.dump()
    whole = structures_of_a_plain_load(load)
    load_until_a_part_is_there(load, monkeypatch)
    between = structures(load)
    assert deferred(load) == [("child",), ("own",), ("parent",)]
    for name in ("child", "own", "parent"):
        assert not any("  KEY" in line or "FOREIGN KEY" in line for line in between[name].splitlines())
    assert "UNIQUE KEY `u`" in between["parent"]
    assert "KEY `by_id`" in between["counting"]
    status = load.load().status()
    assert structures(load) == whole
    assert deferred(load) == []
    assert (status["progress"], status["phase"]) == ("100.00 %", "")
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.chaos
@pytest.mark.timeout(900)  # JVMs start
@pytest.mark.parametrize("point", POINTS)
def test_a_load_killed_anywhere_leaves_no_table_without_its_indexes(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES, rows=1)
    load.dump()
    whole = structures_of_a_plain_load(load)
    process = load.start("Load", f"{point}=kill@1", tmp_path / "log")
    assert process.wait() in (-signal.SIGKILL, TRIED_AGAIN)  # the latter where it was a worker
    assert (tmp_path / "log").exists()
    load.load()
    assert {name: without_counter(text) for name, text in structures(load).items()} == {
        name: without_counter(text) for name, text in whole.items()
    }
    assert deferred(load) == []
    report = load.report()
    assert report.identical, str(report)


@pytest.fixture
def cut_short(mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch) -> FullLoad:
    """A load of the table `own` that has its rows in the target, and not its indexes."""
    load = full_load(mariadb, mariadb, TABLES[3], TABLES[8], defer_indexes=True)
    load.dump()
    load_until_a_part_is_there(load, monkeypatch)
    return load


@pytest.mark.ci_flavor("mariadb")
def test_rows_that_come_meanwhile_do_not_keep_an_index_away(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    """More than the server notes down for an index that is being made; such rows come from other sources of a merge."""
    long, doubled, far, each = "REPEAT(SHA2(RAND(), 256), 10)", 15, 10_000_000, 2000
    load = full_load(
        upstream,
        target,
        "CREATE TABLE wide (id INT PRIMARY KEY, v VARCHAR(640) CHARACTER SET ascii, KEY v (v))",
        f"INSERT INTO wide VALUES (0, {long})",
        *(f"INSERT INTO wide SELECT id + {2**times}, {long} FROM wide" for times in range(doubled)),
        defer_indexes=True,
        rows=far,
    )
    load.dump()
    where = f"table_schema = '{load.target_schema}' AND table_name = 'wide'"
    asked = (
        f"SELECT (SELECT COUNT(*) FROM information_schema.tables WHERE {where}),"
        f" (SELECT COUNT(*) FROM information_schema.statistics WHERE {where} AND index_name = 'v')"
    )
    alterations = "SHOW GLOBAL STATUS LIKE 'Com_alter_table'"
    before, over = int(target.query(alterations)[0][1]), threading.Event()
    written: list[int] = []

    def write() -> None:
        wait_until(lambda: target.query(asked) == ((1, 0),), "the index is taken off")
        while not over.is_set():
            first = far + each * len(written)
            values = ", ".join(f"({first + at}, {long})" for at in range(each))
            target.execute(f"INSERT INTO `{load.target_schema}`.wide VALUES {values}")
            written.append(each)

    target.execute("SET GLOBAL innodb_online_alter_log_max_size = 65536")
    try:
        with beside(write):
            try:
                load.load()
            finally:
                over.set()
    finally:
        target.execute("SET GLOBAL innodb_online_alter_log_max_size = DEFAULT")
    # The index is taken off, the server gives up adding it, and adds it while the others wait.
    assert int(target.query(alterations)[0][1]) == before + 3
    assert "  KEY `v` (`v`)" in structures(load)["wide"]
    assert rows(load.target, f"SELECT COUNT(*) FROM `{load.target_schema}`.wide") == [(2**doubled + sum(written),)]


def test_a_table_may_have_become_another_in_between(cut_short: FullLoad) -> None:
    """Of a merge, another source may be further, and its DDL have come through."""
    cut_short.target.execute(f"ALTER TABLE `{cut_short.target_schema}`.own ADD COLUMN later INT")
    cut_short.load()
    structure = structures(cut_short)["own"]
    assert "KEY `k` (`up`)" in structure
    assert "CONSTRAINT `c_up`" in structure
    assert deferred(cut_short) == []


def test_rows_that_went_with_their_table_are_missed(cut_short: FullLoad) -> None:
    cut_short.target.execute(f"DROP TABLE `{cut_short.target_schema}`.own")
    for _ in range(2):  # what was refused is not made by the refusal
        with pytest.raises(DMError) as caught:
            cut_short.load()
        assert caught.value.name == "load-table-gone"
        assert f"rows of {TableName(cut_short.schema, 'own')} were loaded" in caught.value.message
    assert structures(cut_short) == {}


def begin_anew(load: FullLoad) -> None:
    """As `start-task --remove-meta` does at the target."""
    with TargetConnection(endpoint(load.target)) as connection:
        remove_progress(connection, SubtaskKey(load.meta_schema, load.subtask().task, load.source_id))


def lose_records(load: FullLoad) -> None:
    """As if another task, with another schema for its progress, had left the tables so."""
    begin_anew(load)
    load.target.execute(f"DELETE FROM `{load.meta_schema}`.`{load.subtask().task}_loader_deferral`")


@pytest.mark.parametrize("asked", [True, False, "auto"])
def test_a_load_that_begins_anew_completes_what_the_one_before_has_left(cut_short: FullLoad, asked: object) -> None:
    begin_anew(cut_short)
    cut_short.settings["defer_indexes"] = asked
    cut_short.load()
    assert "KEY `k` (`up`)" in structures(cut_short)["own"]
    assert deferred(cut_short) == []
    assert cut_short.report().identical


def test_a_table_that_is_made_anew_has_the_indexes_it_is_made_with(cut_short: FullLoad) -> None:
    begin_anew(cut_short)
    cut_short.target.execute(f"DROP TABLE `{cut_short.target_schema}`.own")
    cut_short.upstream.execute(
        f"ALTER TABLE `{cut_short.schema}`.own DROP FOREIGN KEY c_up, DROP KEY k, ADD KEY other (up)"
    )
    cut_short.directory = cut_short.directory.with_name("anew")
    cut_short.settings["defer_indexes"] = False
    cut_short.dump()
    cut_short.load()
    assert cut_short.report().identical, "no index of the record that was left"
    assert deferred(cut_short) == []


@pytest.mark.parametrize("sole", [True, False], ids=["one-source", "more-sources"])
def test_by_itself_only_large_tables_of_a_task_of_one_source_wait_for_their_indexes(
    sole: bool, mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "_WORTH_ROWS", 3)
    load = full_load(
        mariadb,
        mariadb,
        "CREATE TABLE large (id INT PRIMARY KEY, v INT, KEY (v))",
        "CREATE TABLE small (id INT PRIMARY KEY, v INT, KEY (v))",
        "INSERT INTO large VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO small VALUES (1, 1)",
        "ANALYZE TABLE large, small",
        defer_indexes="auto",
        sole_source=sole,
    )
    load.dump()
    load_until_a_part_is_there(load, monkeypatch)
    assert deferred(load) == ([("large",)] if sole else [])
    load.load()
    assert deferred(load) == []
    assert load.report().identical


def test_a_table_that_an_ended_load_has_left_behind_is_not_taken_for_complete(cut_short: FullLoad) -> None:
    lose_records(cut_short)
    with pytest.raises(DMError) as caught:
        cut_short.load()
    assert caught.value.name == "load-table-differs"
    assert "no index k " in caught.value.message
    assert str(TableName(cut_short.target_schema, "own")) in caught.value.message
    cut_short.target.execute(f"DROP TABLE `{cut_short.target_schema}`.own")
    cut_short.load()
    assert cut_short.report().identical


def test_a_table_that_lacks_nothing_but_its_foreign_key_is_not_complete(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its column is the primary key's, so the foreign key has no index of its own."""
    load = full_load(
        mariadb,
        mariadb,
        "CREATE TABLE up (id INT PRIMARY KEY)",
        "CREATE TABLE under (id INT PRIMARY KEY, CONSTRAINT c FOREIGN KEY (id) REFERENCES up (id))",
        "INSERT INTO up VALUES (1), (2)",
        "INSERT INTO under VALUES (1), (2)",
        defer_indexes=True,
    )
    load.dump()
    load_until_a_part_is_there(load, monkeypatch)
    assert "FOREIGN KEY" not in structures(load)["under"]
    lose_records(load)
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-table-differs"
    assert "no foreign key over id " in caught.value.message
    mariadb.execute(f"DROP TABLE `{load.target_schema}`.under")
    load.load()
    assert "CONSTRAINT `c` FOREIGN KEY (`id`)" in structures(load)["under"]
    assert load.report().identical


def test_a_source_that_begins_anew_still_completes_the_table_of_a_merge(cut_short: FullLoad, tmp_path: Path) -> None:
    other = replace(cut_short, source_id="source-2", directory=tmp_path / "second")
    other.dump()
    other.load()
    assert "KEY `k`" not in structures(other)["own"], "the first source has yet to do it"
    begin_anew(cut_short)
    cut_short.load()
    structure = structures(cut_short)["own"]
    assert "KEY `k` (`up`)" in structure
    assert "CONSTRAINT `c_up`" in structure
    assert deferred(cut_short) == []
    assert cut_short.report().identical
