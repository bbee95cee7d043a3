"""The pace of a task as Spark's workers ask for it: by the task's file here, through the driver from elsewhere.

A worker process is ended with its job, so it waits without a stop signal. It has the files open once, for all its
tasks. An executor of a cluster has no such file; it asks the driver over a connection that both prove to know a secret
of the session for (`multiprocessing.connection`).
"""

from __future__ import annotations

import secrets
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from dm.clock import SystemClock
from dm.errors import DMError
from dm.pace.governor import Governor
from dm.pace.shared import SharedPace
from dm.unit import JSON

if TYPE_CHECKING:
    from pyspark import SparkContext

_ASK: Final = struct.Struct("<QQ")
_ANSWER: Final = struct.Struct("<dI")
_MOST_CONNECTIONS: Final = 4096
_AGAIN_SECONDS: Final = 0.5  # after a connection that could not be taken
_PER_SECOND: Final = 5  # pieces of work per second, where a piece can be small


@dataclass(frozen=True, slots=True)
class PaceHandle:
    """Goes into the functions that Spark pickles."""

    task: str  # the file of the task
    sources: tuple[str, ...] = ()  # the files of the sources that are read
    driver: tuple[str, int] | None = None  # where the driver listens, if executors are elsewhere
    secret: bytes = b""

    def ask(self, rows: int, size: int) -> None:
        """Wait until so much may be done."""
        while seconds := _taken(self, rows, size)[0]:
            time.sleep(seconds)

    def take(self, rows: int, size: int) -> bool:
        """The same without a wait; False where it may not be done yet."""
        return not _taken(self, rows, size)[0]

    def rows_at_once(self) -> int | None:
        """How many rows a piece of work should have at most; None where rows are not limited."""
        return _taken(self, 0, 0)[1] or None


@dataclass(frozen=True, slots=True)
class PaceHere:
    """The same for threads of the unit's own process, which nothing ends but the stop."""

    files: tuple[SharedPace, ...]  # of the sources, and the task's
    stop: threading.Event

    def ask(self, rows: int, size: int) -> None:
        """Wait until so much may be done, or the stop."""
        while seconds := taken_of(self.files, rows, size)[0]:
            if self.stop.wait(seconds):
                return


_opened: dict[str, SharedPace] = {}
_connected: dict[tuple[str, int], Connection] = {}
_opening = threading.Lock()


def _taken(handle: PaceHandle, rows: int, size: int) -> tuple[float, int]:
    """Seconds to wait, and rows that a piece should have (0: any number)."""
    if handle.driver is not None:
        return _told(handle, rows, size)
    with _opening:
        files = [
            _opened.get(path) or _opened.setdefault(path, SharedPace(Path(path), SystemClock()))
            for path in (*handle.sources, handle.task)
        ]
    return taken_of(files, rows, size)


