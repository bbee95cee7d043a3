"""`--start-time` back over what was done: tables that went in order stay, all others come to the same end again."""

from __future__ import annotations

from contextlib import closing

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.checkpoint import begin_at, read_checkpoint
from dm.rules.table_rules import TableRules
from dm.task.progress import key_of
from tests.live.syncer.apply.test_ordered_tables import CHANGES, caught_up, create, killed, merging, stored
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]


def place(subtask: SubtaskConfig) -> Position:
    """The checkpoint."""
    with closing(TargetConnection(subtask.target)) as connection:
        checkpoint = read_checkpoint(connection, key_of(subtask))
    assert checkpoint is not None
    return checkpoint.position


def back_to(subtask: SubtaskConfig, position: Position) -> None:
    """What `--start-time` does."""
    with closing(TargetConnection(subtask.target)) as connection:
        begin_at(connection, key_of(subtask), position, TableRules(subtask).route)


def written(subtask: SubtaskConfig, upstream: ThrowawayServer, name: str, *changes: str) -> Position:
    """Follow these changes one by one; gives where they began."""
    caught_up(subtask)
    start = place(subtask)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        for change in changes:
            upstream.execute(change.format(name=name))
            sync.wait_synced()
    return start


FIRST = "INSERT INTO `{name}`.t VALUES (1, 1), (1, 1), (2, 2)"
LAST = "INSERT INTO `{name}`.t VALUES (4, 4), (4, 4)"


@pytest.mark.parametrize(
    "ddl",
    [
        ("TRUNCATE TABLE `{name}`.t",),
        ("DROP TABLE `{name}`.t", "CREATE TABLE `{name}`.t (k INT NOT NULL, v INT)"),
        ("ALTER TABLE `{name}`.t DROP COLUMN v", "ALTER TABLE `{name}`.t ADD COLUMN v INT DEFAULT 0"),
    ],
    ids=["truncate", "drop", "column"],
)
def test_a_statement_that_took_rows_of_a_table_without_a_key_is_not_executed_again(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, ddl: tuple[str, ...]
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t", key="")
        create(server, name, "keyed")
    subtask = subtask_for(upstream, target, name, task=name)
    start = written(subtask, upstream, name, FIRST, *ddl, LAST, "INSERT INTO `{name}`.keyed VALUES (1, 1)")
    back_to(subtask, start)
    target.execute(f"DELETE FROM `{name}`.keyed")  # to see that the replay has been there
    caught_up(subtask)
    upstream.execute(LAST.format(name=name), f"UPDATE `{name}`.t SET v = v + 1 WHERE k = 4 LIMIT 1")
    caught_up(subtask)
    for table in ("t", "keyed"):
        rows = f"SELECT k, v FROM `{name}`.{table} ORDER BY k, v"
        assert target.query(rows) == upstream.query(rows)


def test_a_table_that_had_no_key_then_stays_as_it_is_up_to_where_it_got_one(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t", key="")
    subtask = subtask_for(upstream, target, name, task=name)
    one_goes = "DELETE FROM `{name}`.t WHERE k = 1 LIMIT 1"
    gets_key = "ALTER TABLE `{name}`.t ADD PRIMARY KEY (k)"
    by_key = ("UPDATE `{name}`.t SET v = 3 WHERE k = 2", "INSERT INTO `{name}`.t VALUES (5, 5)")
    start = written(subtask, upstream, name, FIRST, one_goes, gets_key, *by_key)
    for _ in range(2):
        back_to(subtask, start)
        target.execute(f"UPDATE `{name}`.t SET v = 0 WHERE k = 5")  # what comes after the key is done again
        caught_up(subtask)
        rows = f"SELECT k, v FROM `{name}`.t ORDER BY k"
        assert target.query(rows) == upstream.query(rows)
    upstream.execute(f"DELETE FROM `{name}`.t WHERE k = 1")
    caught_up(subtask)
    assert target.query(rows) == upstream.query(rows)


def test_a_merged_table_stays_as_it_is_although_ddl_of_another_comes_first(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(upstream, name, "t1", of="VARCHAR(20)")
    create(upstream, name, "t2")  # its numbers are no keys of texts
    create(target, name, "t", of="VARCHAR(20)")
    subtask = subtask_for(upstream, target, name, task=name, routes=(merging(name),))
    start = written(
        subtask,
        upstream,
        name,
        "CREATE TABLE `{name}`.other (k INT PRIMARY KEY)",
        "INSERT INTO `{name}`.t1 VALUES ('a', 1), ('b', 1)",
        "INSERT INTO `{name}`.t2 VALUES (5, 1)",
        "UPDATE `{name}`.t1 SET v = 7 WHERE k = 'a'",
        "DELETE FROM `{name}`.t1 WHERE k = 'b'",
        "UPDATE `{name}`.t2 SET v = 8",
    )
    back_to(subtask, start)
    for change in ("INSERT INTO `{name}`.t1 VALUES ('z', 1)", "UPDATE `{name}`.t2 SET v = 9"):
        caught_up(subtask)
        upstream.execute(change.format(name=name))
    caught_up(subtask)
    assert target.query(f"SELECT k, v FROM `{name}`.t ORDER BY k") == (("5", 9), ("a", 7), ("z", 1))


def test_what_lies_before_a_checkpoint_that_moved_back_is_done(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t")
    subtask = subtask_for(upstream, target, name, task=name)
    start = written(subtask, upstream, name, *CHANGES)
    killed(subtask, upstream, f"UPDATE `{name}`.t SET v = v * 2")
    caught_up(subtask)
    target.execute(f"ALTER TABLE `{name}`.t DROP PRIMARY KEY")
    back_to(subtask, start)
    upstream.execute(f"UPDATE `{name}`.t SET v = v + 1 WHERE k = 1")
    caught_up(subtask)
    rows = f"SELECT k, v FROM `{name}`.t ORDER BY k"
    assert target.query(rows) == upstream.query(rows)
    assert stored(subtask, target) == ["done", "reached", "t"]


def test_a_key_that_is_lost_while_rows_are_put_again_stops_the_task(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        create(server, name, "t")
        create(server, name, "other")
    subtask = subtask_for(upstream, target, name, task=name)
    start = written(
        subtask,
        upstream,
        name,
        "INSERT INTO `{name}`.t VALUES (1, 1), (2, 2)",
        "INSERT INTO `{name}`.other VALUES (1, 1)",
        "UPDATE `{name}`.t SET v = 7 WHERE k = 1",
        "DELETE FROM `{name}`.t WHERE k = 2",
    )
    back_to(subtask, start)
    target.execute(f"RENAME TABLE `{name}`.other TO `{name}`.away")
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "structure-unknown"
    target.execute(f"RENAME TABLE `{name}`.away TO `{name}`.other", f"ALTER TABLE `{name}`.t DROP PRIMARY KEY")
    for again in (False, True):
        if again:
            back_to(subtask, start)
        error = RunningSync(subtask, None).wait_ended()
        assert isinstance(error, DMError)
        assert error.name == "replay-out-of-order"
    target.execute(f"ALTER TABLE `{name}`.t ADD PRIMARY KEY (k)")
    caught_up(subtask)
    rows = f"SELECT k, v FROM `{name}`.t ORDER BY k"
    assert target.query(rows) == upstream.query(rows)
