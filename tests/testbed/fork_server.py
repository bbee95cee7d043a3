"""Processes whose imports are done: a process that has a program's modules forks it whenever a test wants one.

Most of what the start of a daemon or of a unit takes are its imports, and a test run starts hundreds of them. What is
forked is a process like any other, with arguments, an environment, a directory and open files of its own. It dies with
the test run: the fork server ends when its socket does, and the kernel kills the children of a process that ends.

What a module reads from the environment as it is imported is not read again; but for fault points, which are armed
anew, and for the switch of the compiled parts, of whose settings each has a fork server of its own. A process's
arguments and environment in /proc are the fork server's: a test of them starts a process itself.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, Self

from dm import faults
from dm.accelerator import switch

_ROOT: Final = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_MOST_BYTES: Final = 1 << 20  # of an order; an environment is not so large


class ForkedProcess:
    """A process of a fork server's."""

    def __init__(self, pid: int, ended: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended  # where the fork server writes how it ended
        self._reading = threading.Lock()
        weakref.finalize(self, os.close, ended)

    def poll(self) -> int | None:
        """The exit status, minus the number of the signal that ended it; None while it runs."""
        return self._look(0)

    def wait(self, seconds: float | None = None) -> int:
        """Wait for the end; raises subprocess.TimeoutExpired."""
        status = self._look(seconds)
        if status is None:
            assert seconds is not None
            raise subprocess.TimeoutExpired(f"process {self.pid}", seconds)
        return status

    def send(self, number: signal.Signals) -> None:
        """Send it a signal if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and its parent has taken note
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send(signal.SIGKILL)

    def _look(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], seconds)[0]:
            with self._reading:
                if self.returncode is None:
                    # Without a word the fork server has ended, and this process with it.
                    self.returncode = int(os.read(self._ended, 20) or -signal.SIGKILL)
        return self.returncode


class ForkServer:
    """The process that has imported the modules."""

    def __init__(self, orders: socket.socket) -> None:
        self._asking = threading.Lock()
        self._socket = orders
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def started(cls, *modules: str, accelerator: str = "on") -> Self:
        """A new process imports the modules; `main` of the first is the program. It ends when this one does."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = cls(ours)
        with theirs:
            server._process = subprocess.Popen(
                [sys.executable, "-c", f"from {__name__} import serve; serve()", str(theirs.fileno()), *modules],
                env={**os.environ, "PYTHONPATH": str(_ROOT), switch.VARIABLE: accelerator},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C ends the test run, and that this
            )
        atexit.register(server.close)
        return server

    @classmethod
    def copied(cls, program: str, main: Callable[[], None]) -> Self:
        """A copy of this process, which has no threads yet; it has what the program needs, and is killed with this."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        if os.fork() == 0:
            ours.close()
            _die_with(parent)
            try:
                if _await_orders(theirs, program):
                    main()
            except Exception:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        theirs.close()
        return cls(ours)

    def close(self) -> None:
        """End it, and what it has begun."""
        self._socket.close()
        if self._process is not None:
            self._process.wait()

    def fork(
        self,
        files: tuple[int, int, int],
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> tuple[int, int]:
        """Begin a process with these descriptors as its 0, 1 and 2; gives what a ForkedProcess is made of."""
        order = {
            "arguments": list(arguments),
            "environment": dict(os.environ if environment is None else environment),
            "directory": str(directory or Path.cwd()),
        }
        ended, write = os.pipe()
        with self._asking:
            socket.send_fds(self._socket, [json.dumps(order).encode()], [*files, write])
            answer = self._socket.recv(20)
        os.close(write)
        assert answer, "the fork server has ended; its words are among what the test run says"
        return int(answer), ended


_starting = threading.Lock()


def fork_server(*modules: str, environment: Mapping[str, str] = os.environ) -> ForkServer:
    """The one of this test process for programs that are to have this environment."""
    with _starting:
        return _started(*modules, accelerator=environment.get(switch.VARIABLE, "on"))


@cache
def _started(*modules: str, accelerator: str) -> ForkServer:
    return ForkServer.started(*modules, accelerator=accelerator)


def serve() -> None:
    """The fork server; its child returns from `_await_orders` and is the program."""
    orders, modules = socket.socket(fileno=int(sys.argv[1])), sys.argv[2:]
    imported = [import_module(name) for name in modules]
    gc.collect()
    gc.freeze()
    if _await_orders(orders, modules[0]):
        imported[0].main()


def _await_orders(orders: socket.socket, program: str) -> bool:
    """Fork as told; True in a child, False when there will be no more orders."""
    server, running = os.getpid(), dict[int, tuple[int, int]]()
    poll = select.poll()
    poll.register(orders, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor in running:
                child, ended = running.pop(descriptor)
                poll.unregister(descriptor)
                _, status = os.waitpid(child, 0)
                with suppress(BrokenPipeError):  # whoever started it does not want to know
                    os.write(ended, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(ended)
                os.close(descriptor)
                continue
            order, files, _, _ = socket.recv_fds(orders, _MOST_BYTES, 4)
            if not order:
                return False
            child = os.fork()
            if child == 0:
                _become(program, json.loads(order), files[:3], server)
                return True
            for file in files[:3]:
                os.close(file)
            watched = os.pidfd_open(child)
            running[watched] = (child, files[3])
            poll.register(watched, select.POLLIN)
            orders.send(str(child).encode())


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _become(program: str, order: Mapping[str, object], files: Sequence[int], server: int) -> None:
    _die_with(server)
    os.setsid()
    for wanted, file in enumerate(files):
        os.dup2(file, wanted)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    arguments, environment = order["arguments"], order["environment"]
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(order["directory"]))
    sys.argv = [program, *arguments]
    faults.arm(os.environ.get("DM_FAULTS", ""))
