"""A target that was restored from an older backup: with its progress, with rows alone, or without any progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from tests.live.heal.scene import Scene, writing
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

TABLES = ("uniques", "plain", "bag")
CHANGES = (
    "UPDATE uniques SET u = NULL WHERE id = {low}",
    "REPLACE INTO uniques VALUES ({low}, {n}, 'new')",
    "INSERT INTO plain VALUES ({n}, 'new')",
    "UPDATE plain SET v = '{n}' WHERE id IN ({low}, {old})",
    "DELETE FROM plain WHERE id = {old} - 5",
    "INSERT INTO bag VALUES ({n}), (7)",
    "DELETE FROM bag WHERE v = 7 LIMIT 1",
)


class Backup:
    """A copy of schemas, kept at the server."""

    def __init__(self, target: ThrowawayServer, *schemas: str) -> None:
        self._target = target
        self._schemas = schemas
        for schema in schemas:
            target.execute(f"CREATE DATABASE `{schema}_kept`")
            for table in self._tables(schema):
                target.execute(
                    f"CREATE TABLE `{schema}_kept`.`{table}` LIKE `{schema}`.`{table}`",
                    f"INSERT INTO `{schema}_kept`.`{table}` SELECT * FROM `{schema}`.`{table}`",
                )

    def _tables(self, schema: str) -> list[str]:
        return [str(row[0]) for row in self._target.query(f"SHOW TABLES FROM `{schema}`")]

    def restore(self, schema: str) -> None:
        """Make the schema what it was."""
        for table in set(self._tables(schema)) - set(self._tables(f"{schema}_kept")):
            self._target.execute(f"DROP TABLE `{schema}`.`{table}`")
        for table in self._tables(f"{schema}_kept"):
            self._target.execute(
                f"DELETE FROM `{schema}`.`{table}`",
                f"INSERT INTO `{schema}`.`{table}` SELECT * FROM `{schema}_kept`.`{table}`",
            )

    def forget(self) -> None:
        """Drop the copies."""
        for schema in self._schemas:
            self._target.execute(f"DROP DATABASE `{schema}_kept`")


@pytest.mark.parametrize(
    "restored",
    [
        "rows",  # the progress is ahead of them
        pytest.param("rows and progress", marks=pytest.mark.chaos),  # of one moment, long before the source's end
        pytest.param("no progress", marks=pytest.mark.chaos),  # the backup had none
    ],
)
def test_it_goes_on_with_the_sources_rows(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path, restored: str
) -> None:
    name = schema(upstream, target)
    for each in (upstream, target):
        each.execute(
            f"USE `{name}`",
            "CREATE TABLE uniques (id INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(20))",
            "CREATE TABLE plain (id INT PRIMARY KEY, v VARCHAR(20))",
            "CREATE TABLE bag (v INT)",
        )
    upstream.execute("FLUSH BINARY LOGS")
    scene = Scene([upstream], target, [subtask_for(upstream, target, name, task=name)], tmp_path)
    scene.follow()
    values = range(1, 60)
    upstream.execute(
        f"USE `{name}`",
        "INSERT INTO uniques VALUES " + ", ".join(f"({row}, {row}, 'first')" for row in values),
        "INSERT INTO plain VALUES " + ", ".join(f"({row}, 'first')" for row in values),
        "INSERT INTO bag VALUES (1), (1), (2)",
    )
    scene.follow()
    meta = scene.subtasks[0].meta_schema
    backup = Backup(target, name, meta)
    try:
        upstream.execute(
            f"USE `{name}`", "UPDATE uniques SET u = -u WHERE id IN (7, 50)", "UPDATE uniques SET u = 50 WHERE id = 7",
            "UPDATE uniques SET u = 7 WHERE id = 50", "DELETE FROM plain WHERE id BETWEEN 20 AND 30",
            "INSERT INTO bag VALUES (1), (3)", "DELETE FROM bag WHERE v = 2",
        )  # fmt: skip
        scene.follow()
        backup.restore(name)
        if restored == "rows and progress":
            backup.restore(meta)
        elif restored == "no progress":
            target.execute(f"DROP DATABASE `{meta}`")
        with writing([upstream], name, CHANGES):
            scene.heal_is_killed("heal.inside=kill@2")
            assert scene.unfinished() == ["source-1"]
            with pytest.raises(DMError) as refused:
                scene.follow()
            assert refused.value.name == "heal-unfinished"
            said = scene.heal()
        assert said["whole"] == {}
        scene.follow()
        scene.demand_equal({f"{name}.{table}": [f"{name}.{table}"] for table in TABLES})
    finally:
        backup.forget()
