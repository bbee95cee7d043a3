"""`dmctl update-task`: a longer list of a running task; its new tables are loaded beside it and join."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dm.config.rules import BlockAllowList, TablePattern
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.task.join_requests import Added, add, added_tables, adding, cancel_add
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad
from tests.spark.test_reload_table import TABLES, identical, task_of, writing
from tests.testbed.join_kills import OF_MAIN, OF_THE_SHARE, Death
from tests.testbed.joining import Task
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mariadb")]


def lists(load: FullLoad, *tables: str) -> BlockAllowList:
    """A list with these tables."""
    return BlockAllowList(do_tables=tuple(TablePattern(db_name=load.schema, tbl_name=table) for table in tables))


def with_list(load: FullLoad, *tables: str) -> SubtaskConfig:
    """The task with such a list."""
    return load.subtask().model_copy(update={"block_allow_list": lists(load, *tables)})


def grown(load: FullLoad, task: Task) -> tuple[SubtaskConfig, Added]:
    """The task that wants all tables, and what it adds."""
    after = with_list(load, "other", "key*", "later")
    return after, added_tables(task.subtask, after, {})


def add_in_spite_of(
    load: FullLoad, death: Death, strikes: Callable[[Task], None] | None = None, pause: float = 0.01
) -> None:
    """Tables are added to a task, and whatever dies meanwhile, in the end all is identical; `strikes` is of `death`."""
    task = task_of(load, with_list(load, "other"))
    with task.following() as sync:
        sync.wait_synced()
    after, added = grown(load, task)
    add(task.subtask, added)
    longer = replace(task, subtask=after)
    with writing(load, pause):
        (strikes or death.strikes)(longer)
        death.goes_on(longer)
    assert not task.phase()
    with longer.following() as sync:
        sync.wait_synced()
    identical(load)


def test_added_tables_join_the_stream(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *TABLES)
    task = task_of(load, with_list(load, "other"))
    with writing(load):
        with task.following() as sync:
            wait_until(lambda: sync.unit.status().get("totalRows") not in (None, 0), "the task has begun")
        after, added = grown(load, task)
        assert {table.table for table in added.tables} == {"keyed", "keyless"}
        assert added.missing == tuple(TableName(load.target_schema, name) for name in ("keyed", "keyless"))
        add(task.subtask, added)
        # A daemon that died here has a task with the list of before; the tables are nobody's yet.
        with task.following():
            assert task.phase() == "asked"
        add(task.subtask, added)  # the verb again
        with task.following(after) as sync, task.joining(after):
            wait_until(lambda: task.phase() not in ("asked", "out"), "the tables are loaded")
            upstream.execute(
                f"CREATE TABLE `{load.schema}`.later (id INT PRIMARY KEY)",
                f"INSERT INTO `{load.schema}`.later VALUES (1)",
            )
    with task.following(after) as sync:
        upstream.execute(f"INSERT INTO `{load.schema}`.later VALUES (2)")
        sync.wait_synced()
    identical(load)


def test_added_tables_are_taken_back(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *TABLES)
    task = task_of(load, with_list(load, "other"))
    after, added = grown(load, task)
    add(task.subtask, added)
    assert adding({"source-1": after}) == ["source-1"]
    with task.following(after):
        wait_until(lambda: task.phase() == "out", "the tables may be loaded")
    target.execute(f"CREATE TABLE `{load.target_schema}`.keyed (id INT PRIMARY KEY)")  # as a load may have done
    assert cancel_add(after)
    with task.following() as sync, task.joining():
        sync.wait_synced()
    assert not task.phase()
    assert target.query(f"SHOW TABLES FROM `{load.target_schema}`") == (("other",),)
    assert not cancel_add(after)


@pytest.mark.chaos
@pytest.mark.parametrize("point", [*OF_THE_SHARE, *OF_MAIN])
def test_an_addition_survives_a_kill_at_each_point(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    add_in_spite_of(full_load(upstream, target, *TABLES), Death(point, tmp_path))


@pytest.mark.chaos
@pytest.mark.parametrize("point", [*OF_THE_SHARE, *OF_MAIN])
def test_an_addition_is_taken_back_after_a_kill_at_each_point(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES)
    task, death = task_of(load, with_list(load, "other")), Death(point, tmp_path)
    with task.following() as sync:
        sync.wait_synced()
    after, added = grown(load, task)
    longer = replace(task, subtask=after)
    with writing(load):
        add(task.subtask, added)
        death.strikes(longer)
        assert cancel_add(after) == (point != "join.returned")  # then they have joined
        if point != "join.returned":
            for fault in ("join.forgotten", "join.dropped"):  # and it dies twice while it removes them
                Death(fault, tmp_path).strikes(task)
            with task.following() as sync, task.joining():
                sync.wait_synced()
            assert target.query(f"SHOW TABLES FROM `{load.target_schema}`") == (("other",),)
            add(task.subtask, added)
            with longer.following(), longer.joining():
                wait_until(lambda: not task.phase(), "the tables have joined", 120)
    with longer.following() as sync:
        sync.wait_synced()
    identical(load)


def test_a_list_that_cannot_be_taken_is_refused(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *TABLES)
    before = with_list(load, "other", "keyed")
    with pytest.raises(DMError, match="does not want it any more"):
        added_tables(before, with_list(load, "other"), {})
    moved = tuple(rule.model_copy(update={"target_schema": "elsewhere"}) for rule in before.routes)
    with pytest.raises(DMError, match=r"by the file it goes into `elsewhere`\.`keyed`"):
        added_tables(before, before.model_copy(update={"routes": moved}), {})
    other = before.model_copy(update={"block_allow_list": lists(load, "keyless")})
    with pytest.raises(DMError, match="which the task has already"):
        added_tables(before, with_list(load, "other", "key*"), {"source-2": other})
    syncer = before.syncer.model_copy(update={"atomic_transactions": True})
    with pytest.raises(DMError, match="atomic-transactions"):
        added_tables(before, with_list(load, "other", "key*").model_copy(update={"syncer": syncer}), {})
    assert added_tables(before, before, {}) == Added((), ())