def taken_of(files: Iterable[SharedPace], rows: int, size: int) -> tuple[float, int]:
    """The same of these files; the task's is the last, and nothing is taken of it while a source is to be spared."""
    limited = [shared for shared in files if shared.limited]
    limits = [limit for shared in limited if (limit := shared.config.rows_per_second) is not None]
    most = max(1, min(limits) // _PER_SECOND) if limits else 0
    for shared in limited:
        if seconds := shared.take(rows, size):
            return seconds, most
    return 0.0, most


def _told(handle: PaceHandle, rows: int, size: int) -> tuple[float, int]:
    assert handle.driver is not None
    with _opening:
        try:
            connection = _connected.get(handle.driver)
            if connection is None:
                connection = _connected[handle.driver] = Client(handle.driver, authkey=handle.secret)
            connection.send_bytes(_ASK.pack(rows, size))
            seconds, most = _ANSWER.unpack(connection.recv_bytes(_ANSWER.size))
        except (OSError, EOFError, AuthenticationError, struct.error) as error:
            _connected.pop(handle.driver, None)
            raise DMError("pace-driver-silent", host=handle.driver[0], port=handle.driver[1]) from error
    return float(seconds), int(most)


class PaceServer:
    """Answers executors of a cluster, in the driver: a thread for each worker process."""

    def __init__(self, host: str, secret: bytes, files: Sequence[SharedPace]) -> None:
        self._secret = secret
        self._files = files
        self._listener = Listener((host, 0))
        self._over = threading.Event()
        self._connections: set[Connection] = set()
        self._thread = threading.Thread(target=self._accept, name="pace-server", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.address[1])

    def close(self) -> None:
        """Answer nobody any more."""
        self._over.set()
        with suppress(OSError):  # wakes `accept`, which a close of its socket does not
            Client(self._listener.address, authkey=None).close()
        self._thread.join()
        self._listener.close()
        for connection in list(self._connections):
            connection.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                connection = self._listener.accept()
            except OSError as error:  # too many open files, or a caller that has gone
                structlog.get_logger().warning("an executor could not ask for the pace; it tries again", error=error)
                self._over.wait(_AGAIN_SECONDS)
                continue
            if len(self._connections) >= _MOST_CONNECTIONS:
                connection.close()
                continue
            self._connections.add(connection)
            threading.Thread(target=self._answer, args=(connection,), name="pace-answer", daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        try:
            deliver_challenge(connection, self._secret)
            answer_challenge(connection, self._secret)
            while True:
                rows, size = _ASK.unpack(connection.recv_bytes(_ASK.size))
                connection.send_bytes(_ANSWER.pack(*taken_of(self._files, rows, size)))
        except (OSError, EOFError, struct.error, AuthenticationError):  # it ended, or lacks the secret
            return
        finally:
            self._connections.discard(connection)
            connection.close()


class BulkPace:
    """The pace of a unit whose work is done by Spark's workers."""

    def __init__(self, task: Governor, sources: Sequence[Governor] = ()) -> None:
        self._task = task
        self._all = (*sources, task)
        self._server: PaceServer | None = None
        self._handle: PaceHandle | None = None
        self._making = threading.Lock()

    @property
    def rows_per_second(self) -> int | None:
        """The limit of rows as it is now."""
        return self._task.shared.config.rows_per_second

    def handle(self, context: SparkContext) -> PaceHandle:
        """What workers ask by."""
        with self._making:
            if self._handle is None:
                files = tuple(each.shared for each in self._all)
                driver, secret = None, b""
                if not str(context.master).startswith("local"):
                    host, secret = str(context.getConf().get("spark.driver.host")), secrets.token_bytes(32)
                    self._server = PaceServer(host, secret, files)
                    driver = host, self._server.port
                sources = tuple(str(each.path) for each in files[:-1])
                self._handle = PaceHandle(str(self._task.path), sources, driver, secret)
            return self._handle

    def here(self, stop: threading.Event) -> PaceHere:
        """What threads of this process ask by that do the work of Spark's workers."""
        return PaceHere(tuple(each.shared for each in self._all), stop)

    def ask(self, rows: int, size: int, stop: threading.Event) -> bool:
        """Wait until this process itself may do so much; False when the stop came first."""
        return self._task.ask(rows, size, stop)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Meanwhile workers ask."""
        with ExitStack() as stack:
            for each in self._all:
                stack.enter_context(each.for_others())
            yield

    def status(self) -> dict[str, JSON]:
        """For `query-status`."""
        told = [each.status() for each in reversed(self._all)]
        return told[0] | next((each for each in told if each.get("paceHolds")), {})

    def close(self) -> None:
        """Answer and measure no more."""
        if self._server is not None:
            self._server.close()
        for each in self._all:
            each.close()


@contextmanager
def paced(pace: BulkPace | None) -> Iterator[None]:
    """Inside, a unit's workers may ask; afterwards its pace is over."""
    if pace is None:
        yield
        return
    try:
        with pace.at_work():
            yield
    finally:
        pace.close()


def handle_of(pace: BulkPace | None, context: SparkContext) -> PaceHandle | None:
    """What the unit's workers ask by, if its pace is kept."""
    return None if pace is None else pace.handle(context)
