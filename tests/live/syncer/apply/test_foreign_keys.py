"""Tables that foreign keys join, followed with the target's checks on and off: no worker comes before another.

The source does what it likes: it deletes parents with children, moves keys, fills tables with checks off. What foreign
keys do by themselves is in the binlog of MySQL from 9.6 on and in no other; where it is not, the target must do the
same, so there is no run with its checks off.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pymysql
import pytest

from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.private_server import PrivateServer
from dm.demo.servers import Option, ThrowawayServer
from dm.errors import DMError
from dm.mysql.dialect import Flavor
from tests.live.changes.tables import endpoint_of
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import SyncProcess, running_sync, subtask_for
from tests.testbed.tidb import TidbServer

pytestmark = pytest.mark.live

WORKERS = 16
TEXT = "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"

# Foreign keys that only refuse: no table of these ever changes by itself.
REFUSING = (
    "CREATE TABLE country (code {text} PRIMARY KEY, v INT)",
    "CREATE TABLE town (id INT PRIMARY KEY, code {text}, tag INT NOT NULL UNIQUE, v INT,"
    " FOREIGN KEY (code) REFERENCES country (code))",
    "CREATE TABLE street (id INT PRIMARY KEY, tag INT, up INT, v INT, FOREIGN KEY (tag) REFERENCES town (tag),"
    " FOREIGN KEY (up) REFERENCES street (id))",
    "CREATE TABLE house (a INT, b INT, v INT, PRIMARY KEY (a, b), street INT,"
    " FOREIGN KEY (street) REFERENCES street (id))",
    "CREATE TABLE room (id INT PRIMARY KEY, a INT, b INT, v INT, FOREIGN KEY (a, b) REFERENCES house (a, b))",
)
# A child without a key, and one that is a parent of a table with a key.
KEYLESS = (
    "CREATE TABLE author (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE book (id INT, author INT, v INT, KEY (id), FOREIGN KEY (author) REFERENCES author (id))",
    "CREATE TABLE page (id INT PRIMARY KEY, book INT, v INT, FOREIGN KEY (book) REFERENCES author (id))",
)
ACTING = (
    "CREATE TABLE firm (id INT PRIMARY KEY, name {text} NOT NULL UNIQUE, v INT)",
    "CREATE TABLE branch (id INT PRIMARY KEY, firm INT, v INT,"
    " FOREIGN KEY (firm) REFERENCES firm (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE worker (id INT PRIMARY KEY, branch INT, boss INT, v INT,"
    " FOREIGN KEY (branch) REFERENCES branch (id) ON DELETE SET NULL,"
    " FOREIGN KEY (boss) REFERENCES worker (id) ON DELETE SET NULL)",
    "CREATE TABLE badge (worker INT, v INT, FOREIGN KEY (worker) REFERENCES worker (id) ON DELETE CASCADE)",
    "CREATE TABLE brand (id INT PRIMARY KEY, firm {text}, v INT,"
    " FOREIGN KEY (firm) REFERENCES firm (name) ON DELETE SET NULL ON UPDATE CASCADE)",
)
SETS = {"refusing": REFUSING, "keyless": KEYLESS, "acting": ACTING}


class FamilyWorkload:
    """Random transactions on the tables of one set; what the source refuses is rolled back."""

    def __init__(self, server: ThrowawayServer, schema: str, kind: str, chance: random.Random) -> None:
        self._connection = pymysql.connect(
            host=server.host, port=server.port, user=server.user, password=server.password, database=schema
        )
        self._cursor = self._connection.cursor()
        self._chance = chance
        self._statement: Callable[[], str] = getattr(self, f"_{kind}")
        self.committed = 0
        self.refused = 0

    def run(self, transactions: int) -> None:
        """So many transactions, one in ten with the session's checks off."""
        for _ in range(transactions):
            lax = self._chance.random() < 0.1
            self._cursor.execute(f"SET foreign_key_checks = {int(not lax)}")
            self._cursor.execute("BEGIN")
            try:
                for _ in range(self._chance.randint(1, 6)):
                    self._try(self._statement())
            finally:
                self._connection.commit()
            self.committed += 1
        self._cursor.execute("SET foreign_key_checks = 1")

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def _try(self, sql: str) -> None:
        try:
            self._cursor.execute(sql)
        except (pymysql.err.IntegrityError, pymysql.err.OperationalError):
            self.refused += 1

    def _n(self) -> int:
        return self._chance.randint(1, 12)

    def _name(self) -> str:
        return "'" + self._chance.choice(["a", "A", "á", "b", "B ", "ß", "c", "C", "é", "e"]) + "'"

    def _refusing(self) -> str:
        n, name = self._n, self._name
        return self._chance.choice(
            [
                f"INSERT INTO country VALUES ({name()}, {n()})",
                f"UPDATE country SET v = v + 1 WHERE code = {name()}",
                f"UPDATE country SET code = {name()} WHERE code = {name()}",
                f"DELETE FROM country WHERE code = {name()}",
                f"INSERT INTO town VALUES ({n()}, {name()}, {n()}, 0)",
                f"REPLACE INTO town VALUES ({n()}, {name()}, {n()}, 1)",
                f"UPDATE town SET code = {name()}, tag = {n()} WHERE id = {n()}",
                f"DELETE FROM town WHERE id = {n()}",
                f"INSERT INTO street VALUES ({n()}, {n()}, NULL, 0)",
                f"INSERT INTO street VALUES ({n()}, {n()}, {n()}, 0)",
                f"UPDATE street SET up = {n()}, tag = {n()} WHERE id = {n()}",
                f"UPDATE street SET id = {n()} WHERE id = {n()}",
                f"DELETE FROM street WHERE id = {n()}",
                f"INSERT INTO house VALUES ({n()}, {n()}, 0, {n()})",
                f"UPDATE house SET a = {n()} WHERE a = {n()} LIMIT 1",
                f"DELETE FROM house WHERE a = {n()}",
                f"INSERT INTO room SELECT {n() + self._n() * 12}, a, b, 0 FROM house ORDER BY a * {n()} % 7, b LIMIT 1",
                f"UPDATE room SET b = {n()} WHERE id < {n()} * 12",
                f"DELETE FROM room WHERE a = {n()}",
            ]
        )

    def _keyless(self) -> str:
        n = self._n
        return self._chance.choice(
            [
                f"INSERT INTO author VALUES ({n()}, 0)",
                f"UPDATE author SET id = {n()} WHERE id = {n()}",
                f"DELETE FROM author WHERE id = {n()}",
                f"INSERT INTO book VALUES ({n()}, {n()}, 0), ({n()}, NULL, 1)",
                f"UPDATE book SET author = {n()}, v = v + 1 WHERE id = {n()}",
                f"DELETE FROM book WHERE author = {n()}",
                f"INSERT INTO page VALUES ({n() * 13 + n()}, {n()}, 0)",
                f"UPDATE page SET book = {n()} WHERE id % 7 = {n()}",
                f"DELETE FROM page WHERE book = {n()}",
            ]
        )

    def _acting(self) -> str:
        n, name = self._n, self._name
        return self._chance.choice(
            [
                f"INSERT INTO firm VALUES ({n()}, {name()}, 0)",
                f"INSERT INTO firm VALUES ({n()}, {name()}, 0)",
                f"REPLACE INTO firm VALUES ({n()}, {name()}, 1)",
                f"UPDATE firm SET id = {n()} WHERE id = {n()}",
                f"UPDATE firm SET name = {name()} WHERE name = {name()}",
                f"DELETE FROM firm WHERE id = {n()}",
                f"INSERT INTO branch VALUES ({n()}, {n()}, 0)",
                f"INSERT INTO branch VALUES ({n()}, {n()}, 0)",
                f"UPDATE branch SET firm = {n()}, v = v + 1 WHERE id = {n()}",
                f"DELETE FROM branch WHERE id = {n()}",
                f"INSERT INTO worker VALUES ({n()}, {n()}, NULL, 0)",
                f"INSERT INTO worker VALUES ({n()}, NULL, {n()}, 0)",
                f"UPDATE worker SET branch = {n()}, boss = {n()} WHERE id = {n()}",
                f"DELETE FROM worker WHERE id = {n()}",
                f"INSERT INTO badge VALUES ({n()}, {n()})",
                f"DELETE FROM badge WHERE worker = {n()} LIMIT 1",
                f"INSERT INTO brand VALUES ({n()}, {name()}, 0)",
                f"UPDATE brand SET firm = {name()} WHERE id = {n()}",
            ]
        )


