"""A source whose commits stand still: in the binlog already, in no table yet, as semi-synchronous waiting makes them.

The end of such a binlog is ahead of what a reader sees. A dump that took it for its start would lose these changes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, beside, follow, rows
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mysql"), pytest.mark.timeout(300)]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, u INT UNIQUE, v INT)",
    "INSERT INTO keyed VALUES " + ", ".join(f"({number}, {number}, 0)" for number in range(1, 21)),
    "CREATE TABLE keyless (v INT)",
    "INSERT INTO keyless VALUES (1), (1), (2)",
)
KEYED = (
    "UPDATE keyed SET id = 101 WHERE id = 1",
    "UPDATE keyed SET u = NULL WHERE id = 2",
    "UPDATE keyed SET u = 2 WHERE id = 3",
    "UPDATE keyed SET u = 3 WHERE id = 2",
    "DELETE FROM keyed WHERE id = 4",
    "INSERT INTO keyed VALUES (4, 44, 1), (500, 500, 1)",
)
KEYLESS = ("INSERT INTO keyless VALUES (1)", "DELETE FROM keyless WHERE v = 2")


class StalledSource:
    """A server of the test's own, whose commits wait for a replica that does not exist, while they are stalled."""

    def __init__(self, server: ThrowawayServer) -> None:
        self.server = server
        mysql = server.flavor == "mysql"
        self._word = "rpl_semi_sync_source" if mysql else "rpl_semi_sync_master"
        nobody = "replica" if mysql else "slave"
        if mysql:
            server.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
        server.execute(
            f"SET GLOBAL {self._word}_timeout = 3600000",
            f"SET GLOBAL {self._word}_wait_no_{nobody} = ON",
            f"SET GLOBAL {self._word}_wait_point = 'AFTER_SYNC'",
        )

    def stall(self) -> None:
        self.server.execute(f"SET GLOBAL {self._word}_enabled = ON")

    def release(self) -> None:
        self.server.execute(f"SET GLOBAL {self._word}_enabled = OFF")

    def commit(self, schema: str, statements: tuple[str, ...]) -> None:
        """One transaction; returns when it is committed."""
        connection = self.server.connect(autocommit=False, database=schema)
        with connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def busy_with(self, words: str) -> bool:
        """Whether a session is in such a state or at such a statement."""
        return any(words in f"{row[6]} {row[7]}" for row in rows(self.server, "SHOW PROCESSLIST"))

    def await_stalled(self) -> None:
        wait_until(lambda: self.busy_with("emi-sync ACK"), "the commit stands still")


@pytest.fixture
def source(server: ServerFactory, flavor: Flavor) -> StalledSource:
    return StalledSource(server(flavor))


def stored(load: FullLoad, table: str, column: str) -> set[int]:
    files = load.directory.glob(f"{load.schema}.{table}.*.parquet")
    return {int(value) for file in files for value in parquet.read_table(file)[column].to_pylist()}


def test_what_is_in_the_binlog_and_not_yet_to_be_seen_is_not_lost(
    source: StalledSource, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(source.server, target, *TABLES, rows=3)
    source.stall()
    with beside(lambda: source.commit(load.schema, KEYED)):
        try:
            source.await_stalled()
            plan = load.dump()
        finally:
            source.release()
    assert stored(load, "keyed", "id") == set(range(1, 21)), "the dump was made before the commit was to be seen"
    assert plan.p1 is not None
    assert not plan.p0.covers(plan.p1)
    load.load()
    follow(load)


@pytest.mark.parametrize(
    ("consistency", "changes", "lock"),
    [
        ("none", KEYLESS, "LOCK TABLES `"),
        pytest.param("flush", KEYED, "FLUSH TABLES WITH READ LOCK", marks=pytest.mark.chaos),
        pytest.param("lock", KEYED, "LOCK TABLES `", marks=pytest.mark.chaos),
    ],
)
def test_where_a_lock_is_needed_the_dump_waits_for_the_commit(
    consistency: str,
    changes: tuple[str, ...],
    lock: str,
    source: StalledSource,
    target: ThrowawayServer,
    full_load: LoadFactory,
) -> None:
    load = full_load(source.server, target, *TABLES, rows=3, consistency=consistency)
    source.stall()
    with beside(lambda: source.commit(load.schema, changes)):
        source.await_stalled()
        try:
            with beside(load.dump):
                wait_until(lambda: source.busy_with(lock), "the dump waits for its lock")
                source.release()
        finally:
            source.release()
    load.load()
    follow(load)


@pytest.mark.chaos
def test_without_gtids_the_start_waits_for_the_commit(
    server: ServerFactory, target: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    source = StalledSource(server("mysql", gtid=False))
    load = full_load(source.server, source.server, TABLES[0], TABLES[1], rows=3)
    source.stall()
    with beside(lambda: source.commit(load.schema, KEYED)):
        source.await_stalled()
        try:
            with beside(load.dump):
                wait_until(lambda: source.busy_with("FLUSH TABLES WITH READ LOCK"), "the dump waits for its lock")
                source.release()
        finally:
            source.release()
    assert 500 in stored(load, "keyed", "id")
    load.load()
    follow(load)
