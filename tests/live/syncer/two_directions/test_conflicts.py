"""`conflicts: pause`: where both sides have written one row, the task pauses before it writes over the target's."""

from __future__ import annotations

import os
import random
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from dm.changes.row_change import RowChange
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.downstream.apply import _Serial
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.syncer.two_directions.test_two_directions import both_ways, checked, looking, settle
from tests.testbed.loop_result import SEED_VARIABLE, draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.sync import running_sync

pytestmark = pytest.mark.live

SEEDS = 100  # of each flavour
STEPS = 20
KEYS, VALUES = 3, 3  # so few that a row often has a value again
ABSENT = -1

TABLE = "CREATE TABLE {t} (id INT PRIMARY KEY, v VARCHAR(20), f FLOAT, at TIMESTAMP(3) NULL, u INT UNIQUE)"
ROWS = (
    "INSERT INTO {t} VALUES (1, 'one', 0.1, '2020-01-01 00:00:00.5', 1), (2, NULL, NULL, NULL, 2),"
    " (3, 'three', 0.3, NULL, 3)"
)


@pytest.fixture
def name(upstreams: tuple[ThrowawayServer, ThrowawayServer]) -> Iterator[str]:
    name = f"met_{secrets.token_hex(3)}"
    for server in upstreams:
        server.execute(f"CREATE DATABASE {name}", TABLE.format(t=f"{name}.t"))
    yield name
    drop(upstreams, name)


def drop(servers: tuple[ThrowawayServer, ThrowawayServer], name: str) -> None:
    schemas = (name, f"{name}_seen", f"meta_{name}", f"meta_{name}_back")
    for server in servers:
        server.execute(*(f"DROP DATABASE IF EXISTS {each}" for each in schemas))


def unseen(server: ThrowawayServer, *statements: str) -> None:
    """What somebody does at a server, and no task is to see."""
    server.execute("SET sql_log_bin = 0", *statements, "SET sql_log_bin = 1")


def paused(task: SubtaskConfig) -> DMError:
    """The error that a run ends with."""
    with pytest.raises(DMError) as raised, running_sync(task) as sync:
        sync.wait_synced()
    return raised.value


# What the target's row has become, what the source does to it, and what the error has to say of both.
CONFLICTS = (
    ("UPDATE {t} SET v = 'other' WHERE id = 1", "UPDATE {t} SET v = 'mine' WHERE id = 1", "v = other"),
    ("UPDATE {t} SET v = 'ONE' WHERE id = 1", "DELETE FROM {t} WHERE id = 1", "v = ONE"),
    ("UPDATE {t} SET at = '2020-01-01 00:00:00.501' WHERE id = 1", "UPDATE {t} SET f = 1 WHERE id = 1", "00.501"),
    ("UPDATE {t} SET f = 0.2 WHERE id = 3", "UPDATE {t} SET at = NOW() WHERE id = 3", "0.2"),
    ("UPDATE {t} SET v = '' WHERE id = 2", "UPDATE {t} SET u = 20 WHERE id = 2", "v = ,"),
    ("DELETE FROM {t} WHERE id = 2", "UPDATE {t} SET v = 'mine' WHERE id = 2", "no row"),
    ("DELETE FROM {t} WHERE id = 2", "DELETE FROM {t} WHERE id = 2", "no row"),
    ("INSERT INTO {t} VALUES (9, 'other', 0, NULL, 9)", "INSERT INTO {t} VALUES (9, 'mine', 0, NULL, 90)", "v = other"),
    ("INSERT INTO {t} VALUES (8, 'other', 0, NULL, 9)", "INSERT INTO {t} VALUES (9, 'mine', 0, NULL, 9)", "id = 8"),
    ("INSERT INTO {t} VALUES (8, 'other', 0, NULL, 9)", "UPDATE {t} SET u = 9 WHERE id = 1", "id = 8"),
)


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("row_format", ["auto", "sql"])
@pytest.mark.ci_sample(1)
def test_a_task_pauses_before_the_first_write_that_would_be_lost(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str, row_format: str
) -> None:
    first, second = upstreams
    table = f"{name}.t"
    forward = looking(both_ways(upstreams, name, row_format)[0])
    begin, rows = (f"DELETE FROM {table}", ROWS.format(t=table)), f"SELECT * FROM {table} ORDER BY id"
    for there, here, said in CONFLICTS:
        for server in upstreams:
            unseen(server, *begin)
        unseen(second, there.format(t=table))
        kept = second.query(rows)
        first.execute("BEGIN", f"INSERT INTO {table} (id) VALUES (7)", here.format(t=table), "COMMIT")
        error = paused(forward)
        assert (error.name, said in error.message) == ("write-conflict", True), error.message
        assert second.query(rows) == kept
        unseen(second, *begin)  # a person lets the source's write win: the target is given what the source had
        with running_sync(forward) as sync:
            sync.wait_synced()
        assert second.query(rows) == first.query(rows)


