"""`dmctl update-task --cancel` after the source has gone on: nothing that the load has made is left at the target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.task.join_requests import add, added_tables, cancel_add
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, rows
from tests.spark.test_added_tables import grown, with_list
from tests.spark.test_reload_table import TABLES, identical, task_of
from tests.testbed.join_kills import Death
from tests.testbed.joining import Task, joining_of
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark]

FOUND = (*TABLES, "CREATE TABLE key_found (id INT PRIMARY KEY, v INT)")
MEANWHILE = (
    "CREATE TABLE key_new (id INT PRIMARY KEY, v INT)",
    "INSERT INTO key_new VALUES (1, 1), (2, 2)",
    "RENAME TABLE keyless TO key_less",
    "CREATE TABLE key_like LIKE key_new",
    "INSERT INTO key_like VALUES (1, 1)",
)


def change(load: FullLoad, *statements: str) -> None:
    """At the source."""
    load.upstream.execute(f"USE `{load.schema}`", *statements)


def tables(load: FullLoad) -> set[str]:
    """Those of the target."""
    return {name for (name,) in rows(load.target, f"SHOW TABLES FROM `{load.target_schema}`")}


def begun(load: FullLoad) -> tuple[Task, SubtaskConfig]:
    """A task that gets a longer list; the tables are loaded, and main does not come for them."""
    task = task_of(load, with_list(load, "other"))
    after, added = grown(load, task)
    add(task.subtask, added)
    with task.following(after):
        wait_until(lambda: task.phase() == "out", "the tables may be loaded")
    change(load, "CREATE TABLE key_early (id INT PRIMARY KEY)", "INSERT INTO key_early VALUES (1)")
    with task.joining(after, ends=False):
        wait_until(lambda: task.phase() == "near", "the tables are loaded", 120)
    return task, after


def taken_away(task: Task, after: SubtaskConfig) -> None:
    """The addition is cancelled, and what it brought is gone."""
    assert cancel_add(after)
    with task.following() as sync, task.joining():
        sync.wait_synced()
    assert not task.phase()


def added_again(load: FullLoad, task: Task) -> None:
    """Rows go at the source, and the tables are added once more."""
    change(load, "DELETE FROM key_new WHERE id = 1", "DELETE FROM key_less WHERE v = 1 LIMIT 1", "DELETE FROM keyed")
    after, added = grown(load, task)
    assert not added.filled
    add(task.subtask, added)
    with task.following(after), task.joining(after):
        wait_until(lambda: not task.phase(), "the tables have joined", 120)
    with task.following(after) as sync:
        sync.wait_synced()
    identical(load)


@pytest.mark.ci_flavor("mysql")
def test_tables_that_came_meanwhile_are_dropped(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *TABLES)
    task, after = begun(load)
    with task.joining(after, ends=False):
        change(load, *MEANWHILE)
        wait_until(lambda: "key_like" in tables(load), "the share follows")
        wait_until(lambda: bool(rows(target, f"SELECT 1 FROM `{load.target_schema}`.key_like")), "with rows")
    assert tables(load) == {"other", "keyed", "key_early", "key_less", "key_new", "key_like"}
    taken_away(task, after)
    assert tables(load) == {"other"}
    added_again(load, task)


@pytest.mark.ci_flavor("mariadb")
def test_a_table_that_was_there_is_kept_whatever_its_name_is_by_now(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *FOUND)
    target.execute(
        f"CREATE DATABASE IF NOT EXISTS `{load.target_schema}`",
        f"CREATE TABLE `{load.target_schema}`.key_found (id INT PRIMARY KEY, v INT)",
        f"INSERT INTO `{load.target_schema}`.key_found VALUES (77, 7)",
    )
    task, after = begun(load)
    with task.joining(after, ends=False):
        change(load, "RENAME TABLE key_found TO key_moved", *MEANWHILE)
        wait_until(lambda: "key_like" in tables(load), "the share follows")
    taken_away(task, after)
    assert tables(load) == {"other", "key_moved"}
    assert rows(target, f"SELECT id FROM `{load.target_schema}`.key_moved") == [(77,)]
    # What is there is said before it is loaded into.
    filled = added_tables(task.subtask, after, {}).filled
    assert [table.table for table in filled] == ["key_moved"]
    target.execute(f"TRUNCATE TABLE `{load.target_schema}`.key_moved")
    added_again(load, task)


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("statement", [1, 2])
@pytest.mark.parametrize("point", ["join.noted", "syncer.before_ddl", "syncer.after_ddl"])
def test_nothing_is_left_where_the_share_dies_in_a_statement(
    point: str,
    statement: int,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    full_load: LoadFactory,
    tmp_path: Path,
) -> None:
    load = full_load(upstream, target, *TABLES)
    task, after = begun(load)
    change(load, *MEANWHILE)
    # The second one renames a table.
    Death(point, tmp_path, statement).strikes(replace(task, subtask=after))
    found = joining_of(task.subtask)
    assert found is not None
    noted = {table.table for table in found.targets}
    assert noted - {"keyed", "keyless", "key_early"} == ({"key_new"} if statement == 1 else {"key_new", "key_less"})
    assert cancel_add(after)
    for fault in ("join.forgotten", "join.dropped"):  # and it dies twice while it removes them
        Death(fault, tmp_path).strikes(task)
    with task.following() as sync, task.joining():
        sync.wait_synced()
    assert tables(load) == {"other"}
    added_again(load, task)
