"""A server process of our own: started, stopped, killed, frozen, asked; what kind of server it is, its class says."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymysql.connections import Connection
from pymysql.cursors import Cursor
from pymysql.err import OperationalError

from dm.demo.guard import GuardedProcess
from dm.demo.ports import HOST, ReservedPort
from dm.mysql.dialect import Flavor
from dm.session.login import ServerConnection

_START_SECONDS = 90.0
_STOP_SECONDS = 60.0


class PrivateServer(ABC):
    """One server: start, stop, SIGKILL, freeze, restart, connect."""

    host = HOST
    user = "root"
    tidb = False  # whether it is one, which speaks MySQL's dialect

    def __init__(self, flavor: Flavor, directory: Path, password: str) -> None:
        self.flavor: Flavor = flavor
        self.directory = directory
        self.password = password
        self.port = 0
        self._reserved: ReservedPort | None = None
        self._process: GuardedProcess | None = None
        self._frozen = False

    @abstractmethod
    def start(self) -> Self:
        """Start the server and wait until it answers; raises DMError with the end of its log."""

    @property
    def log(self) -> Path:
        """The server's error log."""
        return self.directory / "server.log"

    @property
    def running(self) -> bool:
        """Whether the process exists, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise RuntimeError(f"{self!r} does not run")
        return self._process.pid

    def _reserve_port(self) -> None:
        self._release_port()
        self._reserved = ReservedPort()
        self.port = self._reserved.number

    def _release_port(self) -> None:
        if self._reserved is not None:
            self._reserved.release()
            self._reserved = None

    def _await_ready(self, **arguments: Any) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        pause = threading.Event()
        while time.monotonic() < deadline:
            if not self.running:
                self._ended()
                return False
            try:
                self.connect(**arguments).close()
            except OperationalError:
                pause.wait(0.02)
            else:
                return True
        self.kill()
        return False

    def _ended(self) -> None:
        if self._process is not None:
            self._process.wait(_STOP_SECONDS)
            self._process = None

    def stop(self) -> None:
        """Shut the server down in order; what does not stop within a minute is killed."""
        if self._process is None:
            return
        self.thaw()
        self._process.send(signal.SIGTERM)
        try:
            self._ended()
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, as a crash of the server."""
        if self._process is None:
            return
        self._process.send(signal.SIGKILL)
        self._ended()

    def restart(self) -> None:
        """Stop if it runs, and start on the same port and data."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        if self._process is not None:
            self._process.stop()
            self._frozen = True

    def thaw(self) -> None:
        """SIGCONT after a freeze."""
        if self._process is not None and self._frozen:
            self._process.send(signal.SIGCONT)
            self._frozen = False

    def detach(self) -> None:
        """Let the server run on after this process."""
        if self._process is not None:
            self._process.release()

    def destroy(self) -> None:
        """Kill the server and delete all its files."""
        self.kill()
        self._release_port()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.destroy()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the error log."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def connect(self, **arguments: Any) -> Connection[Cursor]:
        """A pymysql connection over TCP; as root, in autocommit mode and utf8mb4 unless the arguments say otherwise."""
        settings: dict[str, Any] = {
            "host": HOST,
            "port": self.port,
            "user": self.user,
            "password": self.password,
            "charset": "utf8mb4",
            "autocommit": True,
            **arguments,
        }
        connection = ServerConnection(**settings)
        connection.answer_left = None  # it is ours, and may have a lot to say
        connection.query(f"SET NAMES {settings['charset']}")  # with the collation that a user's client would get
        return connection

    def execute(self, *statements: str) -> None:
        """Run statements one by one in a new session."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def query(self, statement: str, parameters: Sequence[object] | None = None) -> tuple[tuple[Any, ...], ...]:
        """The rows of one query in a new session."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(statement, parameters)
                return tuple(cursor.fetchall())
        finally:
            connection.close()

    def create_user(self, name: str, password: str, *grants: str) -> None:
        """Create `name`@'%' with the grants (`SELECT ON *.*`), not recorded in the binlog."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                if not self.tidb:  # which has no binlog
                    cursor.execute("SET SESSION sql_log_bin=0")
                cursor.execute("CREATE USER %s@'%%' IDENTIFIED BY %s", (name, password))
                for grant in grants:
                    cursor.execute(f"GRANT {grant} TO %s@'%%'", (name,))
        finally:
            connection.close()
