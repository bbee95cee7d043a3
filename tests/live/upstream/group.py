"""A replication group of two servers, a load on one of them, and a task that goes on after whatever can heal."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr

from dm.clock import Clock, SystemClock
from dm.config.endpoint import Endpoint
from dm.config.references import StartPoint
from dm.config.source import SourceConfig
from dm.config.subtask import SubtaskConfig
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.relay.unit import RelayUnit
from dm.syncer.unit import SyncUnit
from dm.unit import JSON
from tests.testbed.replication_words import forgetting_binlogs, replicating, speaks_of_masters
from tests.testbed.sync import subtask_for, wait_until, work_directory_of

HEARTBEAT = 1.0
PATIENCE = 90.0
PAUSE = 0.02  # between two transactions of a load: a target that shares the machine must be able to follow
_MARKS = itertools.count(1_000_000)
SCHEMA = "grp"
TABLES = (
    f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",  # older servers have others
    f"CREATE TABLE {SCHEMA}.keyed (id INT PRIMARY KEY, v VARCHAR(200))",
    f"CREATE TABLE {SCHEMA}.keyless (v INT, w VARCHAR(20))",
)


def endpoint_at(server: ThrowawayServer, port: int | None = None) -> Endpoint:
    return Endpoint(host=server.host, port=port or server.port, user=server.user, password=SecretStr(server.password))


def replicate(source: ThrowawayServer, replica: ThrowawayServer, *, fresh: bool) -> None:
    """Let one server follow the other by GTID; a fresh one forgets what it did on its own."""
    login = (
        f"'{source.host}', {{}}_PORT = {source.port}, {{}}_USER = '{source.user}', {{}}_PASSWORD = '{source.password}'"
    )
    former, mysql = speaks_of_masters(replica), source.flavor == "mysql"
    if mysql and fresh:
        replica.execute(forgetting_binlogs(replica))
    if not former:
        replica.execute(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = "
            + login.replace("{}", "SOURCE")
            + ", SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1, SOURCE_CONNECT_RETRY = 1"
        )
    else:
        by_gtid = "MASTER_AUTO_POSITION = 1, MASTER_CONNECT_RETRY = 1" if mysql else "MASTER_USE_GTID = current_pos"
        replica.execute(f"CHANGE MASTER TO MASTER_HOST = {login.replace('{}', 'MASTER')}, {by_gtid}")
    replica.execute(replicating("START", replica))


def wait_caught_up(source: ThrowawayServer, replica: ThrowawayServer) -> None:
    """Wait until the replica has applied what the source has now."""
    if source.flavor == "mysql":
        ((done,),) = source.query("SELECT @@global.gtid_executed")
        if replica.installation.release < (5, 7):  # it tells how many transactions it has waited for
            ((waited,),) = replica.query("SELECT WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS(%s, 60)", (done,))
            answer = 0 if waited is not None and int(waited) >= 0 else waited
        else:
            ((answer,),) = replica.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 60)", (done,))
    else:
        ((done,),) = source.query("SELECT @@global.gtid_binlog_pos")
        ((answer,),) = replica.query("SELECT MASTER_GTID_WAIT(%s, 60)", (done,))
    assert answer == 0, f"{replica!r} has not come to {done}"


class Load:
    """Transactions on keyed and keyless tables, one after the other, until it is stopped."""

    def __init__(self, first: int = 1, pause: float = PAUSE) -> None:
        self._pause = pause
        self._numbers = itertools.count(first)
        self.transactions = 0

    def write(self, server: ThrowawayServer, count: int) -> None:
        """So many transactions now."""
        with self.running(server, count):
            pass

    @contextmanager
    def running(self, server: ThrowawayServer, count: int | None = None) -> Iterator[None]:
        """In a thread; what the server refuses because it goes away ends it."""
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(server, stop, count))
        thread.start()
        try:
            yield
        finally:
            if count is None:
                stop.set()
            thread.join()

    def _run(self, server: ThrowawayServer, stop: threading.Event, count: int | None) -> None:
        connection = server.connect(autocommit=False)
        with connection.cursor() as cursor:
            while not stop.wait(self._pause) and count != 0:
                number = next(self._numbers)
                for statement in (
                    f"INSERT INTO {SCHEMA}.keyed VALUES ({number}, REPEAT('x', {number % 200}))",
                    f"INSERT INTO {SCHEMA}.keyless VALUES ({number % 3}, 'twice'), ({number % 3}, 'twice')",
                    f"UPDATE {SCHEMA}.keyed SET v = 'changed' WHERE id = {number // 2}",
                    f"UPDATE {SCHEMA}.keyless SET w = 'once' WHERE v = {number % 3} AND w = 'twice' LIMIT 1",
                    f"DELETE FROM {SCHEMA}.keyed WHERE id = {number // 3}",
                ):
                    cursor.execute(statement)
                connection.commit()
                self.transactions += 1
                count = None if count is None else count - 1
        connection.close()


class QuickClock(SystemClock):
    """Waits between two attempts are short, so that a test can have many."""

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        return signal.wait(min(seconds, 0.05))


def source_at(endpoint: Endpoint, standby: Endpoint | None = None) -> SourceConfig:
    return SourceConfig(source_id="one", endpoint=endpoint, standby=standby, enable_gtid=True)


def executed(server: ThrowawayServer) -> str:
    """The GTID set that ends the server's binlog."""
    variable = "gtid_executed" if server.flavor == "mysql" else "gtid_binlog_pos"
    return str(server.query(f"SELECT @@global.{variable}")[0][0]).replace("\n", "")


