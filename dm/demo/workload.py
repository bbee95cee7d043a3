"""A writer that keeps playing a scene on a server until it is told to stop.

Transactions that the server refuses (a duplicate key, a deadlock, a foreign key) are rolled back and counted, as an
application would. A server that goes away is waited for. Anything else is a defect of the scene: it ends the writer
and is raised by `stop`. The sequence of transactions depends on the seed alone, which every message of this module
names.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CR, ER
from pymysql.cursors import Cursor

_REFUSALS = frozenset(
    {
        ER.DUP_ENTRY,
        ER.LOCK_DEADLOCK,
        ER.LOCK_WAIT_TIMEOUT,
        ER.ROW_IS_REFERENCED_2,
        ER.NO_REFERENCED_ROW_2,
        ER.BAD_NULL_ERROR,
        ER.WARN_DATA_OUT_OF_RANGE,
        1690,  # a BIGINT UNSIGNED below zero
        1020,  # MariaDB: the record changed since it was read
    }
)
_GONE = frozenset(
    {CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, ER.SERVER_SHUTDOWN, 0}
)
_ROLLBACKS = 0.03  # the share of transactions that change their mind


class WorkloadServer(Protocol):
    """What is needed of a server."""

    def connect(self, **arguments: Any) -> Connection[Cursor]:
        """A new connection."""
        ...


@dataclass
class WriterCounts:
    """What a writer did so far."""

    transactions: int = 0  # committed
    rows: int = 0  # that the statements of those affected
    by_verb: dict[str, int] = field(default_factory=dict)  # statements that changed something: INSERT, UPDATE, ...
    refused: int = 0
    rolled_back: int = 0
    outages: int = 0
    alters: int = 0


@dataclass
class _Alter:
    statement: str = ""
    done: threading.Event = field(default_factory=threading.Event)


class Writer:
    """Plays one scene on one server in a thread of its own."""

    def __init__(self, server: WorkloadServer, scene: Scene, *, seed: int, rate: float | None = None) -> None:
        self.seed = seed
        self.tally = WriterCounts()
        self._server = server
        self._scene = scene
        self._chance = random.Random(seed)
        self._seconds = 0.0 if rate is None else 1 / rate
        self._stop = threading.Event()
        self._go = threading.Event()
        self._go.set()
        self._resting = threading.Event()
        self._alters: list[_Alter] = []
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer-{scene.schema}-{seed}", daemon=True)

    def start(self) -> Self:
        """Begin to write."""
        self._thread.start()
        return self

    def stop(self) -> WriterCounts:
        """Finish the current transaction and end; raises what ended the writer before."""
        self._stop.set()
        self._go.set()
        self._thread.join()
        if self._failure is not None:
            raise RuntimeError(f"the workload with seed {self.seed} failed") from self._failure
        return self.tally

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def pause(self) -> None:
        """Return when the current transaction is finished; nothing is written until `resume`."""
        self._go.clear()
        while self._thread.is_alive() and not self._resting.wait(0.05):
            pass

    def resume(self) -> None:
        """Write again."""
        self._go.set()

    def alter(self) -> str:
        """Run the scene's next DDL between two transactions and say what it was."""
        request = _Alter()
        with self._lock:
            self._alters.append(request)
        while not request.done.wait(0.05):
            if not self._thread.is_alive():
                raise RuntimeError(f"the workload with seed {self.seed} has ended") from self._failure
        return request.statement

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._write()
                except pymysql.err.Error as error:
                    if error.args[0] not in _GONE:
                        raise
                    self.tally.outages += 1
                    self._stop.wait(0.1)
        except BaseException as failure:
            self._failure = failure

    def _write(self) -> None:
        connection = self._server.connect(autocommit=False, binary_prefix=True)
        try:
            with connection.cursor() as cursor:
                # A scene's random statement must not wait long for another writer's lock.
                cursor.execute("SET SESSION innodb_lock_wait_timeout = 5")
                due = time.monotonic()
                while not self._stop.is_set():
                    if not self._go.is_set():
                        self._resting.set()
                        self._go.wait()
                        self._resting.clear()
                        continue
                    self._alter(cursor)
                    self._transaction(connection, cursor, self._scene.transaction(self._chance))
                    due = max(due + self._seconds, time.monotonic() - 1)
                    if self._seconds:
                        self._stop.wait(max(0.0, due - time.monotonic()))
        finally:
            connection.close()

    def _alter(self, cursor: Cursor) -> None:
        with self._lock:
            requests = self._alters[:1]
        for request in requests:
            request.statement = request.statement or self._scene.alter()
            cursor.execute(request.statement)
            self.tally.alters += 1
            with self._lock:
                self._alters.remove(request)
            request.done.set()

    def _transaction(self, connection: Connection[Cursor], cursor: Cursor, statements: Sequence[Statement]) -> None:
        verbs: list[str] = []
        rows = 0
        try:
            for statement, parameters in statements:
                affected = cursor.execute(statement, parameters)
                verb = statement.split(None, 1)[0]
                if affected and verb != "SELECT":
                    verbs.append(verb)
                    rows += affected
            if self._chance.random() < _ROLLBACKS:
                connection.rollback()
                self.tally.rolled_back += 1
                return
            connection.commit()
        except pymysql.err.Error as error:
            if error.args[0] not in _REFUSALS:
                raise
            connection.rollback()
            self.tally.refused += 1
            return
        self.tally.transactions += 1
        self.tally.rows += rows
        for verb in verbs:
            self.tally.by_verb[verb] = self.tally.by_verb.get(verb, 0) + 1


Statement = tuple[str, tuple[object, ...]]  # SQL with %s and what goes there


class Scene(Protocol):
    """Tables of one schema on one upstream, and what happens to them. Not for use by two threads at once."""

    schema: str

    def create(self) -> Sequence[str]:
        """The statements that create schema and tables."""
        ...

    def transaction(self, chance: random.Random) -> Sequence[Statement]:
        """The statements of one random transaction, its BEGIN and COMMIT left out; any of them may match no row."""
        ...

    def alter(self) -> str:
        """The next DDL statement with several operations; later transactions use what it adds."""
        ...
