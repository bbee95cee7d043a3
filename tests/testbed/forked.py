"""Unit processes that are forked from one that has imported everything: a test that starts dozens of them needs that.

One process per test process waits for requests. For each it forks a minder, which forks the unit's process, waits for
its end and reports it. A kill of the test process ends all of them.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Final

_DESCRIPTORS: Final = 4  # stdin, stdout, stderr, and where the minder reports
_PID: Final = 16  # bytes of a number in a report

# `imports` and `work` are the texts of a unit's program.
_SERVER: Final = """
import os, signal, socket, sys, traceback
sys.path.insert(0, "")
exec(imports)
requests = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # minders are not waited for
dies_with_its_parent = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)

def mind(found):
    dies_with_its_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        dies_with_its_parent()
        for number, descriptor in enumerate(found[:3]):
            os.dup2(descriptor, number)
        for descriptor in (*found, requests.fileno()):
            os.close(descriptor)
        code = 1
        try:
            exec(work, {**globals()})
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    for descriptor in found[:3]:
        os.close(descriptor)
    os.write(found[3], b"%16d" % child)
    os.write(found[3], b"%16d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os._exit(0)

while True:
    message, found, _, _ = socket.recv_fds(requests, 1, 4)
    if not message:
        os._exit(0)
    if os.fork() == 0:
        mind(found)
    for descriptor in found:
        os.close(descriptor)
"""


class ForkServer:
    """The process that others are forked from."""

    def __init__(self, imports: str, work: str) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = f"imports, work = {imports!r}, {work!r}\n{_SERVER}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
        )
        theirs.close()
        self._asking = threading.Lock()

    def fork(self, descriptors: list[int]) -> None:
        """Start a process on these."""
        with self._asking:
            socket.send_fds(self._requests, [b"f"], descriptors)

    def close(self) -> None:
        """End it, and with it all processes that came from it."""
        self._requests.close()
        self._process.kill()
        self._process.wait()


class ForkedProcess:
    """A process of a fork server, with what a test asks of a `PreparedProcess`."""

    def __init__(self, server: ForkServer) -> None:
        self._log, self._said = os.memfd_create("stderr"), ""
        (input_end, to_input), (from_output, output_end), (report, reported) = (os.pipe() for _ in range(3))
        server.fork([input_end, output_end, self._log, reported])
        for descriptor in (input_end, output_end, reported):
            os.close(descriptor)
        self.stdin = os.fdopen(to_input, "w", encoding="utf-8")
        self.stdout = os.fdopen(from_output, encoding="utf-8")
        self._report = report
        self.returncode: int | None = None
        self.pid = self._number()

    def _number(self) -> int:
        text = os.read(self._report, _PID)
        if not text:
            raise RuntimeError("the fork server has ended")
        return int(text)

    def poll(self) -> int | None:
        """Its end, if it has ended."""
        if self.returncode is None and select.select([self._report], [], [], 0)[0]:
            self.returncode = self._number()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end."""
        if self.returncode is None:
            began = time.monotonic()
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", time.monotonic() - began)
            self.returncode = self._number()
        return self.returncode

    def kill(self) -> None:
        """SIGKILL."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def log(self) -> str:
        """What it wrote to stderr; only once it has ended."""
        if self._log >= 0:
            self._said = os.pread(self._log, os.fstat(self._log).st_size, 0).decode(errors="replace")
        return self._said

    def close(self) -> None:
        """Close the pipes and the file of a process that has ended; what it said is kept."""
        self.log()
        for stream in (self.stdin, self.stdout):
            with suppress(BrokenPipeError):  # what it was told last, it never read
                stream.close()
        for descriptor in (self._log, self._report):
            if descriptor >= 0:
                os.close(descriptor)
        self._log = self._report = -1

    def discard(self) -> None:
        """End a process that was not needed."""
        self.kill()
        self.wait()
        self.close()


_servers = list[ForkServer]()
_starting = threading.Lock()


def forked(imports: str, work: str) -> ForkedProcess:
    """A process of the one server of this test process, which is started with the first."""
    with _starting:
        if not _servers:
            _servers.append(ForkServer(imports, work))
            atexit.register(_servers[0].close)
    return ForkedProcess(_servers[0])