def _subtask(upstream: ThrowawayServer, target: PrivateServer, name: str, *, checks: bool) -> SubtaskConfig:
    subtask = subtask_for(upstream, target, name, task=name, workers=WORKERS, multiple_rows=not checks)
    session = {"foreign_key_checks": "1"} if checks else {}
    return subtask.model_copy(
        update={"target": endpoint_of(target, **session), "foreign_key_checks": checks},
    )


def _create(kind: str, name: str, *servers: PrivateServer) -> None:
    for server in servers:
        server.execute(*(f"USE {name}", *(ddl.format(text=TEXT) for ddl in SETS[kind])))


def _identical(upstream: ThrowawayServer, target: PrivateServer, schema: str) -> None:
    # A TiDB gives other names to the indexes that foreign keys take.
    report = compare(pair_tables([upstream], [schema]), target, structures=not target.tidb)
    assert report.identical, str(report)


def _followed(
    upstream: ThrowawayServer, target: PrivateServer, name: str, kind: str, *, checks: bool, rounds: int, seed: int
) -> tuple[int, int]:
    """Follow a workload, kill the run between its rounds, compare; gives transactions and retries."""
    chance = random.Random(seed)
    _create(kind, name, upstream, target)
    subtask = _subtask(upstream, target, name, checks=checks)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    work = FamilyWorkload(upstream, name, kind, chance)
    retries = 0
    try:
        for round_ in range(rounds):
            process = SyncProcess(subtask)
            work.run(80)
            if round_ + 1 < rounds:
                if chance.random() < 0.5:
                    process.status()
                process.close(kill=True)
            else:
                status = process.wait_synced()
                retries = int(str(status.get("retries", 0)))
                process.close()
    finally:
        work.close()
    _identical(upstream, target, name)
    return work.committed, retries


