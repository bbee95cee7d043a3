"""Two tasks in opposite directions, while one of them loads tables again, takes more tables and replays, as drawn.

`test_two_directions_seeds` draws writes, statements and deaths of the streams; this draws what goes beside them. Rows
of both sides are written meanwhile, and the daemon is killed now and then. A seed that failed is printed;
DM_SEED=<seed> plays it again.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from dm.config.references import StartPoint
from tests.live.worker.test_two_tasks import ID, TABLES, Pair, pair
from tests.live.worker.test_way_back import end_of
from tests.testbed.loop_result import draw_seed

__all__ = ["pair"]  # the fixture

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1800)]

STEPS = 7


class Play:
    """One seed in one daemon; the ledger is what `Pair.equal` expects of the number of writes."""

    def __init__(self, pair: Pair, chance: random.Random) -> None:
        self.pair, self.chance = pair, chance
        self.written = 0
        self.columns = 0
        self.joined: dict[str, int] = {}  # by table: the rows that a side has put into it

    def begin(self) -> None:
        pair = self.pair
        pair.servers[0].execute(*TABLES.format(name=pair.name).split(";"))
        pair.begin = StartPoint(), end_of(pair.servers[1])
        for task in ("shop", "back"):
            relay = {"enable-relay": True, "relay-dir": str(pair.daemon.directory / f"relay-{task}")}
            pair.source(task, **relay)
            pair.daemon.must("start-relay", "-s", ID[task])
        pair.daemon.must("start-task", self.file("shop"))
        pair.daemon.must("wait", "shop", "--synced", "--timeout", "120")
        pair.daemon.must("start-task", self.file("back"))
        self.write()
        pair.equal(self.written)

    def file(self, task: str) -> str:
        pair = self.pair
        tables = [{"db-name": pair.name, "tbl-name": each} for each in ("t", "keyless", *self.joined)]
        lists: dict[str, Any] = {"block-allow-list": {"b": {"do-tables": tables}}}
        page = pair.shop if task == "shop" else pair.back
        return pair.file(task, page, mode="all" if task == "shop" else "incremental", **lists)

    def write(self) -> None:
        self.pair.write(self.written)
        self.written += 1
        for table in self.joined:
            self.joined[table] += 1
            for side, server in enumerate(self.pair.servers):
                server.execute(f"INSERT INTO {self.pair.name}.{table} VALUES ({2 * self.joined[table] + side})")

    def alter(self) -> None:
        """A statement of the first side alone; rows of both sides follow."""
        self.columns += 1
        self.pair.servers[0].execute(f"ALTER TABLE {self.pair.name}.t ADD COLUMN c{self.columns} INT DEFAULT 7")

    def reload(self) -> None:
        """A table is emptied and loaded again; it lacks rows before, and gets more meanwhile."""
        pair, first = self.pair, self.pair.servers[0]
        table = self.chance.choice(["t", "keyless", *self.joined])
        pair.settle()
        doomed = f"DELETE FROM {pair.name}.{table} LIMIT 1"
        pair.servers[1].execute("SET sql_log_bin = 0", doomed, "SET sql_log_bin = 1")
        pair.daemon.must("reload-table", "shop", pair.name, table)
        if self.chance.random() < 0.5:
            self.write_to_the_first()
        (count,) = first.query(f"SELECT COUNT(*) FROM {pair.name}.{table}")[0]
        pair.joined(table, count)

    def write_to_the_first(self) -> None:
        """Rows that come into a table while it is loaded; the other side's come afterwards."""
        pair, number = self.pair, self.written
        self.written += 1
        for side, server in enumerate((pair.servers[0], pair.servers[0])):
            server.execute(
                f"INSERT INTO {pair.name}.t (id, v) VALUES ({2 * number + side}, 'new')",
                f"INSERT INTO {pair.name}.keyless VALUES ({2 * number + side})",
            )

    def join(self) -> None:
        """One more table, with rows of before; both tasks have it in their lists."""
        pair, table = self.pair, f"later{len(self.joined)}"
        key = self.chance.choice(["", " PRIMARY KEY"])
        create = f"CREATE TABLE {pair.name}.{table} (v INT{key})"
        pair.servers[0].execute(create, f"INSERT INTO {pair.name}.{table} VALUES (0), (1)")
        self.joined[table] = 0
        pair.daemon.must("update-task", self.file("back"), "--yes")
        pair.daemon.must("update-task", self.file("shop"), "--yes")
        pair.joined(table, 2)

    def replay(self) -> None:
        """A backlog is applied in bulk."""
        pair = self.pair
        pair.daemon.must("pause-task", "shop")
        self.write()
        pair.daemon.must("wait", "back", "--synced", "--timeout", "120")
        pair.daemon.must("replay", "shop")
        pair.daemon.must("resume-task", "shop")

    def die(self) -> None:
        """The daemon, with all of its units."""
        self.pair.daemon.kill()
        self.pair.daemon.start()

    def end(self) -> None:
        pair = self.pair
        pair.equal(self.written)
        for table, written in self.joined.items():
            for server in pair.servers:
                rows = server.query(f"SELECT v FROM {pair.name}.{table} ORDER BY v")
                assert rows == tuple((each,) for each in range(2 * written + 2)), table
        for server in pair.servers:
            query = f"SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = '{pair.name}'"
            assert server.query(f"{query} AND table_name = 't'") == ((2 + self.columns,),)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_goes_beside_the_streams_in_any_order_is_left_out(pair: Pair, number: int) -> None:
    seed = draw_seed() + number
    print(f"DM_SEED={seed}")
    play = Play(pair, random.Random(seed))
    play.begin()
    for _ in range(STEPS):
        ways = [play.write, play.alter, play.reload, play.join, play.replay, play.die]
        way = play.chance.choices(ways, [3, 1, 2, 1, 1, 1])[0]
        print(way.__name__, flush=True)
        way()
        play.write()
    play.end()
