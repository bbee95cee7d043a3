"""A replay that died goes on from where it was, or is the syncer's; the target is as the syncer would leave it."""

from __future__ import annotations

import pytest
from pymysql.cursors import Cursor

from dm import faults
from dm.errors import DMError
from dm.progress.replayed import StoredReplay
from dm.spark import job
from dm.spark.session import SparkProvider
from tests.spark.replaying import CHANGES, TABLES, Scene, run
from tests.testbed.sync import WITHOUT_CHECKPOINTS, SyncProcess

pytestmark = [pytest.mark.live, pytest.mark.spark]


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
            numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 199)"
            rows = "SELECT 100 * a.i + b.i, REPEAT(CHAR(65 + b.i % 26), 4000) FROM n a JOIN n b WHERE b.i < 100"
            run(cursor, f"INSERT INTO wide {numbers} {rows}")
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
@pytest.mark.ci_flavor("mariadb")
def test_a_task_may_be_resumed_instead(
    scene: Scene, spark: SparkProvider, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    with scene.session() as cursor:
        backlog(scene, cursor)
    struck(scene, spark, monkeypatch, driver=driver)
    scene.resumed()
    scene.identical()


@pytest.mark.chaos
def test_a_replay_that_died_after_its_end_is_over(
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
    # A MariaDB writes a Binlog_checkpoint event when it has time for it, so the relay may have one more.
    file, _, offset = end.partition(":")
    assert place.file == file
    assert place.offset >= int(offset)
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
@pytest.mark.parametrize(
    ("trigger", "files"),
    [(True, "whole"), pytest.param(False, "torn", marks=pytest.mark.chaos), (True, "gone")],
)
@pytest.mark.ci_sample(1)
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
        end = scene.place  # not before: a MariaDB notes a checkpoint of its binlog when it gets to it
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
