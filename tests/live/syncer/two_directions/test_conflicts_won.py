"""`conflicts: source-wins` and `target-wins`: both sides end equal, and every conflict is in the record.

A seed that failed is in the message; DM_SEED=<seed> plays it again.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from pymysql.err import IntegrityError, OperationalError

from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.task.progress import key_of
from tests.live.syncer.two_directions.test_two_directions import both_ways, looking, settle
from tests.testbed.looks import looks
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.sync import SyncProcess, running_sync

pytestmark = pytest.mark.live

PAIRS: list[tuple[Flavor, Flavor]] = [("mysql", "mysql"), ("mariadb", "mariadb"), ("mysql", "mariadb")]
SEEDS = 67  # of each pair
STEPS = 30
KEYS = 4
POINTS = ("before_begin", "after_lane_row", "before_commit", "after_commit", "before_checkpoint", "after_checkpoint")

Place = tuple[str, int]


class Row(NamedTuple):
    """A row of either table."""

    table: str
    key: str


@dataclass(frozen=True, slots=True)
class Write:
    """A transaction of an application."""

    side: int
    rows: frozenset[Row]
    begin: Place  # where its server's binlog ended before it
    end: Place  # and after it
    had: Place  # up to where the task that writes here had come in the other binlog, while the rows were locked

    def has(self, other: Write) -> bool:
        """Whether the writer's server had a write of the other side: no other application's lies in between."""
        return self.had > other.begin


class Play:
    """One seed: two servers, two tasks, and a judge of what met."""

    def __init__(self, servers: tuple[ThrowawayServer, ThrowawayServer], seed: int) -> None:
        self.chance = random.Random(seed)
        self.servers = servers
        self.name = f"won_{seed}"
        self.writes: list[Write] = []
        self.deaths = 0
        self.drop()
        self.winner = self.chance.randint(0, 1)  # the side
        both = both_ways(servers, self.name, self.chance.choice(["auto", "sql"]))
        compact = self.chance.random() < 0.5
        self.tasks = [
            looking(task, conflicts="source-wins", compact=compact)
            if side == self.winner
            else looking(task, conflicts="target-wins", ddl="pause", compact=compact)
            for side, task in enumerate(both)
        ]
        self.running: list[SyncProcess | None] = [None, None]
        for server in servers:
            server.execute(
                "SET sql_log_bin = 0",
                f"CREATE DATABASE {self.name}",
                f"CREATE TABLE {self.name}.t (id INT PRIMARY KEY, v INT, note VARCHAR(20), f FLOAT)",
                f"CREATE TABLE {self.name}.words (word VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
                " PRIMARY KEY, v INT)",
                f"INSERT INTO {self.name}.t SELECT 1, 0, 'first', 0.1",
                f"INSERT INTO {self.name}.words SELECT 'a', 0",
                "SET sql_log_bin = 1",
            )

    def drop(self) -> None:
        for server in self.servers:
            schemas = (self.name, f"meta_{self.name}", f"meta_{self.name}_back")
            server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in schemas))

    # -- The tasks: that of side 0 brings the writes of the first server to the second one

    def begin(self) -> None:
        """The task whose source wins is begun first."""
        with running_sync(self.tasks[self.winner]) as winning:
            winning.wait_synced()
            with running_sync(self.tasks[1 - self.winner]) as losing:
                settle(winning, losing)

    def play(self, *, deaths: bool) -> None:
        self.begin()
        try:
            for step in range(STEPS):
                for side in (0, 1):
                    self.keep_running(side, deaths=deaths)
                self.write(step, self.chance.randint(0, 1))
                if self.chance.random() < 0.3:
                    self.catch_up(self.chance.randint(0, 1))
        finally:
            for process in self.running:
                if process is not None:
                    process.close(kill=True)

    def keep_running(self, side: int, *, deaths: bool) -> None:
        process = self.running[side]
        if process is not None and not process.ended:
            return
        if process is not None:
            assert process.wait_killed(), process.errors()
            process.close()
            self.deaths += 1
        fault = f"syncer.{self.chance.choice(POINTS)}=kill@{self.chance.randint(1, 6)}" if deaths else ""
        self.running[side] = SyncProcess(self.tasks[side], faults=fault)

    def catch_up(self, side: int) -> None:
        """Until a task is synced, or dead."""
        process = self.running[side]
        assert process is not None
        for _ in looks(60):
            status = process.status()
            if status is None or status["synced"] is True:
                return
        raise AssertionError(f"{self.tasks[side].task} is not synced: {process.errors()}")

    # -- Applications

    def write(self, step: int, side: int) -> None:
        """A transaction of one or two rows; then, with their locks, how far the other side's task has come."""
        server, rows = self.servers[side], set[Row]()
        begin = self.place(server)
        with server.connect() as session, session.cursor() as cursor:
            session.begin()
            try:
                for number in range(self.chance.randint(1, 2)):
                    rows |= self.change(cursor, 10 * step + number)
            except (IntegrityError, OperationalError):  # a task's transaction came in between
                session.rollback()
                return
            had = self.come_to(cursor, self.tasks[1 - side])
            session.commit()
        self.writes.append(Write(side, frozenset(rows), begin, self.place(server), had))

    def change(self, cursor: object, value: int) -> set[Row]:
        """Change one row, or move one; gives the rows that this is about."""
        words = self.chance.random() < 0.3
        table, column = ("words", "word") if words else ("t", "id")
        keys = ["a", "b", "c"] if words else [str(key) for key in range(KEYS)]
        key, other = self.chance.sample(keys, 2)
        name = f"{self.name}.{table}"

        def run(sql: str) -> int:
            return int(cursor.execute(sql))  # type: ignore[attr-defined]

        def spelled(each: str) -> str:
            return f"'{each.upper() if self.chance.random() < 0.5 else each}'" if words else each

        where, rest = f"WHERE {column} = {spelled(key)}", "" if words else f", note = 'n{value}', f = {value} / 7"
        act = self.chance.choice(["put", "put", "delete", "move", "same"])
        if act == "delete" and run(f"DELETE FROM {name} {where}"):
            return {Row(table, key)}
        if act == "move":
            run(f"SELECT 1 FROM {name} WHERE {column} = {spelled(other)} FOR UPDATE")
            if not cursor.fetchall() and run(f"UPDATE {name} SET {column} = {spelled(other)} {where}"):  # type: ignore[attr-defined]
                return {Row(table, key), Row(table, other)}
        if act == "same" and run(f"DELETE FROM {name} {where}"):  # and a row with values that were there before
            run(f"INSERT INTO {name} ({column}, v) VALUES ({spelled(key)}, 1)")
            return {Row(table, key)}
        if run(f"UPDATE {name} SET v = {value}{rest} {where}"):
            return {Row(table, key)}
        run(f"INSERT INTO {name} ({column}, v) VALUES ({spelled(key)}, {value})")
        return {Row(table, key)}

    def place(self, server: ThrowawayServer) -> Place:
        status = "SHOW BINARY LOG STATUS" if server.flavor == "mysql" else "SHOW MASTER STATUS"
        file, offset = server.query(status)[0][:2]
        return str(file), int(offset)

    @staticmethod
    def come_to(cursor: object, task: SubtaskConfig) -> Place:
        cursor.execute(  # type: ignore[attr-defined]
            f"SELECT binlog_name, binlog_pos FROM {key_of(task).worker.sql} WHERE lane = 'atomic'"
        )
        ((file, offset),) = cursor.fetchall()  # type: ignore[attr-defined]
        return str(file), int(offset)

    # -- The judge

    def end(self) -> int:
        """Both sides are equal, and the record is what met; gives how much that was."""
        with ExitStack() as stack:
            order = [self.winner, 1 - self.winner]
            syncs = [stack.enter_context(running_sync(self.tasks[side])) for side in order]
            settle(*syncs)
            settle(*syncs)
        for table in ("t", "words"):
            first, second = (server.query(f"SELECT * FROM {self.name}.{table} ORDER BY 1") for server in self.servers)
            assert first == second, table
        met, recorded = sorted(set(self.met())), sorted(set(self.recorded()))
        assert recorded == met
        self.drop()
        return len(met)

    def met(self) -> Iterator[tuple[int, Row]]:
        """Writes of the losing side, with their rows that the winning side wrote, neither having the other's."""
        ours = [write for write in self.writes if write.side == self.winner]
        for number, write in enumerate(self.writes):
            if write.side != self.winner:
                others = [other for other in ours if not write.has(other) and not other.has(write)]
                for row in write.rows:
                    if any(row in other.rows for other in others):
                        yield number, row

    def recorded(self) -> Iterator[tuple[int, Row]]:
        losing = self.tasks[1 - self.winner]
        for table, key, place in self.servers[self.winner].query(
            f"SELECT table_name, row_key, source_place FROM {key_of(losing).conflicts.sql} WHERE winner = 'target'"
        ):
            file, offset = str(place).strip("()").split(", ")
            (number,) = (
                number
                for number, write in enumerate(self.writes)
                if write.side != self.winner and write.begin < (file, int(offset)) <= write.end
            )
            (literal,) = json.loads(str(key)).values()
            yield number, Row(str(table), str(literal).rpartition("'")[0].rpartition("'")[2].lower() or str(literal))


def play(park: ServerPark, pair: Sequence[Flavor], seed: int, *, deaths: bool = True) -> int:
    played = Play((park.shared(pair[0], "upstream-1"), park.shared(pair[1], "upstream-2")), seed)
    played.play(deaths=deaths)
    return played.end()


@pytest.mark.parametrize("pair", PAIRS[2:], ids="-".join)
def test_drawn_writes_of_the_same_rows_end_equal_and_recorded(park: ServerPark, pair: tuple[Flavor, Flavor]) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, "3"))
    met = play(park, pair, seed)
    assert met > 0, f"DM_SEED={seed}: nothing met"


@pytest.mark.chaos
@pytest.mark.timeout(6000)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_many_drawn_writes_end_equal_and_recorded(park: ServerPark, pair: tuple[Flavor, Flavor]) -> None:
    first, met = draw_seed(), 0
    for seed in range(first, first + SEEDS):
        print(f"DM_SEED={seed}")
        met += play(park, pair, seed)
    assert met > SEEDS, f"DM_SEED={first}: little met in {SEEDS}"