CASES = [(kind, checks) for kind in SETS for checks in (True, False)]
LONG_SEEDS = 4


def _possible(kind: str, *, checks: bool, logged: bool) -> bool:
    """Without checks, nothing tells what the foreign keys of a source do that does not log it: a precheck failure."""
    return kind != "acting" or checks or logged


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize(("kind", "checks"), [("refusing", True), ("keyless", True), ("acting", True)])
def test_joined_tables_end_as_at_the_source(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, kind: str, checks: bool
) -> None:
    name = schema(upstream, target)
    print(f"seed 1 on {flavor}")
    _followed(upstream, target, name, kind, checks=checks, rounds=2, seed=1)


@pytest.mark.tidb
@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize(
    ("kind", "checks"),
    [
        ("refusing", True),
        *(pytest.param(*case, marks=pytest.mark.chaos) for case in CASES if case != ("refusing", True)),
    ],
)
def test_a_tidb_ends_as_the_source(
    flavor: Flavor, upstream: ThrowawayServer, tidb: TidbServer, schema: SchemaFactory, kind: str, *, checks: bool
) -> None:
    if not _possible(kind, checks=checks, logged=flavor == "mysql"):
        pytest.skip("a precheck refuses it: nothing would tell what these foreign keys do")
    _followed(upstream, tidb, schema(upstream, tidb), kind, checks=checks, rounds=2, seed=1)


def test_a_foreign_key_that_would_act_at_the_source_alone_pauses(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(
            f"USE {name}", "CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE c (id INT PRIMARY KEY, p INT)"
        )
    subtask = _subtask(upstream, target, name, checks=False)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        upstream.execute(f"USE {name}", "INSERT INTO p VALUES (1), (2)", "INSERT INTO c VALUES (1, 1), (2, 2)")
        sync.wait_synced()
    upstream.execute(f"USE {name}", "ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE")
    if flavor == "mariadb":
        with pytest.raises(DMError) as pause, running_sync(subtask) as sync:
            sync.wait_synced()
        assert (pause.value.code, pause.value.position != "") == (36958, True)
        subtask = _subtask(upstream, target, name, checks=True)
    upstream.execute(f"DELETE FROM {name}.p WHERE id = 1")
    with running_sync(subtask) as sync:
        sync.wait_synced()
    _identical(upstream, target, name)
    assert target.query(f"SELECT id FROM {name}.c") == ((2,),)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("source", ["mysql", "mysql-native", "mariadb"])
def test_joined_tables_end_as_at_the_source_through_many_kills(
    server: ServerFactory, schema: SchemaFactory, source: str
) -> None:
    """`mysql-native`: InnoDB acts, as before MySQL 9.6, and nothing of it is in the binlog."""
    flavor: Flavor = "mariadb" if source == "mariadb" else "mysql"
    options: dict[str, Option] = {"innodb_native_foreign_keys": "ON"} if source == "mysql-native" else {}
    upstream, target = (
        server(flavor, gtid=True, start=True, **options),
        server(flavor, gtid=True, start=True, **options),
    )
    runs = transactions = retries = 0
    for kind, checks in CASES:
        if not _possible(kind, checks=checks, logged=source == "mysql"):
            continue
        for seed in range(LONG_SEEDS):
            print(f"{kind}, checks {checks}, seed {seed}")
            name = schema(upstream, target)
            done, again = _followed(upstream, target, name, kind, checks=checks, rounds=5, seed=seed)
            runs, transactions, retries = runs + 1, transactions + done, retries + again
    record(
        f"syncer.foreign_keys_{source}",
        {"runs": runs, "kills": runs * 4, "transactions": transactions, "workers": WORKERS, "retries": retries},
    )
