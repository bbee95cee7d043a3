"""`dmctl reload-table`: a table is emptied and loaded again while its task follows the source."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.unit import LoadUnit
from dm.task.join_requests import cancel_reload, reload
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside, dump_unit
from tests.testbed.join_kills import OF_MAIN, OF_THE_SHARE, Death
from tests.testbed.joining import Task
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, v VARCHAR(20))",
    "CREATE TABLE keyless (v INT)",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
    "INSERT INTO keyed VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "INSERT INTO keyless VALUES (1), (1), (2)",
    "INSERT INTO other VALUES (1, 1)",
)

NUMBERS = itertools.count(100_000)  # of rows, also where a test writes several times


def task_of(load: FullLoad, subtask: SubtaskConfig | None = None) -> Task:
    """The task after its first load."""
    config = subtask or load.subtask()
    # After a dump of a MySQL the stream reads the current file from its beginning (`lower_bound`). The servers are
    # those of all tests of a process, and a file with the writes of a hundred others takes minutes where many run.
    load.upstream.execute("FLUSH BINARY LOGS")
    dump_unit(config, load.storage, load.spark).run(threading.Event())
    LoadUnit(config, load.storage, load.spark).run(threading.Event())
    return Task(config, load.directory.with_name("task"), load.spark)


@contextmanager
def writing(load: FullLoad, pause: float = 0.01) -> Iterator[None]:
    """A workload on all tables until the block is over."""
    over = threading.Event()

    def write() -> None:
        while not over.wait(pause):
            number = next(NUMBERS)
            load.upstream.execute(
                f"USE `{load.schema}`",
                f"INSERT INTO keyed (id, v) VALUES ({number}, 'new')",
                f"UPDATE keyed SET v = '{number}' WHERE id IN (1, {number - 5})",
                f"DELETE FROM keyed WHERE id = {number - 9}",
                f"INSERT INTO keyless (v) VALUES ({number}), (7)",
                "DELETE FROM keyless WHERE v = 7 LIMIT 1",
                f"INSERT INTO other VALUES ({number}, 1)",
            )

    with beside(write):
        try:
            yield
        finally:
            over.set()


def identical(load: FullLoad) -> None:
    """The target has what the source has."""
    report = load.report()
    assert report.identical, str(report)


def loaded_again(task: Task, load: FullLoad, table: str, *, anew: bool) -> None:
    """Reload it and alter it on the way."""
    asked = reload({"source-1": task.subtask}, TableName(load.schema, table), None, anew=anew)
    assert asked.target == TableName(load.target_schema, table)
    with task.following() as sync, task.joining() as unit:
        wait_until(lambda: sync.unit.status().get("joining") is not None or not task.phase(), "it is shown")
        # Before it is read, a table that is only emptied would not fit the dump any more.
        wait_until(lambda: anew or unit.status()["unit"] in ("Load", "Sync") or not task.phase(), "it is read")
        load.upstream.execute(f"ALTER TABLE `{load.schema}`.{table} ADD COLUMN w INT DEFAULT 5")


@pytest.mark.ci_flavor("mysql")
def test_tables_are_loaded_again_while_the_task_runs(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *TABLES)
    task, copy = task_of(load), load.target_schema
    with task.following() as sync:
        sync.wait_synced()
    target.execute(
        f"DELETE FROM `{copy}`.keyed WHERE id = 2",
        f"UPDATE `{copy}`.keyed SET v = 'wrong' WHERE id = 3",
        f"INSERT INTO `{copy}`.keyed VALUES (99, 'nobody')",
        f"DELETE FROM `{copy}`.keyless WHERE v = 1",
        f"ALTER TABLE `{copy}`.keyless ADD COLUMN nobodys INT",
    )
    with writing(load):
        loaded_again(task, load, "keyed", anew=False)
        loaded_again(task, load, "keyless", anew=True)
    with task.following() as sync:
        status = sync.wait_synced()
        assert "joining" not in status
    identical(load)
    share = f"{task.subtask.task}~join"
    for left in ("syncer_checkpoint", "loader_checkpoint"):
        assert not target.query(f"SELECT * FROM `{load.meta_schema}`.`{share}_{left}`")


@contextmanager
def spoiled(load: FullLoad, task: Task) -> Iterator[None]:
    """The rows of two tables are gone from the target; in the end all is identical."""
    with task.following() as sync:
        sync.wait_synced()
    load.target.execute(f"DELETE FROM `{load.target_schema}`.keyed", f"DELETE FROM `{load.target_schema}`.keyless")
    yield
    with task.following() as sync:
        sync.wait_synced()
    identical(load)


@pytest.mark.timeout(480)  # two reloads, killed three times
@pytest.mark.ci_flavor("mysql")
def test_a_reload_survives_a_kill_of_each_stream(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES)
    task = task_of(load)
    with spoiled(load, task):
        for table in ("keyed", "keyless"):
            reload({"source-1": task.subtask}, TableName(load.schema, table), None)
            with writing(load):
                if table == "keyed":
                    Death("join.emptied", tmp_path).strikes(task)
                Death("join.before_return", tmp_path).strikes(task)
                if table == "keyed":
                    assert task.phase() == "ready"
                with task.following(), task.joining():
                    wait_until(lambda: not task.phase(), "the table has joined", 120)


@pytest.mark.chaos
@pytest.mark.parametrize("point", [*OF_THE_SHARE, *OF_MAIN])
def test_a_reload_survives_a_kill_at_each_point(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES)
    task, death = task_of(load), Death(point, tmp_path)
    with spoiled(load, task):
        for table in ("keyed", "keyless"):
            reload({"source-1": task.subtask}, TableName(load.schema, table), None)
            with writing(load):
                death.strikes(task)
                death.goes_on(task)
            assert not task.phase()


@pytest.mark.chaos
@pytest.mark.parametrize("point", [*OF_THE_SHARE, "join.called", "join.before_return"])
def test_a_reload_that_was_killed_can_be_begun_again_but_not_taken_back(
    point: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(upstream, target, *TABLES)
    task, death, configs = task_of(load), Death(point, tmp_path), {"source-1": load.subtask()}
    with spoiled(load, task), writing(load):
        for table in ("keyed", "keyless"):
            reload(configs, TableName(load.schema, table), None)
            death.strikes(task)
            with pytest.raises(DMError) as raised:
                cancel_reload(configs)
            assert raised.value.name == "joining-too-late"
            target.execute(f"DELETE FROM `{load.target_schema}`.{table} LIMIT 1")
            reload(configs, TableName(load.schema, table), None, anew=table == "keyed")
            assert task.phase() == "emptying"
            death.goes_on(task)


@pytest.mark.ci_flavor("mysql")
def test_what_cannot_be_exact_is_refused(
    upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(upstream, target, *TABLES)
    subtask = load.subtask()
    syncer = subtask.syncer.model_copy(update={"atomic_transactions": True})
    refused = {
        "shard-mode": subtask.model_copy(update={"shard_mode": "pessimistic"}),
        "atomic-transactions": subtask.model_copy(update={"syncer": syncer}),
        "foreign keys": subtask.model_copy(update={"foreign_key_checks": True}),
    }
    table = TableName(load.schema, "keyed")
    for word, config in refused.items():
        with pytest.raises(DMError, match=word) as raised:
            reload({"source-1": config}, table, None)
        assert raised.value.name == "joining-refused"
    with pytest.raises(DMError, match="has no such table"):
        reload({"source-1": subtask}, TableName(load.schema, "nothing"), None)
    other = subtask.model_copy(update={"source": subtask.source.model_copy(update={"source_id": "source-2"})})
    with pytest.raises(DMError, match="rows of source source-2"):
        reload({"source-1": subtask, "source-2": other}, table, None)
    reload({"source-1": subtask}, table, None)
    with pytest.raises(DMError) as raised:
        reload({"source-1": subtask}, TableName(load.schema, "other"), None)
    assert raised.value.name == "joining-exists"
