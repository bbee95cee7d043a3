"""The daemon's end of a unit host process: start it, talk to it, learn that it died.

Nothing here blocks the caller. A thread writes lines to the host (a stopped host reads nothing, and a pipe holds only
64 KiB); another reads the host's lines and hands every event to `deliver`. The last event is always `HostEnded`, even
if the process was killed, so nothing waits for its runs in vain.

The kernel ties a process's life to the thread that forked it (prctl(2), PR_SET_PDEATHSIG). So a thread that lives as
long as the daemon calls `start_ahead`, and makes each `HostProcess`: that one forks the process itself if its command
is not the usual one, and starts a new server if the one that forks hosts has ended.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

import structlog

from dm.task.host_forks import HostForks
from dm.task.message import Command, Event, decode_event, encode

HOST_COMMAND: tuple[str, ...] = (sys.executable, "-m", "dm.task.host")
_FORKS: Final = HostForks()


def start_ahead(command: Sequence[str]) -> None:
    """Start what hosts of this command are forked from, before one is needed; the first host says why it can't be."""
    if command == HOST_COMMAND:
        try:
            _FORKS.start()
        except OSError:
            structlog.get_logger().exception("the process that unit hosts are forked from did not start")


def wait_for_imports(command: Sequence[str]) -> None:
    """Wait until a host of this command begins at once."""
    if command == HOST_COMMAND:
        _FORKS.wait_for_imports()


class Process(Protocol):
    """What `begin` gives: a process with pipes."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    @property
    def stdin(self) -> IO[bytes] | None:
        """The pipe to it."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """The pipe from it."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises subprocess.TimeoutExpired."""
        ...


def begin(command: Sequence[str], name: str, stderr: IO[bytes]) -> Process:
    """Start the process of the host of this name; one of the usual command is forked (`host_forks.py`)."""
    if command == HOST_COMMAND:
        return _FORKS.fork(name, stderr)
    return subprocess.Popen(
        [*command, name, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        start_new_session=True,  # Ctrl-C at the daemon's terminal is the daemon's to handle
    )


@dataclass(frozen=True, slots=True)
class HostEnded:
    """The process is gone, and with it every run that it had not reported on."""

    returncode: int

    @property
    def how(self) -> str:
        """In words: by which signal, or with which exit status."""
        if self.returncode < 0:
            return f"killed by {signal.Signals(-self.returncode).name}"
        return f"exit status {self.returncode}"


class HostProcess:
    """One running unit host."""

    def __init__(
        self,
        name: str,
        log: Path,
        deliver: Callable[[Event | HostEnded], None],
        command: Sequence[str] = HOST_COMMAND,
    ) -> None:
        self.name = name
        self._deliver = deliver
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._logger = structlog.get_logger(host=name)
        with log.open("ab") as stderr:
            self._process = begin(command, name, stderr)
        self._logger.info("host started", pid=self._process.pid)
        threading.Thread(target=self._write, name=f"to {name}", daemon=True).start()
        threading.Thread(target=self._read, name=f"from {name}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, command: Command) -> None:
        """Queue a command; one for a process that has died goes nowhere, `HostEnded` tells of that."""
        self._lines.put(encode(command))

    def close(self) -> None:
        """Let it stop its units and exit, by ending its stdin."""
        self._lines.put(None)

    def kill(self) -> None:
        """End it now; whatever it was at goes on from what is stored."""
        self._process.kill()

    def wait(self, seconds: float) -> bool:
        """Whether it is gone within the time."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                while (line := self._lines.get()) is not None:
                    pipe.write(line)
                    pipe.flush()
        except BrokenPipeError:  # it died; the reading thread sees the end of its stdout and reports it
            self._logger.info("host takes no more commands")

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            for line in pipe:
                if not line.endswith(b"\n"):
                    break  # killed in the middle of a line
                try:
                    event = decode_event(line)
                except ValueError:
                    self._logger.exception("host talks nonsense and is killed")
                    self._process.kill()
                    break
                self._deliver(event)
        ended = HostEnded(self._process.wait())
        self._lines.put(None)
        self._logger.info("host ended", how=ended.how)
        self._deliver(ended)
