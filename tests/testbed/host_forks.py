"""A daemon's unit hosts, forked from a copy of the daemon, which has their imports.

What a host's start takes are its imports, and most tests of a whole daemon start three. The copy is made before the
daemon has threads; it is killed with the daemon, and the hosts with it. They are its children, not the daemon's.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import IO
from unittest.mock import patch

from dm.task import host_process
from tests.testbed.fork_server import ForkedProcess, ForkServer

_ARGUMENTS_BEGIN, _ARGUMENTS_END = 47, 48  # proc_pid_stat(5), counted from 0


class ForkedHost(ForkedProcess):
    """One host."""

    def __init__(self, pid: int, ended: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        super().__init__(pid, ended)
        self.stdin, self.stdout = stdin, stdout

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; raises subprocess.TimeoutExpired."""
        return super().wait(timeout)


def fork_hosts(main: Callable[[], None]) -> None:
    """From now on this process, a daemon that has begun nothing yet, forks its hosts; `main` is their program."""
    server = ForkServer.copied("dm.task.host", partial(_host, main))
    patch.object(host_process, "begin", partial(_begin, server)).start()
    patch.object(host_process, "start_ahead", lambda _: None).start()
    patch.object(host_process, "wait_for_imports", lambda _: None).start()


def _begin(server: ForkServer, _command: Sequence[str], name: str, stderr: IO[bytes]) -> ForkedHost:
    (commands, to_it), (from_it, events) = os.pipe(), os.pipe()
    started = server.fork((commands, events, stderr.fileno()), [name])
    os.close(commands)
    os.close(events)
    return ForkedHost(*started, os.fdopen(to_it, "wb"), os.fdopen(from_it, "rb"))


def _host(main: Callable[[], None]) -> None:
    sys.argv.append(str(os.getppid()))
    _be_called([sys.executable, "-m", *sys.argv])
    main()


def _be_called(words: Sequence[str]) -> None:
    """Show these arguments to who looks for hosts, over those that the first process of this line had.

    A name for which there is no room there is cut.
    """
    fields = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    begin, end = (int(fields[number - 2]) for number in (_ARGUMENTS_BEGIN, _ARGUMENTS_END))
    room = end - begin
    program, *others = (os.fsencode(word) + b"\0" for word in words)
    shown = b"".join(others)
    title = (program[:-1].ljust(room - len(shown) - 1) + b"\0" + shown)[: room - 1] + b"\0"
    ctypes.memmove(begin, title, room)
