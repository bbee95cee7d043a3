"""`merge-order: commit-time`: rows that move between the sources of one target table end where they are there."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

import pytest

from dm.config.references import StartPoint
from dm.config.scalar import ShardMode
from dm.config.subtask import SubtaskConfig
from dm.config.units import CommitTimeOrder, SilentSource
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from tests.live.syncer.errors.test_operators import place
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sync import RunningSync, SyncProcess, running_sync, subtask_for, wait_until

pytestmark = pytest.mark.live

ROWS = 3


class Moves:
    """Rows that move from source to source: deleted here, then inserted there."""

    def __init__(self, flavor: Flavor, upstreams: Sequence[ThrowawayServer], name: str) -> None:
        self._upstreams = upstreams
        self._name = name
        self._number = 0
        # MariaDB's binlog has whole seconds. So here each change is in a second of its own, all of them past.
        self._stamp = int(time.time()) - 100_000 if flavor == "mariadb" else None

    def _execute(self, server: ThrowawayServer, statement: str) -> None:
        if self._stamp is None:
            server.execute(statement)
            return
        self._stamp += 1
        server.execute(f"SET timestamp = {self._stamp}", statement)

    def begin(self) -> None:
        """All rows are at the first source."""
        for row in range(ROWS):
            self._execute(self._upstreams[0], f"INSERT INTO {self._name}.t VALUES ({row}, 0)")

    def move(self, times: int) -> None:
        """Move each row in turn, and change it where it is then."""
        for _ in range(times):
            row, turn = self._number % ROWS, self._number // ROWS
            here, there = (self._upstreams[each % len(self._upstreams)] for each in (turn, turn + 1))
            self._number += 1
            self._execute(here, f"DELETE FROM {self._name}.t WHERE id = {row}")
            self._execute(there, f"INSERT INTO {self._name}.t VALUES ({row}, {self._number})")
            self._execute(there, f"UPDATE {self._name}.t SET v = v + 1000 WHERE id = {row}")


def subtasks_of(
    name: str, upstreams: Sequence[ThrowawayServer], target: ThrowawayServer, order: CommitTimeOrder
) -> list[SubtaskConfig]:
    """A subtask per source, from where its binlog ends now."""
    for server in (*upstreams, target):
        server.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    found = []
    for source, server in zip(order.sources, upstreams, strict=True):
        file, offset = place(server).split(":")
        meta = StartPoint(binlog_name=file, binlog_pos=int(offset))
        subtask = subtask_for(server, target, name, task=name, source_id=source, meta=meta)
        neighbours = tuple(other for other in order.sources if other != source)
        found.append(subtask.model_copy(update={"order": order, "neighbours": neighbours}))
    return found


def order_of(silent: SilentSource = "pause", hold: float = 60) -> CommitTimeOrder:
    """Among two sources."""
    return CommitTimeOrder(sources=("source-1", "source-2"), hold=hold, silent=silent)


def content(server: ThrowawayServer, name: str) -> set[tuple[object, ...]]:
    """The table's rows."""
    return set(server.query(f"SELECT id, v FROM {name}.t"))


def late(running: RunningSync) -> object:
    """How many transactions came too late."""
    found = running.unit.status()["mergeOrder"]
    assert isinstance(found, dict)
    return found["lateTransactions"]


@pytest.mark.ci_flavor("mariadb")
def test_rows_that_move_end_where_they_are(
    flavor: Flavor, upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    subtasks = subtasks_of(name, upstreams, target, order_of())
    moves = Moves(flavor, upstreams, name)
    moves.begin()
    moves.move(21)
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as other:
        one.wait_synced()
        other.wait_synced()
        assert content(target, name) == content(upstreams[0], name) | content(upstreams[1], name)
        assert (late(one), late(other)) == (0, 0)
        assert len(content(target, name)) == ROWS


@pytest.mark.ci_flavor("mysql")
def test_a_silent_source_holds_the_other_for_a_while(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    subtasks = subtasks_of(name, upstreams, target, order_of("pause", hold=2))
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as other:
        one.wait_synced()
        other.wait_synced()
    upstreams[0].execute(f"INSERT INTO {name}.t VALUES (1, 1)")
    running = RunningSync(subtasks[0], None)
    error = running.wait_ended()
    assert isinstance(error, DMError)
    assert error.name == "merge-order-silent"
    assert content(target, name) == set()
    order = order_of("continue", hold=1)
    subtasks = [subtask.model_copy(update={"order": order}) for subtask in subtasks]
    upstreams[1].execute(f"INSERT INTO {name}.t VALUES (2, 2)")
    upstreams[0].execute(f"INSERT INTO {name}.t VALUES (3, 3)")
    with running_sync(subtasks[0]) as one:
        wait_until(lambda: content(target, name) == {(1, 1), (3, 3)}, "the silent source is left")
        with running_sync(subtasks[1]) as other:
            one.wait_synced()
            other.wait_synced()
            assert content(target, name) == {(1, 1), (2, 2), (3, 3)}
            if upstreams[0].flavor == "mysql":  # whole seconds may be equal
                assert late(other) == 1
            wait_until(lambda: not _without(one), "the source is back")


def _without(running: RunningSync) -> object:
    found = running.unit.status()["mergeOrder"]
    assert isinstance(found, dict)
    return found["withoutSources"]


POINTS = ("order.joined", "order.drained", "order.published")


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=[] if point == "order.published" else pytest.mark.chaos) for point in POINTS]
)
def test_a_killed_source_takes_nothing_back(
    flavor: Flavor,
    upstreams: tuple[ThrowawayServer, ThrowawayServer],
    target: ThrowawayServer,
    schema: SchemaFactory,
    point: str,
) -> None:
    name = schema(*upstreams, target)
    subtasks = subtasks_of(name, upstreams, target, order_of())
    moves = Moves(flavor, upstreams, name)
    moves.begin()
    moves.move(20)
    with running_sync(subtasks[0]) as one:
        process = SyncProcess(subtasks[1], faults=f"{point}=kill@{1 if point == 'order.joined' else 3}")
        try:
            assert process.wait_killed(), process.errors()
        finally:
            process.close()
        with running_sync(subtasks[1]) as other:
            one.wait_synced()
            other.wait_synced()
            assert content(target, name) == content(upstreams[0], name) | content(upstreams[1], name)