def subtask_of(source: SourceConfig, start: ThrowawayServer, target: ThrowawayServer, task: str) -> SubtaskConfig:
    """An incremental task from the present end of a server."""
    unique = f"{task}_{secrets.token_hex(4)}"  # the target may remember another test's task
    subtask = subtask_for(start, target, SCHEMA, task=unique, meta=StartPoint(binlog_gtid=executed(start)))
    return subtask.model_copy(update={"source": source})


class Following:
    """A sync unit, and a relay if wanted, that are started again after each error that can heal."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        target: ThrowawayServer,
        relay_directory: Path | None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._subtask = subtask
        self._target = target
        self._relay_directory = relay_directory
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self.errors: list[str] = []  # names, in the order of the runs they ended
        self.last_words = ""  # of the last run that ended with an error
        self.failure: BaseException | None = None
        self.relay: RelayUnit | None = None
        self.sync: SyncUnit | None = None
        self._threads = [threading.Thread(target=self._guarded, args=(self._run_sync,))]
        if relay_directory is not None:
            self.relay = RelayUnit(subtask.source, relay_directory, heartbeat_seconds=HEARTBEAT, clock=self._clock)
            self._threads.append(threading.Thread(target=self._guarded, args=(self._run_relay,)))

    def __enter__(self) -> Following:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if kind is None and self.failure is not None:
            raise self.failure

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:
            self.failure = error

    def _run_relay(self) -> None:
        assert self.relay is not None
        self.relay.run(self._stop)

    def _run_sync(self) -> None:
        while not self._stop.is_set():
            work = work_directory_of(self._subtask)
            self.sync = SyncUnit(
                self._subtask, relay_directory=self._relay_directory, work_directory=work, clock=self._clock
            )
            try:
                self.sync.run(self._stop)
            except DMError as error:
                if not error.retryable:
                    raise
                self.errors.append(error.name)
                self.last_words = error.message
                self._stop.wait(0.2)

    @property
    def status(self) -> Mapping[str, JSON]:
        """Of the unit that decides where the source is read: the relay, else the syncer."""
        unit = self.relay or self.sync
        return {} if unit is None else unit.status()

    @property
    def says(self) -> str:
        """What a unit waits for at the moment, in its words."""
        if self.relay is not None:
            return "" if self.relay.trouble is None else self.relay.trouble.message
        trouble = None if self.sync is None else self.sync.status().get("waiting")
        return f"{trouble or ''} {self.last_words}"

    def wait_read_at(self, server: ThrowawayServer) -> None:
        """Wait until the source is read at this server."""
        address = f"{server.host}:{server.port}"
        self.wait_until(lambda: self.status.get("sourceAddress") == address, f"{server!r} to be read")

    def reads_standby(self) -> bool:
        """Whether the source's standby is read."""
        return self.status["standbyInUse"] is True

    def wait_applied(self, server: ThrowawayServer) -> None:
        """Wait until everything that the server has is at the target; nobody may write meanwhile."""
        self.wait_seen(server)
        self.wait_until(lambda: self.sync is not None and self.sync.status()["synced"] is True, "synced")

    def wait_seen(self, server: ThrowawayServer) -> None:
        """Write a mark at the server and wait until it is at the target."""
        number = next(_MARKS)
        server.execute(f"INSERT INTO {SCHEMA}.keyed VALUES ({number}, 'mark')")
        marked = f"SELECT COUNT(*) FROM {SCHEMA}.keyed WHERE id = {number}"
        self.wait_until(lambda: self._target.query(marked) == ((1,),), f"a mark of {server!r} to arrive")

    def wait_until(self, done: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait for something; raises the error that a unit ended with."""

        def failed_or_done() -> bool:
            if self.failure is not None:
                raise self.failure
            return done()

        try:
            wait_until(failed_or_done, what, seconds)
        except AssertionError as error:
            sync = None if self.sync is None else self.sync.status()
            error.add_note(f"runs ended with {self.errors}; relay or sync: {self.status}; sync: {sync}")
            raise