@pytest.mark.parametrize("wins", [0, 1], ids=["the source", "the target"])
def test_the_ways_out_of_two_tasks_that_have_met_bring_both_sides_to_one_row(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str, wins: int
) -> None:
    """What 36977 and docs/two-directions.md say: one side's write wins, decided alike for both tasks."""
    tasks = [looking(task) for task in both_ways(upstreams, name)]
    table = f"{name}.t"
    had, rows = "UPDATE {t} SET v = 'one' WHERE id = 1", f"SELECT v FROM {table} WHERE id = 1"
    for server in upstreams:
        unseen(server, ROWS.format(t=table))
    for task in tasks:  # each begins before the other side's write
        with running_sync(task) as sync:
            sync.wait_synced()
    for server, value in zip(upstreams, ("first", "second"), strict=True):
        server.execute(f"UPDATE {table} SET v = '{value}' WHERE id = 1")
    assert [paused(task).name for task in tasks] == ["write-conflict"] * 2
    kept = upstreams[wins].query(rows)
    # The task that reads the side that wins: its target's row gets what the source had.
    unseen(upstreams[1 - wins], had.format(t=table))
    with running_sync(tasks[wins]) as sync:
        sync.wait_synced()
    assert upstreams[1 - wins].query(rows) == kept
    # The other one: the same, and then the row gets its target's values again.
    unseen(upstreams[wins], had.format(t=table))
    with running_sync(tasks[1 - wins]) as sync:
        sync.wait_synced()
    unseen(upstreams[wins], f"UPDATE {table} SET v = '{kept[0][0]}' WHERE id = 1")
    for server in upstreams:
        server.execute(f"INSERT INTO {table} (id) VALUES ({server.port})")
    with running_sync(tasks[0]) as onwards, running_sync(tasks[1]) as home:
        settle(onwards, home)
    everything = f"SELECT * FROM {table} ORDER BY id"
    assert upstreams[0].query(everything) == upstreams[1].query(everything)
    assert upstreams[0].query(rows) == kept


