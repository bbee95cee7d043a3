"""A backlog that is replayed leaves the target as the syncer would leave it, and the syncer goes on from there."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.progress.checkpoint import write_global
from dm.progress.lane_rows import CONTROL, LaneClaim, claimed, raise_epoch
from dm.progress.takeover import UndoneKeys, store_undone
from dm.spark.session import SparkProvider
from tests.spark.replaying import CHANGES, TABLES, Scene, accepted, run
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.random_rows import RandomRows
from tests.testbed.random_table import Table, draw_table

pytestmark = [pytest.mark.live, pytest.mark.spark]


@pytest.mark.ci_flavor("mysql")
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


@pytest.mark.ci_flavor("mariadb")
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


@pytest.mark.ci_flavor("mariadb")
def test_a_drawn_backlog_is_replayed(scene: Scene, spark: SparkProvider, flavor: Flavor) -> None:
    drawn_backlog_is_replayed(scene, spark, flavor, 2304, 60, 5)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(12))
def test_many_drawn_backlogs_are_replayed(scene: Scene, spark: SparkProvider, flavor: Flavor, seed: int) -> None:
    drawn_backlog_is_replayed(scene, spark, flavor, seed, 300, 10)


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
