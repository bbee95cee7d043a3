"""A child process that can't outlive us, however we end.

A test run that is killed must leave no server behind. Linux's parent-death signal is no answer: it fires when the
*thread* that forked ends, and servers are restarted from threads. So a guard, a shell, sits in a session of its own
and reads from a pipe whose other end only we hold: when we are gone, however that came, the read ends and the guard
kills the child. A child is started in two steps, so that there is no moment without a guard: a shell that waits for a
line, and becomes the program when the guard is in place.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_WAIT_FOR_GUARD = 'read -r _ && exec "$@" </dev/null'
_GUARD = 'trap "" HUP INT TERM; read -r _ || kill -KILL "$1"'


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


class GuardedProcess:
    """A program in a session of its own, killed when this process ends, unless it was released."""

    def __init__(self, command: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT_FOR_GUARD, "guarded", *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
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