KILLS = (
    *POINTS,
    "syncer.after_lane_row",
    "syncer.before_commit",
    "syncer.after_commit",
    "syncer.before_checkpoint",
    "syncer.after_checkpoint",
)


@pytest.mark.chaos
def test_a_thousand_moves_between_kills(
    flavor: Flavor, upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(*upstreams, target)
    subtasks = subtasks_of(name, upstreams, target, order_of(hold=300))
    moves = Moves(flavor, upstreams, name)
    moves.begin()
    if flavor == "mariadb":
        moves.move(1000)
    chance = random.Random(22)
    fired: Counter[str] = Counter()
    processes: list[SyncProcess] = []
    armed = ["", ""]

    def start(number: int) -> SyncProcess:
        armed[number] = chance.choice(KILLS)
        passage = 1 if armed[number] == "order.joined" else chance.randint(1, 40)
        return SyncProcess(subtasks[number], faults=f"{armed[number]}=kill@{passage}")

    def moved() -> set[tuple[object, ...]]:
        return content(upstreams[0], name) | content(upstreams[1], name)

    began = time.monotonic()
    moving = threading.Thread(target=lambda: moves.move(0 if flavor == "mariadb" else 1000))
    moving.start()
    try:
        processes += [start(0), start(1)]
        while fired.total() < 40 and (moving.is_alive() or content(target, name) != moved()):
            time.sleep(0.2)
            for number, process in enumerate(processes):
                if process.ended:
                    assert process.wait_killed(), process.errors()
                    process.close()
                    fired[armed[number]] += 1
                    processes[number] = start(number)
    finally:
        for process in processes:
            process.close(kill=True)
        moving.join()
    with running_sync(subtasks[0]) as one, running_sync(subtasks[1]) as other:
        one.wait_synced(300)
        other.wait_synced(300)
        assert content(target, name) == moved()
        assert len(content(target, name)) == ROWS
    record(f"merge-order.moves.{flavor}", {"moves": 1000, "seconds": round(time.monotonic() - began), **fired})
    assert fired.total() >= 10, fired


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("mode", ["", "pessimistic", "optimistic"])
def test_without_an_order_a_key_of_two_sources_is_counted(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], target: ThrowawayServer, schema: SchemaFactory, mode: ShardMode
) -> None:
    name = schema(*upstreams, target)
    upstreams[1].execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name}.t VALUES (1, 0)")
    upstreams[0].execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    target.execute(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT)")
    one, other = (
        subtask_for(server, target, name, task=name, source_id=source).model_copy(
            update={"neighbours": (neighbour,), "shard_mode": mode, "shard_sources": ("a", "b") if mode else ()}
        )
        for server, source, neighbour in zip(upstreams, ("a", "b"), ("b", "a"), strict=True)
    )
    with running_sync(one) as first, running_sync(other) as second:
        first.wait_synced()
        second.wait_synced()
        for server, running, statement in (
            (upstreams[0], first, "INSERT INTO {}.t VALUES (9, 0)"),
            (upstreams[1], second, "INSERT INTO {}.t VALUES (2, 0)"),
            (upstreams[0], first, "INSERT INTO {}.t VALUES (1, 1)"),
            (upstreams[1], second, "UPDATE {}.t SET v = 2"),
        ):
            server.execute(statement.format(name))
            running.wait_synced()
        assert first.unit.status()["keysOfTwoSources"] == 0
        assert second.unit.status()["keysOfTwoSources"] == 1
        assert second.unit.status()["keysOfTwoSourcesTables"] == {str(TableName(name, "t")): 1}
