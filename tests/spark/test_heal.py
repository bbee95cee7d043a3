"""`dmctl heal`: a task whose place is lost, or whose target was restored, goes on with only those rows written that
differ.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from dm import faults
from dm.config.rules import FilterRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumper.structures import read_structures
from dm.errors import DMError
from dm.progress.checkpoint import Checkpoint, read_checkpoint
from dm.progress.healed import HEAL
from dm.task.progress import key_of
from dm.tools.errands import HealedSubtask, HealRequest
from dm.tools.heal import source as heal_source
from dm.tools.heal import unit as heal_unit
from dm.tools.heal.unit import HealUnit
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside
from tests.spark.test_reload_table import identical, task_of
from tests.testbed.joining import Task
from tests.testbed.park import ServerPark
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark]

NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
TABLES = (
    "CREATE TABLE uniques (id INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(20))",
    "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20), at TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP)",
    "CREATE TABLE keyless (v INT)",
    "CREATE TABLE cleared (id INT PRIMARY KEY)",
    f"INSERT INTO uniques {NUMBERS} SELECT i, i, 'first' FROM n",
    f"INSERT INTO plain (id, v) {NUMBERS} SELECT i, 'first' FROM n",
    "INSERT INTO keyless VALUES (1), (1), (2)",
)
LOST = (
    # Values of a unique key change places, across chunks.
    "UPDATE uniques SET u = -u WHERE id IN (7, 150)",
    "UPDATE uniques SET u = 150 WHERE id = 7",
    "UPDATE uniques SET u = 7 WHERE id = 150",
    "DELETE FROM uniques WHERE id BETWEEN 30 AND 40",
    "UPDATE plain SET v = 'lost', at = '2020-02-02 02:02:02' WHERE id = 60",
    "INSERT INTO plain VALUES (-5, 'lost', NULL), (500, 'lost', NULL)",
    "DELETE FROM plain WHERE id = 99",
    "INSERT INTO keyless VALUES (1), (3), (3)",
    "DELETE FROM keyless WHERE v = 2",
)


@dataclass
class Lost:
    """A task that rests while its source goes on."""

    load: FullLoad
    task: Task

    def unit(self, *others: SubtaskConfig, **options: Any) -> HealUnit:
        """As a host makes it."""
        healed = (HealedSubtask(self.task.subtask, None, self.task.directory / "main"),)
        request = HealRequest(healed, others, rows=40, **options)
        return HealUnit(request, self.load.spark)

    def heal(self, **options: Any) -> dict[str, Any]:
        """What it reports."""
        unit = self.unit(**options)
        unit.run(threading.Event())
        report = dict(unit.status())
        assert report["over"], report
        return report

    def checkpoint(self) -> Checkpoint:
        """What is stored."""
        with closing(TargetConnection(self.task.subtask.target)) as connection:
            found = read_checkpoint(connection, key_of(self.task.subtask))
        assert found is not None
        return found

    def writing_has_begun(self) -> bool:
        """Whether the lane of a heal has its row."""
        worker = key_of(self.task.subtask).worker
        return bool(self.load.target.query(f"SELECT 1 FROM {worker.sql} WHERE lane = '{HEAL}'"))

    def follows(self) -> None:
        """The task goes on, and has all rows in the end."""
        with self.task.following() as sync:
            sync.wait_synced(120)
        identical(self.load)
        left = self.heal(dry_run=True)
        assert (left["tables"], left["differingChunks"]) == ({}, 0)

    @contextmanager
    def workload(self) -> Iterator[None]:
        """Rows change while the block runs."""
        over, number = threading.Event(), [1000]

        def write() -> None:
            while not over.wait(0.005):
                at = number[0] = number[0] + 1
                row, other = at % 199 + 1, at * 7 % 199 + 1
                self.load.upstream.execute(
                    f"USE `{self.load.schema}`",
                    f"UPDATE uniques SET u = -1 WHERE id = {row}",
                    f"UPDATE uniques SET u = {at} WHERE id = {other}",
                    f"REPLACE INTO uniques VALUES ({row}, {at + 100000}, '{at}')",
                    f"INSERT INTO plain (id, v) VALUES ({at}, 'new')",
                    f"UPDATE plain SET v = '{at}' WHERE id IN ({row}, {at - 3})",
                    f"DELETE FROM plain WHERE id = {at - 9}",
                    f"INSERT INTO keyless VALUES ({at}), (7)",
                    "DELETE FROM keyless WHERE v = 7 LIMIT 1",
                    "UPDATE uniques SET u = NULL WHERE u = -1",
                )

        with beside(write):
            try:
                wait_until(lambda: number[0] > 1002, "rows are written")
                yield
            finally:
                over.set()


@pytest.fixture
def lost(upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory) -> Lost:
    """A task that has lost its place."""
    return lost_task(full_load(upstream, target, *TABLES))


def lost_task(load: FullLoad) -> Lost:
    """The syncer has rested for a while; nobody can go on from its checkpoint, and more is wrong at the target."""
    found = Lost(load, task_of(load))
    with found.task.following() as sync:
        sync.wait_synced()
    load.upstream.execute(f"USE `{load.schema}`", *LOST, "FLUSH BINARY LOGS")
    at_target(
        load,
        "DELETE FROM uniques WHERE id = 3",
        "UPDATE uniques SET u = 3 WHERE id = 190",
        "INSERT INTO uniques VALUES (1001, 1001, 'nobodys')",
        "INSERT INTO cleared VALUES (1)",
    )
    return found


def at_target(load: FullLoad, *statements: str) -> None:
    load.target.execute(f"USE `{load.target_schema}`", *statements)


@pytest.mark.ci_flavor("mysql")
def test_only_what_differs_is_written_while_the_source_goes_on(lost: Lost) -> None:
    before = lost.checkpoint().position
    with lost.workload():
        dry = lost.heal(dry_run=True)
        assert lost.checkpoint().position == before
        assert not lost.writing_has_begun()
        report = lost.heal()
    assert (dry["whole"], report["whole"]) == ({}, {})
    names = {f"{lost.load.target_schema}.{name}" for name in ("uniques", "plain", "keyless", "cleared")}
    assert set(dry["tables"]) == set(report["tables"]) == names
    cleared = f"{lost.load.target_schema}.cleared"
    assert dry["tables"][cleared] == report["tables"][cleared] == 1
    healed = lost.checkpoint()
    assert healed.position.order > before.order
    assert healed.bound is not None
    assert not lost.writing_has_begun()
    lost.follows()


@pytest.mark.chaos
@pytest.mark.tidb
def test_a_tidb_is_healed_and_a_heal_that_died_there_begins_again(park: ServerPark, full_load: LoadFactory) -> None:
    lost = lost_task(full_load(park.shared("mysql", "upstream-1"), park.tidb(), *TABLES))
    with lost.workload():
        _dies(lost, "heal.inside@2")
        assert lost.writing_has_begun()
        report = lost.heal()
    assert report["whole"] == {}
    lost.follows()


POINTS = ("heal.begun", "heal.inside@3", "heal.written@2", "heal.whole_asked", "heal.before_end", "heal.ended")


@pytest.mark.chaos
def test_a_heal_that_died_anywhere_begins_again(lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heal_unit, "_MOST_DELETIONS", 0)
    with lost.workload():
        for point in POINTS[:-1]:
            _dies(lost, point)
            assert lost.writing_has_begun()
            with pytest.raises(DMError) as refused, lost.task.following() as sync:
                sync.wait_synced(60)
            assert refused.value.name == "heal-unfinished"
        _dies(lost, POINTS[-1])
        assert not lost.writing_has_begun()
        with lost.task.following(), lost.task.joining():
            pass
    lost.follows()


@pytest.mark.ci_flavor("mysql")
def test_no_stream_begins_on_a_heal_that_died(lost: Lost) -> None:
    _dies(lost, "heal.inside@2")  # one write is there
    with pytest.raises(DMError) as refused, lost.task.following() as sync:
        sync.wait_synced(60)
    assert refused.value.name == "heal-unfinished"
    lost.heal()
    lost.follows()


def _dies(lost: Lost, point: str) -> None:
    name, _, passage = point.partition("@")
    faults.arm(f"{name}=error@{passage or 1}")
    try:
        with pytest.raises(faults.FaultError):
            lost.heal()
    finally:
        faults.arm("")


@pytest.mark.ci_flavor("mysql")
def test_what_can_not_be_compared_is_loaded_beside_the_stream(lost: Lost) -> None:
    at_target(lost.load, "DROP TABLE plain", "ALTER TABLE keyless ADD COLUMN nobodys INT")
    with pytest.raises(DMError) as refused:
        lost.heal()
    assert refused.value.name == "heal-structures"
    assert "keyless" in refused.value.message
    assert not lost.writing_has_begun()
    with lost.workload():
        report = lost.heal(recreate=True)
        assert set(report["whole"]) == {f"{lost.load.target_schema}.{name}" for name in ("plain", "keyless")}
        with lost.task.following(), lost.task.joining():
            pass
    lost.follows()


@pytest.mark.ci_flavor("mariadb")
def test_a_table_that_is_altered_meanwhile_is_loaded_whole(lost: Lost, monkeypatch: pytest.MonkeyPatch) -> None:
    def altered_first(*arguments: Any) -> Any:
        lost.load.upstream.execute(
            f"ALTER TABLE `{lost.load.schema}`.plain ADD COLUMN w INT DEFAULT 5",
            f"CREATE TABLE `{lost.load.schema}`.made (id INT PRIMARY KEY)",
            f"INSERT INTO `{lost.load.schema}`.made VALUES (1)",
        )
        return read_structures(*arguments)

    monkeypatch.setattr(heal_source, "read_structures", altered_first)
    report = lost.heal()
    monkeypatch.undo()
    assert set(report["whole"]) == {f"{lost.load.target_schema}.plain"}
    with lost.task.following(), lost.task.joining():
        pass
    lost.follows()


def refused(lost: Lost, **changed: Any) -> str:
    """Why a task with other settings is not healed."""
    lost.task.subtask = lost.task.subtask.model_copy(update=changed)
    with pytest.raises(DMError) as raised:
        lost.heal()
    assert raised.value.name == "heal-unsuited"
    assert not lost.writing_has_begun()
    return raised.value.message


SETTINGS: Sequence[tuple[dict[str, Any], str]] = (
    ({"shard_mode": "pessimistic"}, "shard-mode"),
    ({"opposite": "back"}, "opposite"),
    ({"filters": (FilterRule(schema_pattern="*", events=("delete",), action="Ignore"),)}, "an event filter"),
)


@pytest.mark.ci_flavor("mysql")
def test_what_can_not_be_exact_is_refused_by_name(lost: Lost) -> None:
    plain = lost.task.subtask
    for changed, word in SETTINGS:
        assert word in refused(lost, **changed)
        lost.task.subtask = plain
    another = plain.model_copy(update={"source": plain.source.model_copy(update={"source_id": "source-2"})})
    with pytest.raises(DMError) as raised:
        lost.unit(another).run(threading.Event())
    assert "has rows of source-2, too" in raised.value.message
    lost.load.upstream.execute(f"CREATE TABLE `{lost.load.schema}`._plain_gho (id INT PRIMARY KEY)")
    assert "_plain_gho" in refused(lost, shadow_table_rules=("^_(.+)_gho$",))
