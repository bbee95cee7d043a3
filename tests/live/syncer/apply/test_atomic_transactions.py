"""`atomic-transactions`: who reads the target sees whole transactions of the source only, whatever is killed.

The workload moves money between accounts and writes it down in a table without a key. A reader at the target adds up
both in one statement, over and over, while the syncer dies at drawn points. Some transactions are larger than what the
dispatcher holds, so the lane decodes them itself.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.mysql.dialect import Flavor
from dm.progress.lane_rows import ATOMIC, read_lanes
from dm.progress.tables import SubtaskKey
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import draw_seed
from tests.testbed.sync import (
    WITHOUT_CHECKPOINTS,
    SyncProcess,
    endpoint_of,
    running_sync,
    subtask_for,
    wait_until,
)

pytestmark = pytest.mark.live

ACCOUNTS = 12
EACH = 1000
LARGE = 3 << 20  # more than the dispatcher holds of a keyless transaction
POINTS = (
    "syncer.before_begin",
    "syncer.after_lane_row",
    "syncer.inside_transaction",
    "syncer.before_commit",
    "syncer.after_commit",
    "syncer.before_checkpoint",
)


def create(schema: str, *servers: ThrowawayServer) -> None:
    """Accounts that hold equal sums, and an empty journal, at each server."""
    rows = ",".join(f"({number}, {EACH}, {number + 100})" for number in range(ACCOUNTS))
    for server in servers:
        server.execute(
            f"CREATE TABLE {schema}.account (id INT PRIMARY KEY, balance INT NOT NULL, code INT, UNIQUE KEY (code))",
            f"CREATE TABLE {schema}.journal (from_id INT, to_id INT, amount INT, note MEDIUMTEXT,"
            " KEY (from_id), KEY (to_id))",
            f"INSERT INTO {schema}.account VALUES {rows}",
        )


class Bank:
    """Moves money at the source, one transaction after the other, until it is told to rest."""

    def __init__(self, upstream: ThrowawayServer, schema: str, chance: random.Random) -> None:
        self._upstream = upstream
        self._schema = schema
        self._chance = chance
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.transfers = 0

    def start(self) -> None:
        self._thread.start()

    def rest(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.transfer(large=self.transfers % 200 == 30)
            self._stop.wait(0.03)

    def transfer(self, *, large: bool = False) -> None:
        """One transaction: some money goes from one account to another, perhaps through a third."""
        chance, schema = self._chance, self._schema
        statements = ["START TRANSACTION"]
        for _ in range(chance.choice((1, 1, 2, 5))):
            giver, taker = chance.sample(range(ACCOUNTS), 2)
            amount = chance.randrange(1, 50)
            note = f"REPEAT('x', {LARGE})" if large else "'n'"
            large = False
            statements += [
                f"UPDATE {schema}.account SET balance = balance - {amount} WHERE id = {giver}",
                f"INSERT INTO {schema}.journal VALUES ({giver}, {taker}, {amount}, {note})",
                f"UPDATE {schema}.account SET balance = balance + {amount} WHERE id = {taker}",
            ]
            if chance.random() < 0.2:  # it comes back as another row
                statements += [
                    f"UPDATE {schema}.account SET id = id + 1000, code = NULL WHERE id = {giver}",
                    f"UPDATE {schema}.account SET id = id - 1000, code = id + 100 WHERE id = {giver + 1000}",
                ]
        self._upstream.execute(*statements, "COMMIT")
        self.transfers += 1


class Reader:
    """Adds up what the target shows, and keeps what can't be."""

    def __init__(self, target: ThrowawayServer, schema: str) -> None:
        self._connection = TargetConnection(endpoint_of(target))
        self._question = (
            f"SELECT (SELECT SUM(balance) FROM {schema}.account),"
            f" (SELECT COUNT(*) FROM {schema}.account WHERE id < 1000),"
            f" (SELECT COUNT(*) FROM {schema}.account a WHERE a.balance <> {EACH}"
            f" + (SELECT COALESCE(SUM(amount), 0) FROM {schema}.journal WHERE to_id = a.id)"
            f" - (SELECT COALESCE(SUM(amount), 0) FROM {schema}.journal WHERE from_id = a.id)),"
            f" (SELECT COUNT(*) FROM {schema}.journal)"
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.reads = 0
        self.states: set[int] = set()
        self.impossible: list[tuple[object, ...]] = []
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            # One view of all tables: a transaction that reads only.
            self._connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            while not self._stop.is_set():
                self._connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
                total, accounts, wrong, entries = self._connection.query(self._question)[0]
                self._connection.execute("ROLLBACK")
                self.reads += 1
                self.states.add(int(entries))
                if (total, accounts, wrong) != (ACCOUNTS * EACH, ACCOUNTS, 0):
                    self.impossible.append((total, accounts, wrong, entries))
        except BaseException as error:
            self.error = error

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()
        if self.error is not None:
            raise self.error


@contextmanager
def moving_money(upstream: ThrowawayServer, schema: str, chance: random.Random) -> Iterator[Bank]:
    """A bank at work."""
    bank = Bank(upstream, schema, chance)
    bank.start()
    try:
        yield bank
    finally:
        bank.rest()


def _lives(subtask: SubtaskConfig, chance: random.Random, count: int) -> int:
    """So many processes that die at drawn points, or after a while anywhere; gives how many died at their point."""
    killed = 0
    for _ in range(count):
        point = chance.choice(POINTS)
        passages = chance.randrange(1, 3 if point == "syncer.before_checkpoint" else 12)
        process = SyncProcess(subtask, faults=f"{point}=kill@{passages}")
        try:
            killed += process.wait_killed(30)
        except subprocess.TimeoutExpired:
            process.process.kill()
        finally:
            process.close(kill=True)
    return killed


def _follow(upstream: ThrowawayServer, target: ThrowawayServer, name: str, seed: int, lives: int) -> dict[str, int]:
    chance = random.Random(seed)
    create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name, atomic_transactions=True, compact=chance.random() < 0.5)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    with Reader(target, name) as reader, moving_money(upstream, name, chance) as bank:
        killed = _lives(subtask, chance, lives)
        assert killed >= lives / 2, f"seed {seed}: {killed} of {lives} died where they were to"
        with running_sync(subtask) as sync:
            wait_until(lambda: bank.transfers > 50, "transfers")
            wait_until(lambda: len(reader.states) > 10 or reader.error is not None, "the reader sees something move")
            bank.rest()
            sync.wait_synced()
    assert reader.impossible == [], f"seed {seed}: {reader.impossible[:5]} among {reader.reads} reads"
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, f"seed {seed}: {report}"
    return {
        "lives": lives,
        "at_points": killed,
        "transfers": bank.transfers,
        "reads": reader.reads,
        "states": len(reader.states),
    }


