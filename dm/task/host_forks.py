"""Unit hosts are forked from a process that has their imports already (`python -m dm.task.host_forks FD PARENT ROOM`).

Problem: what a relay or a syncer imports takes 60 MB and most of a second of a core. A daemon of a hundred tasks has
more than a hundred hosts. Forked hosts share the pages of these imports until they write to them, and begin at once.

The fork server has one thread, opens nothing that a unit uses, and sees no password, so a host begins as a new process
does. It says when its imports are done, then forks as told over a socket and says how each child ended. The kernel
kills it with the daemon's thread that started it, and the hosts with it. So the daemon's main thread starts it, while
the daemon itself begins, and waits for its imports before the loop asks for a host: the loop must not block. If the
server ends by itself, its hosts have ended, too: the daemon learns that from each of them. The next host gets a new
server, and this one time the loop waits for the imports.

A host's arguments, as `ps` shows them, are written over those of the server (ROOM makes the place for that).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Final

from dm.parent_process import die_with
from dm.private_process import keep_to_itself
from dm.spark.daemon_ahead import DaemonAhead
from dm.spark.worker_daemon import COMMAND as WORKER_DAEMON
from dm.task import host
from dm.task.factories import SPARK_HOST, Factories

# What every task of a daemon runs for long: a relay, a syncer. Other units import the rest in their own host. The last
# two are imported by a socket with its first address, and by pydantic with its first dataclass.
_IMPORTED: Final = (
    "dm.relay.unit", "dm.syncer.shards.sharded", "dm.task.pace", "encodings.idna", "pydantic.dataclasses",
)  # fmt: skip
_ROOM: Final = "." * 200
_MOST_BYTES: Final = 1 << 16  # of an order
_ANSWER_SECONDS: Final = 60.0  # of a server that imports on a busy machine; a frozen one is replaced
_ARGUMENTS_BEGIN, _ARGUMENTS_END = 47, 48  # proc_pid_stat(5), counted from 0
_KILLED: Final = -signal.SIGKILL
_IMPORTS_DONE: Final = b"imported"


class ForkedHost:
    """One host, as the daemon has it: its pipes and how it ended."""

    def __init__(self, pid: int, watch: int, ended: int, pipes: tuple[IO[bytes], IO[bytes]]) -> None:
        self.pid = pid
        self.stdin, self.stdout = pipes
        self._watch = watch  # of the process (pidfd): its number may be another's one day
        self._ended = ended  # where the fork server writes how it ended
        self._returncode: int | None = None
        self._reading = threading.Lock()

    def kill(self) -> None:
        """SIGKILL."""
        with self._reading:
            if self._returncode is None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._watch, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        if self._returncode is None:
            poll = select.poll()
            poll.register(self._ended, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                assert timeout is not None
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        with self._reading:
            if self._returncode is None:
                # Without a word the server has ended, and the kernel kills its children.
                self._returncode = int(os.read(self._ended, 20) or _KILLED)
                os.close(self._ended)
                os.close(self._watch)
            return self._returncode


class HostForks:
    """The daemon's end: starts the server when it is needed, and asks it for hosts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._imported = False

    def start(self) -> None:
        """Start the server without waiting; by a thread that lives as long as the daemon. Raises OSError."""
        with self._lock:
            self._started()

    def wait_for_imports(self) -> None:
        """Wait until `fork` has nothing to wait for; a server that has ended is left to it."""
        with self._lock, suppress(ConnectionError, TimeoutError):
            self._ready()

    def fork(self, name: str, stderr: IO[bytes]) -> ForkedHost:
        """Begin the host of this name; called by a thread that lives as long as the daemon. Raises OSError."""
        (commands, to_it), (from_it, events), (ended, status) = os.pipe(), os.pipe(), os.pipe()
        try:
            with self._lock:
                pid, watch = self._asked(name, (commands, events, stderr.fileno(), status))
        except BaseException:
            for descriptor in (to_it, from_it, ended):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (commands, events, status):
                os.close(descriptor)
        return ForkedHost(pid, watch, ended, (os.fdopen(to_it, "wb"), os.fdopen(from_it, "rb")))

    def _asked(self, name: str, descriptors: Sequence[int]) -> tuple[int, int]:
        """The new process and its pidfd; a server that has ended is replaced once."""
        for _ in range(2):
            with suppress(ConnectionError, TimeoutError):
                there = self._ready()
                socket.send_fds(there, [json.dumps([name, os.getpid()]).encode()], descriptors)
                answer, watches, _, _ = socket.recv_fds(there, _MOST_BYTES, 1)
                if answer and not watches:  # this host alone could not begin
                    raise OSError(int(answer), os.strerror(int(answer)))
                if answer:
                    return int(answer), watches[0]
            self._end()
        raise OSError("the process that unit hosts are forked from ends at once; dm-worker.log has its words")

    def _ready(self) -> socket.socket:
        there = self._started()
        if not self._imported:
            if not there.recv(_MOST_BYTES):
                raise ConnectionResetError
            self._imported = True
        return there

    def _started(self) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.settimeout(_ANSWER_SECONDS)
            with theirs:
                self._server = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(theirs.fileno()), str(os.getpid()), _ROOM],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # what a library prints belongs to the log
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # Ctrl-C at the daemon's terminal is the daemon's to handle
                )
        return self._socket

    def _end(self) -> None:
        if self._socket is not None and self._server is not None:
            self._socket.close()
            self._server.kill()  # it may be frozen; with it end the hosts that it began, as at any end of it
            self._server.wait()
        self._socket = self._server = None
        self._imported = False


