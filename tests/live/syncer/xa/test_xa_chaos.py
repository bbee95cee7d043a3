"""Random XA transactions between others, while the syncer dies at drawn points and the source is restarted.

All of it is drawn from the seed; where exactly a process dies also depends on the machine. Each XA transaction changes
rows of a range of its own, since a prepared one keeps its locks; everything else is hot.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.faults import POINTS
from dm.mysql.dialect import Flavor
from dm.sourcelog.upstream.snapshot import prepared_xids
from tests.live.syncer.follow.test_follow import identical
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import PreparedProcess, SyncProcess, subtask_for

pytestmark = pytest.mark.live

XA_POINTS = tuple(sorted(point for point in POINTS if point.startswith("xa.")))
OTHER_POINTS = (
    "syncer.after_commit",
    "syncer.after_checkpoint",
    "syncer.before_checkpoint",
    "syncer.before_commit",
    "syncer.bound_persisted",
)
AT_START = ("xa.before_takeover", "xa.after_takeover", "syncer.bound_persisted")  # passed once in a life
RANGE = 50
ER_XAER_NOTA = 1397
ER_LOCK_WAIT_TIMEOUT = 1205
ER_XAER_DUPID = 1440
SLOTS = 6


class XaWorkload:
    """Writes one random step after the other; knows what it has prepared and not decided."""

    def __init__(self, upstream: ThrowawayServer, schema: str, chance: random.Random) -> None:
        self._upstream = upstream
        self._schema = schema
        self._chance = chance
        self._number = 0
        self.undecided: dict[int, str] = {}  # slot -> xid
        self.restarted = False
        self.done: Counter[str] = Counter()

    def create(self, *servers: ThrowawayServer) -> None:
        """The tables, the same on all servers, and the rows that XA transactions change."""
        for server in servers:
            server.execute(
                f"CREATE TABLE {self._schema}.keyed (id INT PRIMARY KEY, u INT UNIQUE, n INT)",
                f"CREATE TABLE {self._schema}.keyless (a INT, b INT, KEY (a))",
                f"CREATE TABLE {self._schema}.altered (id INT PRIMARY KEY)",
                # A REPLACE that meets a key locks the gap beside it, whatever the isolation, and a prepared transaction
                # keeps that lock: rows that nobody changes keep the slots apart.
                f"INSERT INTO {self._schema}.keyed VALUES "
                + ", ".join(f"({at}, {at}, 0)" for at in range(0, (SLOTS + 2) * RANGE, RANGE)),
            )

    def step(self) -> None:
        """One more transaction, verdict or DDL."""
        chance = self._chance
        free = [slot for slot in range(SLOTS) if slot not in self.undecided]
        if self.undecided and (not free or chance.random() < 0.4):
            self.decide(chance.choice(list(self.undecided)), commit=chance.random() < 0.7)
        elif free and chance.random() < 0.5:
            self._prepare(chance.choice(free))
        elif chance.random() < 0.05:
            self._number += 1
            self._upstream.execute(f"ALTER TABLE {self._schema}.altered ADD COLUMN c{self._number} INT")
            self.done["ddl"] += 1
        else:
            self._written("others", "BEGIN", *self._changes(SLOTS), "COMMIT")

    def _prepare(self, slot: int) -> None:
        # Xids come again: what tells two of one name apart is their order. (To MySQL two that differ in the format id
        # alone are the same.)
        xid = (
            f"'{self._schema}', 'slot{slot}'"
            if self._chance.random() < 0.7
            else f"'{self._schema}', 0xff27{slot:02x}, 7"
        )
        # One that changes nothing is not logged, and MySQL forgets it with its session.
        changes = [f"INSERT INTO {self._schema}.keyless VALUES ({slot}, {self._number})", *self._changes(slot)]
        if self._written("prepared", f"XA START {xid}", *changes, f"XA END {xid}", f"XA PREPARE {xid}"):
            self.undecided[slot] = xid

    def _written(self, what: str, *statements: str) -> bool:
        """Whether it was written: who meets the lock of a prepared transaction gives up, and nothing of it is logged.

        A DELETE reads the whole table where the server believes it small, and then waits for rows of other slots. The
        xid of who gave up is taken until the server has ended that session.
        """
        try:
            self._upstream.execute(
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                "SET SESSION innodb_lock_wait_timeout = 1",
                *statements,
            )
        except pymysql.err.OperationalError as error:
            if error.args[0] not in (ER_LOCK_WAIT_TIMEOUT, ER_XAER_DUPID):
                raise
            what = "given up"
        self.done[what] += 1
        return what != "given up"

    def decide(self, slot: int, *, commit: bool) -> None:
        """Commit or roll back what the slot has prepared."""
        what = "committed" if commit else "rolled back"
        try:
            self._upstream.execute(f"XA {'COMMIT' if commit else 'ROLLBACK'} {self.undecided[slot]}")
        except pymysql.err.OperationalError as error:
            # MySQL 9.7 was seen to forget a prepared transaction when it is restarted, its PREPARE in the binlog.
            if error.args[0] != ER_XAER_NOTA or not self.restarted:
                raise
            what = "lost by the source"
        del self.undecided[slot]
        self.done[what] += 1

    def release(self) -> None:
        """Roll back what is still prepared: its locks would keep the schema from being dropped.

        That is what a failed test left undecided. And InnoDB flushes no redo for a rollback: a server that is killed
        within a second after XA ROLLBACK has the transaction prepared again, and only its binlog knows better.
        """
        with closing(self._upstream.connect()) as connection:
            for xid in prepared_xids(connection, self._upstream.flavor):
                with suppress(pymysql.err.OperationalError), connection.cursor() as cursor:
                    cursor.execute(f"XA ROLLBACK {xid}")

    def _changes(self, slot: int) -> list[str]:
        chance, keyed, keyless = self._chance, f"{self._schema}.keyed", f"{self._schema}.keyless"
        changes = []
        for _ in range(chance.randint(1, 6)):
            self._number += 1
            one = slot * RANGE + chance.randrange(1, RANGE)
            changes.append(
                chance.choice(
                    (
                        f"REPLACE INTO {keyed} VALUES ({one}, {one}, {self._number})",
                        f"UPDATE {keyed} SET n = {self._number} WHERE id = {one}",
                        f"DELETE FROM {keyed} WHERE id = {one}",
                        f"INSERT INTO {keyless} VALUES ({slot}, {self._number}), ({slot}, {self._number})",
                        f"DELETE FROM {keyless} WHERE a = {slot} ORDER BY b LIMIT 1",
                    )
                )
            )
        return changes


class XaChaos:
    """Lives of a syncer beside the workload."""

    def __init__(
        self, upstream: ThrowawayServer, target: ThrowawayServer, schema: str, directory: Path, seed: int
    ) -> None:
        self._chance = random.Random(seed)
        self._upstream = upstream
        self._target = target
        self._schema = schema
        self._directory = directory
        self._subtask = subtask_for(upstream, target, schema, task=schema, workers=2, checkpoint_flush_interval=1)
        self._log = directory / "struck"
        self._log.touch()
        self.workload = XaWorkload(upstream, schema, self._chance)
        self.restarts = 0
        self.lives = 0
        self._next = PreparedProcess()

    def _process(self, faults: str = "") -> SyncProcess:
        ready, self._next = self._next, PreparedProcess()
        return SyncProcess(
            self._subtask, work_directory=self._directory / "work", faults=faults, fault_log=self._log, ready=ready
        )

    @property
    def fired(self) -> Counter[str]:
        """How often a process died at each point."""
        return Counter(line.split()[0] for line in self._log.read_text().splitlines())

    def run(self, lives: int, *, restarts: bool) -> None:
        """So many lives and a clean one; then everything is decided and compared."""
        try:
            self.workload.create(self._upstream, self._target)
            first = self._process()
            first.wait_synced(600)
            first.close()
            for _ in range(lives):
                self._life()
                if restarts and self._chance.random() < 0.1:
                    self._upstream.kill()
                    self._upstream.start()
                    self.restarts += 1
                    self.workload.restarted = True
            last = self._process()
            last.wait_synced(600)
            for slot in list(self.workload.undecided):
                self.workload.decide(slot, commit=slot % 2 == 0)
            last.wait_synced(600)
            last.close()
        finally:
            self.workload.release()
            self._next.discard()
        identical(self._upstream, self._target, self._schema)
        assert len(list(self._directory.rglob("*.xa"))) <= self.workload.done["lost by the source"]

    def _life(self) -> None:
        point = self._chance.choice((*XA_POINTS, *XA_POINTS, *OTHER_POINTS))
        passages = 1 if point in AT_START else self._chance.randint(1, 5)
        process = self._process(f"{point}=kill@{passages}")
        self.lives += 1
        for _ in range(self._chance.randint(5, 60)):
            if process.ended:
                break
            self.workload.step()
        if self._chance.random() < 0.7:
            # Until it dies, or has nothing more to do.
            while not process.ended:
                status = process.status()
                if status is None or (status["synced"] is True and point not in AT_START):
                    break
        process.close(kill=True)


def run_chaos(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: str,
    directory: Path,
    *,
    seed: int,
    lives: int,
    own: bool,
) -> XaChaos:
    print(f"seed {seed}")
    chaos = XaChaos(upstream, target, schema, directory, seed)
    chaos.run(lives, restarts=own)
    return chaos


@pytest.mark.chaos
def test_random_xa_transactions_survive_a_few_deaths(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    chaos = run_chaos(upstream, target, schema(upstream, target), tmp_path, seed=11, lives=4, own=False)
    assert chaos.fired
    assert chaos.workload.done["committed"]
    assert chaos.workload.done["rolled back"]


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_random_xa_transactions_survive_deaths_of_both_sides(
    flavor: Flavor, server: ServerFactory, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    upstream = server(flavor)
    seed = random.SystemRandom().randrange(2**32)
    chaos = run_chaos(upstream, target, schema(upstream, target), tmp_path, seed=seed, lives=80, own=True)
    record(
        f"syncer.xa.{flavor}",
        {
            "seed": seed,
            "lives": chaos.lives,
            "restarts_of_the_source": chaos.restarts,
            "deaths": dict(sorted(chaos.fired.items())),
            **{
                f"transactions_{what.replace(' ', '_')}": number for what, number in sorted(chaos.workload.done.items())
            },
            "lost_or_doubled_rows": 0,
        },
    )
    assert set(XA_POINTS) <= set(chaos.fired)
