"""A unit in a thread of a measuring process, until what was waited for has happened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dm.task import host
from dm.unit import Unit

_POLL_SECONDS = 0.02
_SHARE = 20  # a look takes the interpreter for a moment, longer with many tables: one part in so many of the time


def run_until(unit: Unit, happened: Callable[[], bool], seconds: float) -> tuple[float, float]:
    """Wall and CPU seconds from the unit's start to then; raises the unit's error, or TimeoutError."""
    host.settle()  # as a unit's host does
    stop = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            unit.run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="dispatcher")  # what a syncer's own thread is
    cpu, began = time.process_time(), time.monotonic()
    thread.start()
    pause = threading.Event()
    late = False
    while not failed and not late:
        looked = time.monotonic()
        if happened():
            break
        now = time.monotonic()
        late = now > began + seconds
        pause.wait(max(_POLL_SECONDS, (now - looked) * _SHARE))
    wall, spent = time.monotonic() - began, time.process_time() - cpu
    stop.set()
    thread.join()
    if failed:
        raise failed[0]
    if late:
        raise TimeoutError(f"not done after {seconds} s")
    return wall, spent