@pytest.mark.ci_flavor("mariadb")
def test_changes_of_one_row_are_no_conflict_of_their_own(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one batch, whether they are merged or not: a row that moves, a key that goes from row to row, what is gone.

    Such a batch is looked at as a whole: of a row that it has left itself nothing is asked.
    """
    alone, one_by_one = list[RowChange](), _Serial.apply

    def apply(serial: _Serial, changes: Iterable[RowChange]) -> int:
        alone.extend(changes)
        return one_by_one(serial, changes)

    monkeypatch.setattr(_Serial, "apply", apply)
    first, second = upstreams
    table = f"{name}.t"
    forward, _ = both_ways(upstreams, name)
    for compact in (True, False):
        with running_sync(looking(forward, compact=compact)) as sync:
            first.execute(
                "BEGIN",
                ROWS.format(t=table),
                f"UPDATE {table} SET v = 'a' WHERE id < 3",
                f"UPDATE {table} SET v = 'b', u = u + 10 WHERE id < 3",
                f"UPDATE {table} SET id = 4 WHERE id = 1",
                f"INSERT INTO {table} VALUES (1, 'again', 0, NULL, 1), (5, 'gone', 1, NULL, 5)",
                f"DELETE FROM {table} WHERE id IN (3, 5)",
                f"INSERT INTO {table} VALUES (3, 'again', 0, NULL, 3)",
                "COMMIT",
            )
            sync.wait_synced()
            assert second.query(f"SELECT * FROM {table} ORDER BY id") == first.query(
                f"SELECT * FROM {table} ORDER BY id"
            )
            first.execute(f"DELETE FROM {table}")
            sync.wait_synced()
        assert second.query(f"SELECT * FROM {table}") == ()
    assert alone == []


@pytest.mark.ci_flavor("mysql")
def test_statements_that_go_the_other_way_only_pause_the_task(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str
) -> None:
    first, second = upstreams
    forward, back = both_ways(upstreams, name)
    with running_sync(forward) as onwards, running_sync(looking(back, ddl="pause")) as home:
        first.execute(f"ALTER TABLE {name}.t ADD COLUMN c INT")
        settle(onwards, home)
        second.execute(f"INSERT INTO {name}.t VALUES (1, 'one', 0, NULL, 1, 5)", f"CREATE VIEW {name}.w AS SELECT 1")
        settle(onwards, home)
        assert first.query(f"SELECT c FROM {name}.t") == ((5,),)
    second.execute(f"ALTER TABLE {name}.t ADD COLUMN d INT")
    error = paused(looking(back, ddl="pause"))
    assert error.name == "ddl-other-way"
    assert "ADD COLUMN d INT" in error.message
    assert first.query(f"SHOW COLUMNS FROM {name}.t LIKE 'd'") == ()


@pytest.mark.ci_flavor("mariadb")
def test_a_check_finds_that_both_sides_number_rows_alike(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], name: str
) -> None:
    second = upstreams[1]
    forward, back = both_ways(upstreams, name)
    with running_sync(back) as home:
        home.wait_synced()
    assert checked(forward).state == "success"
    found = checked(looking(forward))
    assert (found.state, "source: every 1, from 1, target: every 1, from 1" in found.message) == ("warning", True)
    settings = ("auto_increment_increment", "auto_increment_offset")
    try:
        for at, server in enumerate(upstreams, 1):
            server.execute(f"SET GLOBAL {settings[0]} = 2", f"SET GLOBAL {settings[1]} = {at}")
        assert checked(looking(forward)).state == "success"
        second.execute(f"SET GLOBAL {settings[1]} = 1")
        assert checked(looking(forward)).state == "warning"
    finally:
        for server in upstreams:
            server.execute(*(f"SET GLOBAL {each} = 1" for each in settings))


class Play:
    """One seed: applications on both sides write the same few rows, and note what each of them was before."""

    def __init__(self, servers: tuple[ThrowawayServer, ThrowawayServer], seed: int) -> None:
        self.chance = random.Random(seed)
        self.servers = servers
        self.name = f"met_{seed}"
        self.written = Counter[tuple[int, int, int]]()  # a row, what it was, what it became
        drop(servers, self.name)
        self.tasks = [looking(task) for task in both_ways(servers, self.name, self.chance.choice(["auto", "sql"]))]
        for server in servers:
            unseen(
                server,
                f"CREATE DATABASE {self.name}",
                f"CREATE DATABASE {self.name}_seen",  # not replicated
                f"CREATE TABLE {self.name}.t (id INT PRIMARY KEY, v INT)",
                f"CREATE TABLE {self.name}_seen.seen (id INT, old INT, new INT)",
                *(f"INSERT INTO {self.name}.t VALUES ({key}, 0)" for key in range(KEYS)),
                f"CREATE TRIGGER {self.name}.i AFTER INSERT ON {self.name}.t FOR EACH ROW"
                f" INSERT INTO {self.name}_seen.seen VALUES (NEW.id, {ABSENT}, NEW.v)",
                f"CREATE TRIGGER {self.name}.u AFTER UPDATE ON {self.name}.t FOR EACH ROW"
                f" INSERT INTO {self.name}_seen.seen VALUES (NEW.id, OLD.v, NEW.v)",
                f"CREATE TRIGGER {self.name}.d AFTER DELETE ON {self.name}.t FOR EACH ROW"
                f" INSERT INTO {self.name}_seen.seen VALUES (OLD.id, OLD.v, {ABSENT})",
            )

    def play(self) -> bool:
        """Whether a task has paused."""
        met: DMError | None = None
        try:
            with running_sync(self.tasks[0]) as onwards, running_sync(self.tasks[1]) as home:
                for _ in range(STEPS):
                    self.write(self.chance.randint(0, 1))
                    if self.chance.random() < 0.4:
                        self.chance.choice([onwards, home]).wait_synced()
                settle(onwards, home)
        except DMError as error:
            met = error
        assert met is None or met.name == "write-conflict", met
        self.judge(paused=met is not None)
        drop(self.servers, self.name)
        return met is not None

    def write(self, side: int) -> None:
        """An application reads a row under its lock, and changes it."""
        server, key = self.servers[side], self.chance.randrange(KEYS)
        with server.connect() as session, session.cursor() as cursor:
            session.begin()
            cursor.execute(f"SELECT v FROM {self.name}.t WHERE id = {key} FOR UPDATE")
            row = cursor.fetchone()
            old = ABSENT if row is None else int(row[0])
            new = self.chance.choice([value for value in (ABSENT, *range(VALUES)) if value != old])
            if new == ABSENT:
                cursor.execute(f"DELETE FROM {self.name}.t WHERE id = {key}")
            elif old == ABSENT:
                cursor.execute(f"INSERT INTO {self.name}.t VALUES ({key}, {new})")
            else:
                cursor.execute(f"UPDATE {self.name}.t SET v = {new} WHERE id = {key}")
            session.commit()
        self.written[key, old, new] += 1

    def judge(self, *, paused: bool) -> None:
        """Each row went only from what a writer had seen to what that wrote; without a pause all is everywhere."""
        for server in self.servers:
            seen = Counter((int(a), int(b), int(c)) for a, b, c in server.query(f"SELECT * FROM {self.name}_seen.seen"))
            assert seen <= self.written
            assert paused or seen == self.written
        if not paused:
            ends = [server.query(f"SELECT * FROM {self.name}.t ORDER BY id") for server in self.servers]
            assert ends[0] == ends[1]


@pytest.mark.parametrize("flavors", [("mysql", "mariadb")], ids="-".join)
def test_no_drawn_write_is_lost(park: ServerPark, flavors: tuple[Flavor, Flavor]) -> None:
    seed = int(os.environ.get(SEED_VARIABLE, "3"))
    played = Play((park.shared(flavors[0], "upstream-1"), park.shared(flavors[1], "upstream-2")), seed)
    assert played.play(), f"DM_SEED={seed}: nobody met"


@pytest.mark.chaos
@pytest.mark.timeout(3000)
def test_no_write_of_many_is_lost(upstreams: tuple[ThrowawayServer, ThrowawayServer]) -> None:
    first = draw_seed()
    outcomes = Counter[bool]()
    for seed in range(first, first + SEEDS):
        print(f"DM_SEED={seed}")
        outcomes[Play(upstreams, seed).play()] += 1
    assert outcomes[True], f"DM_SEED={first}: nobody met in any of {SEEDS}"
