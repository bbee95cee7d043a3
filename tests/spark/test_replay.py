"""A backlog that is replayed leaves the target as the syncer would leave it, and the syncer goes on from there."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from dm import faults
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.flavor import Flavor
from dm.progress.checkpoint import write_global
from dm.progress.lane_rows import CONTROL, LaneClaim, claimed, raise_epoch
from dm.progress.replayed import StoredReplay
from dm.progress.undone import UndoneKeys, store_undone
from dm.spark import job
from dm.spark.session import SparkProvider
from tests.spark.replaying import Scene, accepted
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.random_rows import RandomRows
from tests.testbed.random_table import Table, draw_table
from tests.testbed.sync import WITHOUT_CHECKPOINTS, SyncProcess

pytestmark = [pytest.mark.live, pytest.mark.spark]

TABLES = (
    "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20), KEY by_v (v))",
    "CREATE TABLE uniques (id INT PRIMARY KEY, u INT UNIQUE, w VARCHAR(10) UNIQUE)",
    "CREATE TABLE texts (k VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
    "CREATE TABLE two (a INT, b BINARY(3), v DECIMAL(10, 3), PRIMARY KEY (a, b))",
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO plain VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
    "INSERT INTO uniques VALUES (1, 1, 'one'), (2, 2, 'two'), (3, NULL, NULL)",
    "INSERT INTO texts VALUES ('a', 1), ('b', 2), ('c', 3)",
    "INSERT INTO two VALUES (1, 'xxx', 1.5), (1, 'yyy', 2)",
    "INSERT INTO keyless VALUES (1), (1), (2)",
)
CHANGES = (
    "INSERT INTO plain VALUES (5, 'e'), (6, 'f')",
    "UPDATE plain SET v = 'later' WHERE id IN (1, 5)",
    "DELETE FROM plain WHERE id IN (2, 6)",
    "UPDATE plain SET id = 30 WHERE id = 3",
    "INSERT INTO plain VALUES (2, 'again'), (3, 'another')",
    # Values of a unique key change places.
    "UPDATE uniques SET u = NULL WHERE id = 1",
    "UPDATE uniques SET u = 1, w = 'zwei' WHERE id = 2",
    "UPDATE uniques SET u = 2, w = 'two' WHERE id = 1",
    "INSERT INTO uniques VALUES (4, 4, 'four'), (5, 5, 'five')",
    "FLUSH BINARY LOGS",
    "DELETE FROM uniques WHERE id = 4",
    "UPDATE uniques SET u = 4, w = 'FOUR' WHERE id = 5",
    # What the target takes for the same key.
    "UPDATE texts SET k = 'A' WHERE k = 'a'",
    "DELETE FROM texts WHERE k = 'b'",
    "INSERT INTO texts VALUES ('B', 20)",
    "UPDATE texts SET k = 'C', v = 30 WHERE k = 'c'",
    "UPDATE texts SET k = 'c' WHERE k = 'C'",
    "UPDATE two SET b = 'zzz', v = 9.125 WHERE b = 'xxx'",
    "INSERT INTO two VALUES (1, 'xxx', -1)",
)


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path) -> Scene:
    return Scene(upstream, target, schema(upstream), tmp_path)


def run(cursor: Cursor, *statements: str) -> None:
    for statement in statements:
        cursor.execute(statement)


def test_a_backlog_is_replayed_and_the_task_goes_on(scene: Scene, spark: SparkProvider) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        with scene.relayed():
            run(cursor, *CHANGES)
        report = scene.replay(spark)
        scene.identical()
        assert report["left"] == {}
        assert report["endsBefore"] == ""
        assert len(report["tables"]) == 4
        checkpoint = scene.checkpoint()
        assert str(checkpoint.position) == report["to"]
        assert checkpoint.bound is None
        with scene.relayed():
            run(cursor, "UPDATE plain SET v = 'then'", "INSERT INTO keyless VALUES (7)", "DROP TABLE two")
        scene.resumed()
        scene.identical()


def test_what_is_not_exact_stays_with_the_syncer(scene: Scene, spark: SparkProvider) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        start = scene.checkpoint().position
        with scene.relayed():
            run(cursor, *CHANGES, "INSERT INTO keyless VALUES (1), (3)", "DELETE FROM keyless WHERE v = 2")
        report = scene.replay(spark)
        assert [*report["left"]] == [f"{scene.name}.keyless"]
        assert scene.checkpoint().position.order == start.order
        with scene.relayed():
            run(cursor, "INSERT INTO plain VALUES (70, 'new')", "ALTER TABLE plain ADD COLUMN n INT DEFAULT 5")
            run(cursor, "UPDATE keyless SET v = 9 WHERE v = 1 LIMIT 1", "UPDATE plain SET n = id")
        scene.resumed()
        scene.identical()


@pytest.mark.ci_flavor("mysql")
def test_a_replay_ends_before_a_statement(scene: Scene, spark: SparkProvider) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        with scene.relayed():
            run(cursor, *CHANGES[:4])
            before = scene.place
            run(cursor, "ALTER TABLE plain ADD COLUMN n INT DEFAULT 5", *CHANGES[5:], "FLUSH BINARY LOGS")
            run(cursor, "UPDATE plain SET n = id", "INSERT INTO plain VALUES (100, 'x', 1)")
        report = scene.replay(spark)
        assert report["endsBefore"] == "ALTER TABLE plain ADD COLUMN n INT DEFAULT 5"
        file, offset = before.split(":")
        assert report["to"] == f"({file}, {offset})"
        scene.resumed()
        scene.identical()


@pytest.mark.chaos
def test_a_replay_ends_before_an_xa_transaction(scene: Scene, spark: SparkProvider) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        with scene.relayed():
            run(cursor, *CHANGES[:3])
            run(cursor, "XA START 'x'", "INSERT INTO plain VALUES (7, 'by xa')", "XA END 'x'", "XA PREPARE 'x'")
            with scene.session() as other:
                run(other, "UPDATE plain SET v = 'meanwhile' WHERE id = 1")
            run(cursor, "XA COMMIT 'x'", *CHANGES[3:])
        assert scene.replay(spark)["endsBefore"].startswith("the XA transaction")
        with pytest.raises(DMError) as raised:
            scene.replay(spark)
        assert raised.value.name == "replay-nothing"
        scene.resumed()
        scene.identical()


def drawn_tables(cursor: Cursor, schema: str, flavor: Flavor, chance: random.Random, count: int) -> list[Table]:
    found: list[Table] = []
    while len(found) < count:
        table = draw_table(f"t{len(found)}", flavor, chance)
        if accepted(cursor, table.create(schema)):
            found.append(table)
    return found


def draw_changes(cursor: Cursor, rows: RandomRows, chance: random.Random, count: int) -> None:
    for number in range(count):
        if number % 40 == 39:
            cursor.execute("FLUSH BINARY LOGS")
        cursor.execute("BEGIN")
        for statement in rows.transaction():
            accepted(cursor, statement)
        cursor.execute(chance.choice(("COMMIT",) * 9 + ("ROLLBACK",)))


def drawn_backlog_is_replayed(
    scene: Scene, spark: SparkProvider, flavor: Flavor, seed: int, transactions: int, tables: int
) -> None:
    chance = random.Random(seed)
    with scene.session() as cursor:
        with scene.following():
            rows = RandomRows(scene.name, drawn_tables(cursor, scene.name, flavor, chance, tables), chance)
            draw_changes(cursor, rows, chance, transactions // 2)
        with scene.relayed():
            draw_changes(cursor, rows, chance, transactions)
    report = scene.replay(spark)
    assert report["changes"]
    assert report["endsBefore"] == "", f"seed {seed}"
    if not report["left"]:
        scene.identical()
    scene.resumed()
    scene.identical()


def test_a_drawn_backlog_is_replayed(scene: Scene, spark: SparkProvider, flavor: Flavor) -> None:
    drawn_backlog_is_replayed(scene, spark, flavor, 2304, 60, 5)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(12))
def test_many_drawn_backlogs_are_replayed(scene: Scene, spark: SparkProvider, flavor: Flavor, seed: int) -> None:
    drawn_backlog_is_replayed(scene, spark, flavor, seed, 300, 10)


def struck(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch, *, worker: str = "", driver: str = ""
) -> None:
    """A replay that ends at a fault point: of a Spark worker, which is killed there, or of the unit."""
    with monkeypatch.context() as patch:
        patch.setattr(job, "_workers_lost", False)
        patch.setenv("DM_FAULTS", worker and f"{worker}=kill")
        faults.arm(driver and f"{driver}=error")
        with pytest.raises(DMError if worker else faults.FaultError) as raised:
            scene.replay(spark)
        faults.arm("")
    if isinstance(raised.value, DMError):
        assert raised.value.name == "spark-job-failed"


def backlog(scene: Scene, cursor: Cursor) -> None:
    with scene.following():
        run(cursor, *TABLES)
    with scene.relayed():
        run(cursor, *CHANGES, "INSERT INTO keyless VALUES (1), (3)", "DELETE FROM keyless WHERE v = 2")


@pytest.mark.chaos
def test_a_replay_goes_on_from_wherever_it_died(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.session() as cursor:
        backlog(scene, cursor)
    struck(scene, spark, monkeypatch, worker="replay.decoded")
    assert scene.record() is None
    struck(scene, spark, monkeypatch, driver="replay.begun")
    first = scene.record()
    assert isinstance(first, StoredReplay)
    for worker, driver in (
        ("replay.inside_part", ""), ("replay.part_committed", ""), ("", "replay.removed"),
        ("replay.part_committed", ""), ("", "replay.before_end"),
    ):  # fmt: skip
        struck(scene, spark, monkeypatch, worker=worker, driver=driver)
        found = scene.record()
        assert isinstance(found, StoredReplay)
        assert found.number == first.number
        assert not found.again
    report = scene.replay(spark)
    assert report["goesOn"]
    scene.resumed()
    scene.identical()


@pytest.mark.chaos
@pytest.mark.ci_flavor("mysql")
def test_a_replay_goes_on_with_rows_in_another_form(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, "CREATE TABLE wide (id INT PRIMARY KEY, v TEXT)")
        with scene.relayed():
            # Several parts of each bucket, by the bytes of their rows.
            run(cursor, "SET SESSION cte_max_recursion_depth = 20000")
            numbers = "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < 20000)"
            run(cursor, f"INSERT INTO wide {numbers} SELECT id, REPEAT(CHAR(65 + id % 26), 4000) FROM n")
    struck(scene, spark, monkeypatch, worker="replay.part_committed")
    here = scene.target.query(f"SELECT COUNT(*) FROM {scene.there}.wide")[0][0]
    assert 0 < here < 20000
    syncer = scene.subtask.syncer.model_copy(update={"row_format": "sql"})
    scene.subtask = scene.subtask.model_copy(update={"syncer": syncer})
    report = scene.replay(spark)
    assert report["goesOn"]
    assert report["asEvents"] == 0
    scene.identical()


EACH_STEP = [
    pytest.param("replay.begun", marks=pytest.mark.chaos),
    "replay.removed",
    pytest.param("replay.before_end", marks=pytest.mark.chaos),
    pytest.param("replay.ended", marks=pytest.mark.chaos),
]


@pytest.mark.parametrize("driver", EACH_STEP)
def test_a_task_may_be_resumed_instead(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    with scene.session() as cursor:
        backlog(scene, cursor)
    struck(scene, spark, monkeypatch, driver=driver)
    scene.resumed()
    scene.identical()


@pytest.mark.chaos
def test_a_replay_that_died_behind_its_end_is_over(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        with scene.relayed():
            run(cursor, *CHANGES)
            end = scene.place
    struck(scene, spark, monkeypatch, driver="replay.ended")
    scene.identical()
    assert scene.record() is None
    place = scene.checkpoint().position
    assert f"{place.file}:{place.offset}" == end
    with pytest.raises(DMError) as raised:
        scene.replay(spark)
    assert raised.value.name == "replay-nothing"
    with scene.session() as cursor, scene.relayed():
        run(cursor, "UPDATE plain SET v = 'more' WHERE id > 1", "DELETE FROM uniques WHERE id = 1")
    report = scene.replay(spark)
    assert not report["goesOn"]
    assert not (scene.directory / "replay").exists()
    scene.identical()
    scene.resumed()
    scene.identical()


@pytest.mark.chaos
@pytest.mark.parametrize("driver", ["replay.begun", "replay.removed", "replay.before_end"])
def test_a_replay_begins_anew_where_the_task_has_run_in_between(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    with scene.session() as cursor:
        backlog(scene, cursor)
    struck(scene, spark, monkeypatch, driver=driver)
    first = scene.record()
    assert isinstance(first, StoredReplay)
    # A run that stores no checkpoint, and dies in the middle of the stretch.
    process = SyncProcess(
        scene.subtask,
        relay_directory=scene.relay,
        work_directory=scene.work,
        patch=WITHOUT_CHECKPOINTS,
        faults="syncer.after_commit=kill",
    )
    assert process.wait_killed(), process.errors()
    process.close()
    with scene.session() as cursor, scene.relayed():
        run(cursor, "UPDATE plain SET v = 'more' WHERE id > 1", "DELETE FROM uniques WHERE id = 1")
    report = scene.replay(spark)
    assert not report["goesOn"]
    scene.resumed()
    scene.identical()


@pytest.mark.chaos
def test_a_cancelled_replay_is_the_syncers(scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    with scene.session() as cursor:
        backlog(scene, cursor)
    struck(scene, spark, monkeypatch, driver="replay.removed")
    scene.replay(spark, cancel=True)
    assert not (scene.directory / "replay").exists()
    scene.resumed()
    scene.identical()


@pytest.mark.ci_flavor("mysql")
def test_a_replay_ends_before_an_image_that_lacks_a_unique_key(scene: Scene, spark: SparkProvider) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        with scene.relayed():
            run(cursor, *CHANGES[:3])
            before = scene.place
            run(cursor, "SET SESSION binlog_row_image = MINIMAL", "DELETE FROM uniques WHERE id = 2")
            run(cursor, "SET SESSION binlog_row_image = FULL", "INSERT INTO uniques VALUES (20, 2, 'two')")
    report = scene.replay(spark)
    assert report["endsBefore"] == f"a row image of {scene.name}.uniques lacks columns"
    file, offset = before.split(":")
    assert report["to"] == f"({file}, {offset})"
    scene.resumed()
    scene.identical()


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("trigger", "files"),
    [(True, "whole"), pytest.param(False, "torn", marks=pytest.mark.chaos), (True, "gone")],
)
def test_a_replay_begins_anew_where_its_plan_does_not_hold(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch, trigger: bool, files: str
) -> None:
    with scene.session() as cursor:
        backlog(scene, cursor)
    struck(scene, spark, monkeypatch, driver="replay.removed")
    bound = scene.checkpoint().bound
    assert bound is not None
    if trigger:
        there = scene.there
        scene.target.execute(f"CREATE TRIGGER {there}.t BEFORE INSERT ON {there}.plain FOR EACH ROW SET @x = 1")
    if files != "whole":
        for path in (scene.directory / "replay").glob("*/*"):
            path.write_bytes(path.read_bytes()[:20])
            if files == "gone":
                path.unlink()
    with pytest.raises(DMError) as raised:
        scene.replay(spark)
    assert raised.value.name == ("replay-target-changed" if trigger else "replay-file-lost")
    assert scene.record() is None
    assert scene.checkpoint().bound == bound
    report = scene.replay(spark)
    assert not report["goesOn"]
    scene.resumed()
    scene.identical()


@pytest.mark.ci_flavor("mysql")
def test_a_replay_that_goes_on_does_not_pass_the_place(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        start = scene.place
        with scene.relayed():
            run(cursor, *CHANGES[:4])
            middle = scene.place
            run(cursor, *CHANGES[4:])
            end = scene.place
    with pytest.raises(DMError) as raised:
        scene.replay(spark, until=start)
    assert raised.value.name == "replay-nothing"
    assert "the place that was asked for" in raised.value.message
    struck(scene, spark, monkeypatch, driver="replay.begun")
    with pytest.raises(DMError) as raised:
        scene.replay(spark, until=middle)
    assert raised.value.name == "replay-unsuited"
    assert "the last run may have got to" in raised.value.message
    report = scene.replay(spark, until=end)
    assert report["goesOn"]
    scene.identical()


@pytest.mark.ci_flavor("mysql")
def test_a_replay_ends_at_a_place(scene: Scene, spark: SparkProvider, flavor: Flavor) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        with scene.relayed():
            run(cursor, *CHANGES[:4])
            middle = scene.place
            run(cursor, "INSERT INTO plain VALUES (2, 'again')", "FLUSH BINARY LOGS")
            variable = "gtid_executed" if flavor == "mysql" else "gtid_binlog_pos"
            gtids = str(scene.upstream.query(f"SELECT @@GLOBAL.{variable}")[0][0])
            later = scene.place
            run(cursor, "UPDATE plain SET v = 'last'")
        for until, place in ((middle, middle), (gtids, later)):
            report = scene.replay(spark, until=until)
            file, offset = place.split(":")
            if until != gtids:
                assert report["to"] == f"({file}, {offset})"
            assert scene.target.query(f"SELECT COUNT(*) FROM {scene.there}.plain WHERE v = 'last'") == ((0,),)
        assert scene.target.query(f"SELECT v FROM {scene.there}.plain WHERE id = 2") == (("again",),)
        with pytest.raises(DMError) as raised:
            scene.replay(spark, until=middle)
        assert raised.value.name == "until-passed"
        report = scene.replay(spark)
        assert report["changes"] == 5
        with pytest.raises(DMError) as raised:
            scene.replay(spark)
        assert raised.value.name == "replay-nothing"
        scene.identical()


def test_what_can_not_be_exact_is_refused(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, spark: SparkProvider
) -> None:
    scene = Scene(upstream, target, schema(upstream), tmp_path, atomic_transactions=True)
    with pytest.raises(DMError) as raised:
        scene.replay(spark)
    assert raised.value.name == "replay-unsuited"
    scene = Scene(upstream, target, schema(upstream), tmp_path)
    with pytest.raises(DMError) as raised:
        scene.replay(spark)
    assert raised.value.name == "replay-without-checkpoint"


@pytest.mark.chaos
def test_what_the_last_run_left_undone_is_the_syncers(scene: Scene, spark: SparkProvider) -> None:
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        with scene.relayed():
            run(cursor, *CHANGES)
    position = scene.checkpoint().position
    with closing(TargetConnection(scene.subtask.target)) as connection:
        epoch, rows = raise_epoch(connection, scene.key, [CONTROL])
        claim = LaneClaim(scene.key, CONTROL, epoch, max(row.batch for row in rows))
        with claimed(connection, claim):
            write_global(connection, scene.key, position, replace(position, offset=position.offset + 1))
        store_undone(connection, claim, {("uuid", position.file, position.offset): UndoneKeys(None)})
    with pytest.raises(DMError) as raised:
        scene.replay(spark)
    assert raised.value.name == "replay-unsuited"
    assert "undone" in str(raised.value)
    scene.resumed()
    scene.identical()


@pytest.mark.chaos
def test_safe_mode_holds_for_a_replay(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, spark: SparkProvider
) -> None:
    scene = Scene(upstream, target, schema(upstream), tmp_path, safe_mode=True)
    with scene.session() as cursor:
        with scene.following():
            run(cursor, *TABLES)
        target.execute(f"DELETE FROM {scene.there}.plain WHERE id IN (1, 2)")
        with scene.relayed():
            run(cursor, *CHANGES)
    scene.replay(spark)
    scene.identical()
