"""Whoever writes, alters and dies in whatever order: two tasks in opposite directions end in what a ledger says.

A seed that failed is in the message; DM_SEED=<seed> plays it again.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import ExitStack

import pytest

from dm.config.references import StartPoint
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.syncer.two_directions.test_two_directions import both_ways, equal, looking, settle
from tests.testbed.looks import looks
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.sync import SyncProcess, running_sync

pytestmark = pytest.mark.live

PAIRS: list[tuple[Flavor, Flavor]] = [("mysql", "mysql"), ("mariadb", "mariadb"), ("mysql", "mariadb")]
SEEDS = 67  # of each pair
STEPS = 24
POINTS = (
    "before_begin", "after_lane_row", "before_commit", "after_commit", "before_checkpoint", "after_checkpoint",
    "before_intent", "before_ddl", "after_ddl", "after_ddl_record",
)  # fmt: skip


class Play:
    """One seed: two servers, two tasks, and what the tables must hold."""

    def __init__(self, servers: tuple[ThrowawayServer, ThrowawayServer], seed: int) -> None:
        self.chance = random.Random(seed)
        self.servers = servers
        self.name = f"both_{seed}"
        self.rows: dict[int, int] = {}
        self.keyless: Counter[int] = Counter()
        self.columns = 0
        self.deaths = 0
        self.drop()
        for server in servers:
            server.execute(
                f"CREATE DATABASE {self.name}",
                f"CREATE TABLE {self.name}.t (id INT PRIMARY KEY, v INT)",
                f"CREATE TABLE {self.name}.keyless (v INT)",
            )
        self.tasks = both_ways(servers, self.name, self.chance.choice(["auto", "sql"]))
        if self.chance.random() < 0.5:  # rows that are applied again after a death are no conflicts
            self.tasks = looking(self.tasks[0]), looking(self.tasks[1])
        self.running: list[SyncProcess | None] = [None, None]

    def drop(self) -> None:
        schemas = (self.name, f"meta_{self.name}", f"meta_{self.name}_back")
        for server in self.servers:
            server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in schemas))

    def play(self) -> None:
        self.begin()
        try:
            for step in range(STEPS):
                for side in (0, 1):
                    self.keep_running(side)
                self.chance.choices([self.write, self.alter], [8, 1])[0](step)
                if self.chance.random() < 0.4:
                    self.catch_up(self.chance.randint(0, 1))
        finally:
            for process in self.running:
                if process is not None:
                    process.close(kill=True)

    def begin(self) -> None:
        """Rows of both tables come from both sides, so that their structures are known before one is altered."""
        with running_sync(self.tasks[0]) as onwards, running_sync(self.tasks[1]) as home:
            for side, server in enumerate(self.servers):
                self.rows[side], self.keyless[-1] = 0, side + 1
                server.execute(
                    f"INSERT INTO {self.name}.t VALUES ({side}, 0)", f"INSERT INTO {self.name}.keyless VALUES (-1)"
                )
            settle(onwards, home)

    def keep_running(self, side: int) -> None:
        process = self.running[side]
        if process is not None and not process.ended:
            return
        if process is not None:
            assert process.wait_killed(), process.errors()
            process.close()
            self.deaths += 1
        fault = f"syncer.{self.chance.choice(POINTS)}=kill@{self.chance.randint(1, 5)}"
        self.running[side] = SyncProcess(self.tasks[side], faults=fault)

    def catch_up(self, side: int) -> None:
        """Until a task is synced, or dead."""
        process = self.running[side]
        assert process is not None
        for _ in looks(60):
            status = process.status()
            if status is None or status["synced"] is True:
                return
        raise AssertionError(f"{self.tasks[side].task} is not synced")

    def write(self, step: int) -> None:
        """A transaction of an application on one side: each side has rows of its own."""
        side = self.chance.randint(0, 1)
        table, mine = f"{self.name}.t", [key for key in self.rows if key % 2 == side]
        statements = ["BEGIN"]
        for number in range(self.chance.randint(1, 4)):
            match self.chance.choice(["insert", "update", "delete", "keyless"]):
                case "update" if mine:
                    key = self.chance.choice(mine)
                    self.rows[key] = step
                    statements.append(f"UPDATE {table} SET v = {step} WHERE id = {key}")
                case "delete" if mine:
                    key = mine.pop(self.chance.randrange(len(mine)))
                    del self.rows[key]
                    statements.append(f"DELETE FROM {table} WHERE id = {key}")
                case "keyless":
                    self.keyless[step] += 1
                    statements.append(f"INSERT INTO {self.name}.keyless (v) VALUES ({step})")
                case _:
                    key = 2 * (10 * step + number + 1) + side
                    self.rows[key] = step
                    statements.append(f"INSERT INTO {table} (id, v) VALUES ({key}, {step})")
        self.servers[side].execute(*statements, "COMMIT")

    def alter(self, step: int) -> None:
        """DDL on the first side alone."""
        self.columns += 1
        self.servers[0].execute(f"ALTER TABLE {self.name}.t ADD COLUMN c{step} INT DEFAULT {step}")

    def end(self) -> None:
        """Both tasks run to the end of what there is; both sides have what the ledger says."""
        first, second = self.servers
        begins = [place_of(task, server) for task, server in zip(self.tasks, (second, first), strict=True)]
        with ExitStack() as stack:
            onwards, home = (stack.enter_context(running_sync(task)) for task in self.tasks)
            settle(onwards, home)
            settle(onwards, home)
            equal(home, second, begins[1], self.tasks[0])
            equal(onwards, first, begins[0], self.tasks[1])
        for server in self.servers:
            assert dict(server.query(f"SELECT id, v FROM {self.name}.t")) == self.rows
            assert Counter(value for (value,) in server.query(f"SELECT v FROM {self.name}.keyless")) == self.keyless
            columns = server.query(
                "SELECT COUNT(*) FROM information_schema.columns"
                f" WHERE table_schema = '{self.name}' AND table_name = 't'"
            )
            assert columns == ((2 + self.columns,),)
        self.drop()


def place_of(task: SubtaskConfig, target: ThrowawayServer) -> StartPoint:
    """Where a task begins to read."""
    table = f"{task.meta_schema}.{task.task}_syncer_checkpoint"
    rows = target.query(f"SELECT binlog_name, binlog_pos FROM {table} WHERE is_global")
    return StartPoint(binlog_name=rows[0][0], binlog_pos=rows[0][1]) if rows else task.meta or StartPoint()


def play(park: ServerPark, pair: tuple[Flavor, Flavor], seed: int) -> int:
    played = Play((park.shared(pair[0], "upstream-1"), park.shared(pair[1], "upstream-2")), seed)
    played.play()
    played.end()
    return played.deaths


@pytest.mark.parametrize("pair", PAIRS[2:], ids="-".join)
def test_a_drawn_workload_with_deaths_ends_as_its_ledger_says(park: ServerPark, pair: tuple[Flavor, Flavor]) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, "3"))
    assert play(park, pair, seed) > 0, f"DM_SEED={seed}: nobody died"


@pytest.mark.chaos
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_many_drawn_workloads_end_as_their_ledgers_say(park: ServerPark, pair: tuple[Flavor, Flavor]) -> None:
    first = draw_seed()
    for seed in range(first, first + SEEDS):
        print(f"DM_SEED={seed}")
        play(park, pair, seed)
