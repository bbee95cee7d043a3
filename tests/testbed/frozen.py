"""Processes that stand still together, as on a host that is frozen: a unit's, its JVM, its Python workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread ended meanwhile
            found += map(int, listed.read_text(encoding="ascii").split())
    return found


def _stop_all(pid: int, stopped: list[int]) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)  # before it is asked: what stands still starts nothing
        stopped.append(pid)
        for child in children(pid):
            _stop_all(child, stopped)


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Meanwhile these processes stand still, with all that they have started."""
    stopped: list[int] = []
    try:
        for pid in pids:
            _stop_all(pid, stopped)
        yield
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