def serve(orders: socket.socket) -> str:
    """Fork as told; gives a host's name in the child, nothing when the daemon has ended."""
    server, poll = os.getpid(), select.poll()
    running: dict[int, tuple[int, int]] = {}
    poll.register(orders, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in running:
                child, ended = running.pop(descriptor)
                poll.unregister(descriptor)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                with suppress(BrokenPipeError):
                    os.write(ended, str(status).encode())
                os.close(ended)
                os.close(descriptor)
                continue
            order, files, _, _ = socket.recv_fds(orders, _MOST_BYTES, 4)
            if not order:
                return ""
            name, daemon = json.loads(order)
            if len(files) < 4:  # the kernel leaves out those that there is no descriptor for (unix(7))
                _refuse(orders, files, errno.EMFILE)
                continue
            try:
                child = os.fork()
            except OSError as error:
                _refuse(orders, files, error.errno)
                continue
            if child == 0:
                die_with(server)
                os.setsid()
                for wanted, file in enumerate(files[:3]):
                    os.dup2(file, wanted)
                os.closerange(3, os.sysconf("SC_OPEN_MAX"))
                _be_called([sys.executable, "-m", host.__name__, name, str(daemon)])
                return str(name)
            try:
                watch = os.pidfd_open(child)
            except OSError as error:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                _refuse(orders, files, error.errno)
                continue
            for file in files[:3]:
                os.close(file)
            running[watch] = (child, files[3])
            poll.register(watch, select.POLLIN)
            with suppress(BrokenPipeError):  # the daemon has ended, as the next look at the socket tells
                socket.send_fds(orders, [str(child).encode()], [watch])


def _refuse(orders: socket.socket, files: Sequence[int], error: int | None) -> None:
    """Say by its number why a host did not begin; the others go on."""
    for file in files:
        os.close(file)
    with suppress(BrokenPipeError):
        orders.send(str(error).encode())


def _be_called(words: Sequence[str]) -> None:
    """Show these arguments over those that the server began with; a name that has no room there is cut."""
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    begin, end = (int(fields[number - 2]) for number in (_ARGUMENTS_BEGIN, _ARGUMENTS_END))
    room = end - begin
    program, *others = (os.fsencode(word) + b"\0" for word in words)
    shown = b"".join(others)
    padding = max(0, room - len(program) - len(shown))
    ctypes.memmove(begin, (program[:-1] + b" " * padding + b"\0" + shown)[: room - 1] + b"\0", room)


def _workers_ahead(name: str) -> DaemonAhead | None:
    """What the workers of this host's session are forked from; it is forked while there is one thread."""
    if not name.startswith(SPARK_HOST):
        return None
    try:
        return DaemonAhead.forked(WORKER_DAEMON, _be_called)
    except OSError:  # no room for a process: the session's own comes later
        return None


def main() -> None:
    """The server, and then the host that it has become."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    die_with(int(sys.argv[2]))
    keep_to_itself()
    for module in _IMPORTED:
        import_module(module)
    host.settle()
    with suppress(BrokenPipeError):  # the daemon has ended, as the next look at the socket tells
        orders.send(_IMPORTS_DONE)
    name = serve(orders)
    if name:
        orders.detach()  # it is closed already
        host.work(name, *Factories(_workers_ahead(name)).parts())
    os._exit(0)


if __name__ == "__main__":
    main()