@pytest.mark.ci_flavor("mysql")
def test_readers_see_whole_transactions_through_any_death(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, flavor: Flavor
) -> None:
    _follow(upstream, target, schema(upstream, target), draw_seed(flavor, "atomic"), 2)


@pytest.mark.chaos
@pytest.mark.timeout(1800)
def test_readers_see_whole_transactions_through_many_deaths(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, flavor: Flavor
) -> None:
    began, seed = time.monotonic(), draw_seed(flavor, "atomic")
    figures = _follow(upstream, target, schema(upstream, target), seed, 40)
    record(f"syncer.atomic.{flavor}", {"seed": seed, **figures, "seconds": round(time.monotonic() - began)})


@pytest.mark.ci_flavor("mariadb")
def test_the_reader_notices_where_transactions_are_not_kept_whole(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    with (
        running_sync(subtask_for(upstream, target, name, task=name)) as sync,
        Reader(target, name) as reader,
    ):
        sync.wait_synced()
        with moving_money(upstream, name, random.Random(1)):
            wait_until(lambda: bool(reader.impossible), "a divided transaction")


@pytest.mark.ci_flavor("mysql")
def test_what_was_applied_whole_is_replayed_in_no_other_way(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    subtask = subtask_for(upstream, target, name, task=name, atomic_transactions=True)
    whole = SyncProcess(subtask, patch=WITHOUT_CHECKPOINTS)
    try:
        whole.wait_synced()
        bank = Bank(upstream, name, random.Random(3))
        for _ in range(5):
            bank.transfer()
        whole.wait_synced()
    finally:
        whole.close(kill=True)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        status = sync.wait_synced()
    # Had some of it been replayed, a death there would leave rows older than the lane's row says.
    assert status["safeModeRows"] == 0
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)


@pytest.mark.chaos
def test_a_task_may_change_between_both_ways(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    create(name, upstream, target)
    chance = random.Random(2)
    ways = {
        atomic: subtask_for(upstream, target, name, task=name, atomic_transactions=atomic) for atomic in (False, True)
    }
    with running_sync(ways[False]) as sync:
        sync.wait_synced()
    with moving_money(upstream, name, chance):
        for atomic in (False, True):
            _lives(ways[atomic], chance, 1)
    with running_sync(ways[True]) as sync:
        sync.wait_synced()
        with TargetConnection(endpoint_of(target)) as connection:
            rows = read_lanes(connection, SubtaskKey(f"meta_{name}", name, "source-1"))
        assert ATOMIC in {row.lane for row in rows}
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
