"""What the target refused is not taken for done by the next run, whatever other lanes have committed after it."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from dm.config.rules import RouteRule
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.lane_rows import CONTROL
from dm.progress.tables import SubtaskKey, create_tables
from dm.progress.takeover import Fence, UndoneKeys, digests, store_undone, take_over, take_undone
from tests.live.relay.relaying import end_of
from tests.testbed.fake_clock import FakeClock
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

FIRST, AFTER = 400, 1200


def merged(
    upstream: ThrowawayServer, target: ThrowawayServer, name: str, *backlog: str, workers: int = 4
) -> SubtaskConfig:
    """A task that is up to date, with two tables that go into one, and then a backlog."""
    upstream.execute(*(f"CREATE TABLE `{name}`.t{n} (id INT PRIMARY KEY, v INT)" for n in (1, 2)))
    target.execute(f"CREATE TABLE `{name}`.t (id INT PRIMARY KEY, v INT)")
    route = RouteRule(schema_pattern=name, table_pattern="t?", target_schema=name, target_table="t")
    subtask = subtask_for(upstream, target, name, task=name, routes=(route,), workers=workers)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    upstream.execute(*backlog)
    return subtask


def conflict(name: str) -> list[str]:
    """Rows with a conflict in their middle."""
    return [
        f"INSERT INTO `{name}`.t1 VALUES (1, 1)",
        *(f"INSERT INTO `{name}`.t1 VALUES ({n}, 0)" for n in range(10, FIRST)),
        f"INSERT INTO `{name}`.t2 VALUES (1, 2), (2, 2)",
        *(f"INSERT INTO `{name}`.t1 VALUES ({n}, 0)" for n in range(1000, 1000 + AFTER)),
    ]


def failure(subtask: SubtaskConfig) -> DMError:
    """The error that a run ends with."""
    error = RunningSync(subtask, None).wait_ended()
    assert isinstance(error, DMError)
    return error


def test_a_row_that_was_refused_is_refused_until_a_person_decides(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merged(upstream, target, name, *conflict(name))
    for _ in range(3):
        error = failure(subtask)
        assert error.name == "duplicate-key"
        assert target.query(f"SELECT v FROM `{name}`.t WHERE id = 1") == ((1,),)
    target.execute(f"DELETE FROM `{name}`.t WHERE id = 1")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert target.query(f"SELECT id, v FROM `{name}`.t WHERE id < 10 ORDER BY id") == ((1, 2), (2, 2))
    assert target.query(f"SELECT COUNT(*) FROM `{name}`.t") == ((2 + FIRST - 10 + AFTER,),)


def test_what_the_source_did_before_is_there_when_a_row_is_refused(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    backlog = [f"INSERT INTO `{name}`.t1 VALUES (1, 1)", f"INSERT INTO `{name}`.t2 VALUES (1, 2)"]
    subtask = merged(upstream, target, name, *backlog, workers=1)  # so they are in one batch
    for _ in range(2):
        assert failure(subtask).name == "duplicate-key"
        assert target.query(f"SELECT v FROM `{name}`.t") == ((1,),)


@pytest.mark.parametrize("workers", [1, 4])
def test_among_many_small_transactions_it_is_the_refused_one_that_is_named(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, workers: int
) -> None:
    """They come to the lanes together, and a person decides about one of them."""
    name = schema(upstream, target)
    before = [f"INSERT INTO `{name}`.t1 VALUES ({n}, 1)" for n in range(10, FIRST)]
    subtask = merged(upstream, target, name, *before, workers=workers)
    place = end_of(upstream)
    upstream.execute(
        f"INSERT INTO `{name}`.t2 VALUES (11, 2)",
        *(f"INSERT INTO `{name}`.t1 VALUES ({n}, 2)" for n in range(1000, 1020)),
    )
    for _ in range(2):
        error = failure(subtask)
        assert (error.name, error.position) == ("duplicate-key", "({}, {})".format(*place))
        assert target.query(f"SELECT COUNT(*) FROM `{name}`.t WHERE v = 1") == ((len(before),),)
    table = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source.source_id).checkpoint
    stored = target.query(f"SELECT binlog_name, binlog_pos FROM {table.sql} WHERE is_global")
    assert stored == (place,), "nothing before it is done again"


def test_safe_mode_of_the_task_file_lets_the_later_row_win(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    subtask = merged(upstream, target, name, *conflict(name))
    assert failure(subtask).name == "duplicate-key"
    wanted = subtask.model_copy(update={"syncer": subtask.syncer.model_copy(update={"safe_mode": True})})
    with running_sync(wanted) as sync:
        sync.wait_synced()
    assert target.query(f"SELECT id, v FROM `{name}`.t WHERE id < 10 ORDER BY id") == ((1, 2), (2, 2))


def test_the_record_is_read_once(target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(target)
    subtask = subtask_for(target, target, name, task=name)
    key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source.source_id)
    left = {
        ("a", "binlog.000009", 4): UndoneKeys(None),
        ("a", "binlog.000010", 4): UndoneKeys(digests([("t(id)", 1), ("t(n)", b"\xff", "é", 1.5)])),
    }
    with closing(TargetConnection(subtask.target)) as connection:
        create_tables(connection, key)
        claim = take_over({CONTROL: connection}, Fence(key, FakeClock(), threading.Event(), lambda _: None)).claims[
            CONTROL
        ]
        store_undone(connection, claim, left)
        assert take_undone(connection, claim).transactions == left
        assert take_undone(connection, claim).transactions == {}
