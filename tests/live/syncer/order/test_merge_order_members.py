"""Sources that join a running `merge-order`, and leave it, as docs/sharding.md says it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dm.config.subtask import SubtaskConfig
from dm.config.units import CommitTimeOrder
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.syncer.merge_order import LOOK_SECONDS
from dm.task.start_and_end import AskedEnd, until_of
from tests.live.syncer.errors.test_operators import place
from tests.live.syncer.order.test_merge_order import content, late, subtasks_of
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, wait_until

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

Servers = tuple[ThrowawayServer, ThrowawayServer, ThrowawayServer]
FILE = CommitTimeOrder(sources=("source-1", "source-2", "source-3"), hold=300)
SHORTER = CommitTimeOrder(sources=("source-1", "source-2"), hold=300)
ALONE = CommitTimeOrder(sources=("source-1",), hold=300)


@pytest.fixture
def servers(park: ServerPark, flavor: Flavor) -> Servers:
    one, two, three = (park.shared(flavor, f"upstream-{number}") for number in (1, 2, 3))
    return one, two, three


def without_the_third(subtask: SubtaskConfig) -> SubtaskConfig:
    """The subtask of a file that names two sources."""
    neighbours = tuple(source for source in SHORTER.sources if source != subtask.source.source_id)
    return subtask.model_copy(update={"order": SHORTER, "neighbours": neighbours})


def wait_standing(running: RunningSync, source: str = "source-3") -> None:
    """Wait until it stands for the source, and perhaps for another that does."""

    def stands() -> bool:
        found = running.unit.status()["mergeOrder"]
        assert isinstance(found, dict)
        held_by = found["waitsFor"]
        assert isinstance(held_by, list)
        return source in held_by

    wait_until(stands, f"it waits for {source}")


def next_second(server: ThrowawayServer) -> None:
    """Wait until the server's clock, of which MariaDB's binlog has whole seconds, is in another second than now."""
    (now,) = server.query("SELECT UNIX_TIMESTAMP()")[0]
    wait_until(lambda: server.query("SELECT UNIX_TIMESTAMP()")[0][0] != now, "the clock goes on")


def test_a_source_that_joins_is_waited_for_from_then_on(
    servers: Servers, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*servers, target)
    one, two, three = servers
    subtasks = subtasks_of(name, servers, target, FILE)
    one.execute(f"INSERT INTO {name}.t VALUES (1, 1)")
    with (
        running_sync(without_the_third(subtasks[0])) as first,
        running_sync(without_the_third(subtasks[1])) as second,
    ):
        first.wait_synced()
        one.execute(f"DELETE FROM {name}.t WHERE id = 1")
        two.execute(f"INSERT INTO {name}.t VALUES (1, 2)")
        second.wait_synced()
        assert content(target, name) == {(1, 2)}, "nobody stands before the third has come"
        three.execute(f"INSERT INTO {name}.t VALUES (3, 3)")
        joined = SyncProcess(subtasks[2])
        try:
            joined.wait_synced()
            assert content(target, name) == {(1, 2), (3, 3)}
            joined.freeze()
            three.execute(f"DELETE FROM {name}.t WHERE id = 3")
            next_second(three)
            one.execute(f"INSERT INTO {name}.t VALUES (3, 4)")
            two.execute(f"UPDATE {name}.t SET v = 5 WHERE id = 1")
            wait_standing(first)
            wait_standing(second)
            assert content(target, name) == {(1, 2), (3, 3)}
            joined.thaw()
            joined.wait_synced()
            first.wait_synced()
            second.wait_synced()
            assert content(target, name) == {(1, 5), (3, 4)}
            assert (late(first), late(second)) == (0, 0)
        finally:
            joined.close()


def test_nobody_waits_for_a_source_that_left(servers: Servers, target: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(*servers, target)
    one, two, three = servers
    subtasks = subtasks_of(name, servers, target, FILE)
    with running_sync(subtasks[0]) as first:
        with running_sync(subtasks[1]) as second:
            with running_sync(subtasks[2]) as third:
                three.execute(f"INSERT INTO {name}.t VALUES (3, 3)")
                third.wait_synced()
            one.execute(f"INSERT INTO {name}.t VALUES (1, 1)")
            two.execute(f"INSERT INTO {name}.t VALUES (2, 2)")
            wait_standing(first)
            wait_standing(second)
            assert content(target, name) == {(3, 3)}
        with running_sync(without_the_third(subtasks[1])) as again:
            again.wait_synced()
            first.wait_synced()  # which still has the longer file
            assert content(target, name) == {(1, 1), (2, 2), (3, 3)}
            two.execute(f"DELETE FROM {name}.t WHERE id = 2")
            next_second(two)
            one.execute(f"INSERT INTO {name}.t VALUES (2, 9)")
            again.wait_synced()
            first.wait_synced()
            assert content(target, name) == {(1, 1), (2, 9), (3, 3)}
            assert (late(first), late(again)) == (0, 0)


@pytest.mark.ci_sample(1)
@pytest.mark.parametrize("ended", [False, True], ids=["it joins", "it begins again after its end"])
def test_the_only_one_that_runs_waits_for_one_that_begins(
    servers: Servers, target: ThrowawayServer, schema: SchemaFactory, ended: bool
) -> None:
    name = schema(*servers, target)
    one, two, _ = servers
    first, second = subtasks_of(name, servers[:2], target, SHORTER)
    if not ended:
        first = first.model_copy(update={"order": ALONE, "neighbours": ()})
    with running_sync(first) as running:
        if ended:
            two.execute(f"INSERT INTO {name}.t VALUES (2, 2)")
            file, offset = place(two).split(":")
            until = until_of(second, AskedEnd(f"({file}, {offset})"), Path("none"))
            assert RunningSync(second, None, until=until).wait_ended() is None
        one.execute(f"INSERT INTO {name}.t VALUES (1, 1)")
        running.wait_synced()
        beginning = SyncProcess(second)
        try:
            beginning.wait_synced()
            begun = time.monotonic()
            wait_until(lambda: time.monotonic() > begun + LOOK_SECONDS, "what the first knows is a second old")
            beginning.freeze()
            two.execute(f"INSERT INTO {name}.t VALUES (3, 3)", f"DELETE FROM {name}.t WHERE id = 3")
            next_second(two)
            one.execute(f"INSERT INTO {name}.t VALUES (3, 4)")
            wait_standing(running, "source-2")
            beginning.thaw()
            beginning.wait_synced()
            running.wait_synced()
            assert {(1, 1), (3, 4)} <= content(target, name)
            assert late(running) == 0
        finally:
            beginning.close()
