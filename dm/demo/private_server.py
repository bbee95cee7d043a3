"""A server process of our own: started, stopped, killed, frozen, asked; what kind of server it is, its class says.

**Ports** on 127.0.0.1 belong to one server of ours for as long as it exists, also while it is down. A port that is
merely free may be taken by another server before ours listens there. With the same password on both, ours would seem to
run: the other one answers. So a server's port is bound by a socket that never listens. Linux lets two sockets share a
port if both have SO_REUSEADDR and neither listens (ip(7)), and every server sets it; the search for a port does not, so
it passes by what is reserved. The kernel gives a port back when its process ends, however it ends.

**The guard**: a child process can't outlive us, however we end. A test run that is killed must leave no server behind.
Linux's parent-death signal is no answer: it fires when the *thread* that forked ends, and servers are restarted from
threads. So a guard, a shell, sits in a session of its own and reads from a pipe whose other end only we hold: when we
are gone, however that came, the read ends and the guard kills the child. A child is started in two steps, so that there
is no moment without a guard: a shell that waits for a line, and becomes the program when the guard is in place.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pymysql.connections import Connection
from pymysql.cursors import Cursor
from pymysql.err import OperationalError

from dm.mysql.dialect import Flavor
from dm.session.login import ServerConnection

HOST = "127.0.0.1"
_PORTS = range(16_000, 32_000)  # below Linux's ephemeral range, so that no outgoing connection sits on one


class ReservedPort:
    """A port that nobody else finds until it is released."""

    def __init__(self) -> None:
        while True:
            self._socket = socket.socket()
            self.number = random.SystemRandom().choice(_PORTS)
            try:
                self._socket.bind((HOST, self.number))
            except OSError:
                self._socket.close()
                continue
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            return

    def release(self) -> None:
        """Leave it to whoever comes."""
        self._socket.close()


def free_port() -> int:
    """A port that nobody listens on or has reserved."""
    reserved = ReservedPort()
    reserved.release()
    return reserved.number


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
        connection = ServerConnection(**settings, defer_connect=True)
        connection.answer_left = None  # it is ours, and may have a lot to say
        connection.takes_server_key = True  # no other server has the port
        connection.connect()
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


_WAIT_FOR_GUARD = 'read -r _ && exec "$@" </dev/null'
_GUARD = 'trap "" HUP INT TERM; read -r _ || kill -KILL "$1"'


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


class GuardedProcess:
    """A program in a session of its own, killed when this process ends, unless it was released.

    `directory`: where it works; None for where we do.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT_FOR_GUARD, "guarded", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=None if environment is None else dict(environment),
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "guard", str(self._child.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with _input(self._child) as go:
            go.write(b"go\n")

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._child.pid

    def poll(self) -> int | None:
        """The exit status, None while it runs."""
        return self._child.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the program if it still runs."""
        if self._child.poll() is None:
            os.kill(self._child.pid, number)

    def stop(self) -> None:
        """Stop the program if it still runs; when this returns, all its threads have stopped."""
        self.send(signal.SIGSTOP)
        if self._child.returncode is None:
            # The parent hears of it when the last thread has (signal(7)); an end is heard of, too, and left to be read.
            with suppress(ChildProcessError):  # another thread has read of its end
                os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def wait(self, seconds: float) -> int:
        """Wait for the end; the guard ends with it. Raises subprocess.TimeoutExpired."""
        status = self._child.wait(seconds)
        self.release()
        return status

    def release(self) -> None:
        """Let the program live on without us."""
        if self._guard.poll() is None:
            with _input(self._guard) as line:
                line.write(b"released\n")
            self._guard.wait()
