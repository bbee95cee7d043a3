"""From any transaction boundary between L and B the rest is replayed into the same target (I3 to I5, `protocol.py`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.ident import Ident
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.progress.tables import SubtaskKey
from dm.sourcelog.upstream.facts import binlog_end, read_facts
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.hot_keys import HotKeys
from tests.testbed.loop_result import draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.sync import WITHOUT_CHECKPOINTS, SyncProcess, running_sync, subtask_for

pytestmark = [pytest.mark.live, pytest.mark.timeout(1200)]

TRANSACTIONS = 80
TAIL = 15


class Replay:
    """A run that was killed with L at its start and B at its end, and the target as it was left, kept beside it."""

    def __init__(self, upstream: ThrowawayServer, target: ThrowawayServer, name: str, seed: int) -> None:
        self._upstream = upstream
        self._target = target
        self._name = name
        self._chance = random.Random(seed)
        self._scene = HotKeys(name)
        self._subtask = subtask_for(upstream, target, name, task=name)
        key = SubtaskKey(self._subtask.meta_schema, self._subtask.task, self._subtask.source_id)
        self._checkpoint, self._worker = key.checkpoint.sql, key.worker.sql
        self._kept = Ident(f"kept_{name}").sql
        self.boundaries: list[Position] = []

    def first_run(self) -> None:
        """Play the workload into the target, kill the syncer, keep everything, write a little more at the source."""
        for server in (self._upstream, self._target):
            server.execute(*self._scene.create())
        process = SyncProcess(self._subtask, patch=WITHOUT_CHECKPOINTS)
        connection = self._upstream.connect(autocommit=False, binary_prefix=True)
        try:
            process.wait_synced()
            with self._source_position() as here:
                self.boundaries.append(here())
                for _ in range(TRANSACTIONS):
                    self._transaction(connection)
                    self.boundaries.append(here())
            process.wait_synced()
            process.process.kill()
            process.process.wait()
            for _ in range(TAIL):
                self._transaction(connection)
        finally:
            connection.close()
            process.close(kill=True)
        copies = [f"CREATE DATABASE {self._kept}"]
        for number, table in enumerate(self._tables()):
            copies.append(f"CREATE TABLE {self._kept}.t{number} AS SELECT * FROM {table}")
        self._target.execute(*copies)

    def from_boundary(self) -> int:
        """Put the target back, start from a drawn boundary, compare; gives the rows that were replayed in safe mode."""
        for number, table in enumerate(self._tables()):
            self._target.execute(f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM {self._kept}.t{number}")
        start = self._chance.choice(self.boundaries)
        with self._target.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE {self._checkpoint} SET binlog_name = %s, binlog_pos = %s, binlog_gtid = %s WHERE is_global",
                (start.file, start.offset, str(start.gtid_set)),
            )
        with running_sync(self._subtask) as sync:
            status = sync.wait_synced(120)
        report = compare(pair_tables([self._upstream], [self._name]), self._target)
        assert report.identical, f"from {start} of {self.boundaries[0]} to {self.boundaries[-1]}: {report}"
        return int(str(status["safeModeRows"]))

    def close(self) -> None:
        """Remove what was kept."""
        self._target.execute(f"DROP DATABASE IF EXISTS {self._kept}")

    def _tables(self) -> list[str]:
        names = self._target.query("SHOW TABLES FROM " + Ident(self._name).sql)
        tables = [f"{Ident(self._name).sql}.{Ident(str(row[0])).sql}" for row in names]
        return [*tables, self._checkpoint, self._worker]

    @contextmanager
    def _source_position(self) -> Iterator[Callable[[], Position]]:
        connection = self._upstream.connect(autocommit=True)
        try:
            facts = read_facts(connection)
            yield lambda: binlog_end(connection, facts)
        finally:
            connection.close()

    def _transaction(self, connection: Connection[Cursor]) -> None:
        try:
            with connection.cursor() as cursor:
                for statement, parameters in self._scene.transaction(self._chance):
                    cursor.execute(statement, parameters)
            connection.commit()
        except pymysql.err.Error:  # refused, as a duplicate key is
            connection.rollback()


def replayed(park: ServerPark, schema: SchemaFactory, flavor: Flavor, starts: int) -> None:
    upstream, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    seed = draw_seed(flavor)
    print(f"DM_SEED={seed}")
    replay = Replay(upstream, target, schema(upstream, target), seed)
    try:
        replay.first_run()
        rows = [replay.from_boundary() for _ in range(starts)]
    finally:
        replay.close()
    assert sum(rows) > starts, f"seed {seed}: next to nothing was replayed"
    record(
        f"replay.{flavor}",
        {"seed": seed, "starts": starts, "boundaries": len(replay.boundaries), "rows in safe mode": sum(rows)},
    )


@pytest.mark.ci_flavor("mariadb")
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_few_suffixes_give_the_same_target(park: ServerPark, schema: SchemaFactory, flavor: Flavor) -> None:
    replayed(park, schema, flavor, 4)


@pytest.mark.chaos
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_hundred_suffixes_give_the_same_target(park: ServerPark, schema: SchemaFactory, flavor: Flavor) -> None:
    replayed(park, schema, flavor, 100)
