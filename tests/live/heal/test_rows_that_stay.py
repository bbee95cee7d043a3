"""A heal that can't tell which rows of the target are to stay is refused before it writes anything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dm.config.rules import FilterRule, RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.dumper.structures import structures_at_a_point
from dm.errors import DMError
from dm.spark.session import SparkProvider
from dm.tools.heal import source as heal_source
from dm.tools.heal.unit import HealUnit
from tests.live.heal.scene import Scene
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import endpoint_of, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

SceneFactory = Callable[..., Scene]


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path) -> SceneFactory:
    """A task that follows tables which both sides have; `part_*` go into `merged`."""

    def make(tables: dict[str, str], merged: str = "", filters: Sequence[FilterRule] = ()) -> Scene:
        name = schema(upstream, target)
        made = [f"CREATE TABLE `{table}` {columns}" for table, columns in tables.items()]
        upstream.execute(f"USE `{name}`", *made, "FLUSH BINARY LOGS")
        target.execute(f"USE `{name}`", *([f"CREATE TABLE merged {merged}"] if merged else made))
        subtask = subtask_for(upstream, target, name, task=name, routes=(merging(name),))
        found = Scene([upstream], target, [subtask.model_copy(update={"filters": tuple(filters)})], tmp_path)
        found.follow()
        return found

    return make


def merging(schema: str, pattern: str = "part_*") -> RouteRule:
    return RouteRule(schema_pattern=schema, table_pattern=pattern, target_schema=schema, target_table="merged")


def refused(heal: Callable[..., object], *given: Any, **options: bool) -> str:
    with pytest.raises(DMError) as raised:
        heal(*given, **options)
    assert raised.value.name == "heal-unsuited"
    return f"{raised.value.message} {raised.value.workaround}"


def test_rows_that_a_filter_keeps_are_not_deleted(scene: SceneFactory, upstream: ThrowawayServer) -> None:
    kept = FilterRule(
        name="shards-stay",
        schema_pattern="*",
        events=("truncate table", "drop table", "drop database"),
        action="Ignore",
    )
    keyed = "(id INT PRIMARY KEY)"
    task = scene({"part_1": keyed, "part_2": keyed, "part_3": keyed}, merged=keyed, filters=[kept])
    name = task.subtasks[0].task
    upstream.execute(f"USE `{name}`", *(f"INSERT INTO part_{row} VALUES ({row})" for row in (1, 2, 3)))
    upstream.execute(f"USE `{name}`", "TRUNCATE TABLE part_1", "DROP TABLE part_2")
    task.follow()
    for option in ("dry_run", "recreate"):
        for given in (False, True):
            assert "filter shards-stay leaves out `truncate table`" in refused(task.heal, **{option: given})
    assert task.target.query(f"SELECT id FROM `{name}`.merged ORDER BY id") == ((1,), (2,), (3,))


def test_a_shard_that_was_dropped_is_told_with_the_table_that_loses_its_rows(
    scene: SceneFactory, upstream: ThrowawayServer
) -> None:
    keyed = "(id INT PRIMARY KEY)"
    task = scene({"part_1": keyed, "part_2": keyed}, merged=keyed)
    name = task.subtasks[0].task
    upstream.execute(f"USE `{name}`", "INSERT INTO part_1 VALUES (1)", "INSERT INTO part_2 VALUES (2)")
    task.follow()
    upstream.execute(f"DROP TABLE `{name}`.part_2")
    said = task.heal()
    assert (said["gone"], said["goneFrom"]) == ([f"{name}.part_2"], {f"{name}.part_2": f"{name}.merged"})
    assert task.target.query(f"SELECT id FROM `{name}`.merged") == ((1,),)


def test_a_table_that_is_altered_while_the_place_is_taken_stays_as_it_is(
    scene: SceneFactory, upstream: ThrowawayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = scene({"moving": "(id INT PRIMARY KEY)", "still": "(id INT PRIMARY KEY)"})
    name = task.subtasks[0].task
    upstream.execute(f"INSERT INTO `{name}`.moving VALUES (1)")
    task.follow()

    number = count()

    def altered(session: Any, wanted: Any, take_point: Callable[[], Any]) -> Any:
        def take() -> Any:
            upstream.execute(f"ALTER TABLE `{name}`.moving ADD COLUMN x_{next(number)} INT")
            return take_point()

        return structures_at_a_point(session, wanted, take)

    monkeypatch.setattr(heal_source, "structures_at_a_point", altered)
    for recreate in (False, True):
        assert f"{name}.moving of source-1 changed in structure" in refused(task.heal, recreate=recreate)
    monkeypatch.undo()
    assert not task.unfinished()
    task.follow()
    assert task.target.query(f"SELECT * FROM `{name}`.moving") == ((1, None, None),)


def test_tables_that_differ_by_case_only_are_healed_each_by_itself(
    scene: SceneFactory, upstream: ThrowawayServer
) -> None:
    keyed, bag = "(id INT PRIMARY KEY)", "(id INT)"
    task = scene({"Orders": keyed, "orders": keyed, "Notes": bag, "notes": keyed})
    name = task.subtasks[0].task
    rows = {"Orders": 1, "orders": 2, "Notes": 3, "notes": 4}
    upstream.execute(f"USE `{name}`", *(f"INSERT INTO `{table}` VALUES ({row})" for table, row in rows.items()))
    task.follow()
    task.target.execute(f"USE `{name}`", *(f"INSERT INTO `{table}` VALUES ({row + 10})" for table, row in rows.items()))
    said = task.heal()
    assert (said["whole"], said["tables"]) == ({}, {f"{name}.{table}": 1 for table in rows})
    task.follow()
    task.demand_equal({f"`{name}`.`{table}`": [f"`{name}`.`{table}`"] for table in rows})


def test_rows_of_another_task_are_not_deleted(
    scene: SceneFactory, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    task = scene({"part_1": "(id INT PRIMARY KEY)"}, merged="(id INT PRIMARY KEY)")
    ours = task.subtasks[0]
    name, elsewhere = ours.task, schema(upstream)
    upstream.execute(f"CREATE TABLE `{elsewhere}`.more (id INT PRIMARY KEY)")
    to_merged = merging(elsewhere, "more").model_copy(update={"target_schema": name})
    other = subtask_for(upstream, target, elsewhere, task=f"{name}_2", source_id="source-2", routes=(to_merged,))

    def heal_beside(*others: SubtaskConfig, dry_run: bool = False) -> None:
        request = replace(task.request(dry_run=dry_run), others=others)
        HealUnit(request, SparkProvider("local[1]", {}, scratch=task.directory / "spark")).run(threading.Event())

    said = refused(heal_beside, other)
    assert f"{name}.merged has rows of task {name}_2 on source-2, too ({elsewhere}.more)" in said
    # An address tells nothing: the other's progress is at this target.
    aliased = other.model_copy(update={"target": endpoint_of(target).model_copy(update={"host": "localhost"})})
    heal_beside(aliased, dry_run=True)
    Scene([upstream], target, [other], task.directory).follow()
    assert f"task {name}_2" in refused(heal_beside, aliased)
    the_same_rows = ours.model_copy(update={"task": f"{name}_3", "mode": "full"})
    heal_beside(the_same_rows, dry_run=True)
