"""A task of several sources whose tables are merged is healed as a whole; each source goes on from its own place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.sourcelog.upstream.connection import read_source_settings
from dm.tools.heal import source as heal_source
from tests.live.heal.scene import Scene, writing
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mariadb")]

KEYED, BAG = "(id INT, s INT, v VARCHAR(20), PRIMARY KEY (s, id))", "(v INT)"
CHANGES = (
    "INSERT INTO part_{s} VALUES ({n}, {s}, 'new')",
    "UPDATE part_{s} SET v = '{n}' WHERE id IN ({low}, {old})",
    "DELETE FROM part_{s} WHERE id = {old} - 5",
    "INSERT INTO bag{s} VALUES ({n}), (7)",
    "DELETE FROM bag{s} WHERE v = 7 LIMIT 1",
)


@pytest.fixture
def scene(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> Scene:
    """Both sources have gone on while the task rests, and the target's rows are of no one moment."""
    name = schema(*upstreams, target)
    target.execute(f"USE `{name}`", f"CREATE TABLE merged {KEYED}", *(f"CREATE TABLE bag{n} {BAG}" for n in (0, 1)))
    for n, upstream in enumerate(upstreams):
        upstream.execute(
            f"USE `{name}`", f"CREATE TABLE part_{n} {KEYED}", f"CREATE TABLE bag{n} {BAG}", "FLUSH BINARY LOGS"
        )
    route = RouteRule(schema_pattern=name, table_pattern="part_*", target_schema=name, target_table="merged")
    subtasks = [
        subtask_for(upstream, target, name, task=name, source_id=f"source-{n}", routes=(route,))
        for n, upstream in enumerate(upstreams)
    ]
    made = Scene(upstreams, target, subtasks, tmp_path)
    made.follow()
    for n, upstream in enumerate(upstreams):
        rows = ", ".join(f"({row}, {n}, 'first')" for row in range(1, 60))
        upstream.execute(f"USE `{name}`", f"INSERT INTO part_{n} VALUES {rows}", f"INSERT INTO bag{n} VALUES (1), (1)")
    made.follow()
    for n, upstream in enumerate(upstreams):
        upstream.execute(
            f"USE `{name}`",
            f"DELETE FROM part_{n} WHERE id BETWEEN 20 AND 25",
            f"UPDATE part_{n} SET v = 'lost' WHERE id = 9",
            f"INSERT INTO part_{n} SELECT id + 100, s, 'lost' FROM part_{n} WHERE id < 5",
        )
    upstreams[0].execute(f"INSERT INTO `{name}`.bag0 VALUES (1), (5)")
    target.execute(
        f"USE `{name}`",
        "DELETE FROM merged WHERE id = 3",
        "UPDATE merged SET v = 'wrong' WHERE id = 40 AND s = 1",
        "INSERT INTO merged VALUES (2000000, 0, 'nobodys')",
        "DELETE FROM bag1 LIMIT 1",
    )
    return made


def name_of(scene: Scene) -> str:
    return scene.subtasks[0].task


def tables(scene: Scene) -> dict[str, Sequence[str]]:
    """By table of the target, those of the sources."""
    name = name_of(scene)
    return {
        f"{name}.merged": (f"{name}.part_0", f"{name}.part_1"),
        f"{name}.bag0": (f"{name}.bag0", ""),
        f"{name}.bag1": ("", f"{name}.bag1"),
    }


def test_all_sources_are_healed_together_while_they_are_written_to(scene: Scene) -> None:
    name = name_of(scene)
    with writing(scene.upstreams, name, CHANGES):
        dry = scene.heal(dry_run=True)
        assert not scene.unfinished()
        said = scene.heal()
    assert set(dry["tables"]) == set(said["tables"]) == {f"{name}.{table}" for table in ("merged", "bag0", "bag1")}
    assert [each["source"] for each in said["sources"]] == ["source-0", "source-1"]
    assert all(each["from"] and each["to"] for each in said["sources"])
    assert said["whole"] == {}
    assert not scene.unfinished()
    scene.follow()
    scene.demand_equal(tables(scene))


POINTS = (
    "heal.begun=kill@1", "heal.begun=kill@2", "heal.inside=kill@2", "heal.written=kill@3", "heal.before_end=kill@1",
    "heal.ended=kill@1", "heal.before_end=kill@2",
)  # fmt: skip


@pytest.mark.chaos
def test_a_heal_of_both_that_was_killed_anywhere_begins_again(scene: Scene) -> None:
    with writing(scene.upstreams, name_of(scene), CHANGES):
        for point in POINTS:
            scene.heal_is_killed(point)
            ended = "heal.ended" in point or point == "heal.before_end=kill@2"
            begun = ["source-0"] if point == POINTS[0] else ["source-0", "source-1"]
            assert scene.unfinished() == (["source-1"] if ended else begun), point
            with pytest.raises(DMError) as refused:
                scene.follow()
            assert refused.value.name == "heal-unfinished"
        scene.heal_is_killed("heal.ended=kill@2")
        assert not scene.unfinished()
    scene.follow()
    scene.demand_equal(tables(scene))


def refused(scene: Scene, *only: int, **options: Any) -> str:
    with pytest.raises(DMError) as raised:
        scene.heal(*only, **options)
    assert raised.value.name == "heal-unsuited"
    return f"{raised.value.message} {raised.value.workaround}"


def test_what_can_not_be_exact_for_several_is_refused_by_name(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    name, target = name_of(scene), scene.target
    alone = refused(scene, 1)
    assert "has rows of source-0, too" in alone
    assert f"`dmctl heal {name}` without `--source`" in alone
    assert "if it is not on source-0 any more, `dmctl start-task <file> -s source-0` first" in alone
    target.execute(f"DROP TABLE `{name}`.merged")
    gone = refused(scene)
    assert f"{name}.merged has rows of source-0, source-1, and the target has no such table" in gone

    def made_anew(form: str) -> None:
        for n, upstream in enumerate(scene.upstreams):
            upstream.execute(f"USE `{name}`", f"DROP TABLE part_{n}", f"CREATE TABLE part_{n} {form}")
        target.execute(f"USE `{name}`", "DROP TABLE IF EXISTS merged", f"CREATE TABLE merged {form}")

    made_anew(BAG)
    assert "several tables without a key are merged into it" in refused(scene)
    made_anew("(id INT, s INT, v INT, PRIMARY KEY (s, id), UNIQUE KEY (v))")
    assert "may take the place of another's" in refused(scene)
    made_anew(KEYED)

    def as_others(session: Any) -> Any:
        found = read_source_settings(session)
        other = "5" if session.port == scene.upstreams[0].port else "6"
        return replace(found, others={**found.others, "div_precision_increment": other})

    monkeypatch.setattr(heal_source, "read_source_settings", as_others)
    assert "compute with other settings" in refused(scene)
    assert not scene.unfinished()


@pytest.mark.chaos
def test_a_key_that_both_sources_have_is_told_and_ends_the_heal(scene: Scene) -> None:
    name = name_of(scene)
    scene.upstreams[1].execute(f"INSERT INTO `{name}`.part_1 VALUES (1, 0, 'another')")
    said = refused(scene)
    assert "several rows of the sources have the key of one" in said
    assert scene.unfinished() == ["source-0", "source-1"]
    scene.upstreams[1].execute(f"DELETE FROM `{name}`.part_1 WHERE s = 0")
    scene.heal()
    scene.follow()
    scene.demand_equal(tables(scene))
