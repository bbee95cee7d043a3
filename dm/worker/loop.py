"""The daemon's one thread that changes state.

Everything that happens (a person's verb, an event of a host process, the passing of time) is a function in one queue,
run one after the other by one thread. So the state of sources, tasks and hosts needs no lock and no state is ever
seen half-changed. The price: nothing in it may block; what does (a server, a file to parse) is done by its caller's
thread before, or by a thread of its own that posts the outcome.

The thread also starts the host processes, since the kernel ties the life of a process to the thread that forked it
(`dm.task.host_process`); it lives as long as the daemon does.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

import structlog

from dm.clock import Clock

T = TypeVar("T")

TICK_SECONDS = 0.2
REST_SECONDS = 1.0


class Loop:
    """Runs functions in order, and `tick` regularly: TICK_SECONDS after a function or a tick that said that more is
    due soon, REST_SECONDS after one that did not.
    """

    def __init__(self, clock: Clock) -> None:
        self._tick: Callable[[], bool] = lambda: False
        self._clock = clock
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="supervisor", daemon=True)
        self._log = structlog.get_logger()

    def start(self, tick: Callable[[], bool]) -> None:
        """Begin to work."""
        self._tick = tick
        self._thread.start()

    def end(self) -> None:
        """Work off what is queued and end; the hosts end with the thread."""
        self._queue.put(None)
        self._thread.join()

    def post(self, function: Callable[[], None]) -> None:
        """Have a function run soon."""
        self._queue.put(function)

    def call(self, function: Callable[[], T]) -> T:
        """Have a function run and wait for what it returns or raises; not for use on the loop's own thread."""
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)

        self._queue.put(run)
        return outcome.result()

    def wait_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition on the state; False if it does not hold in time."""
        deadline = self._clock.monotonic() + seconds
        while not self.call(holds):
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return False
            with self._changed:  # something may have changed since the call: hence no longer than a tick
                self._changed.wait(min(left, TICK_SECONDS))
        return True

    def _work(self) -> None:
        due = self._clock.monotonic() + TICK_SECONDS
        while True:
            try:
                function = self._queue.get(timeout=max(0.0, due - self._clock.monotonic()))
                if function is None:
                    return
                self._guarded(function)
                due = min(due, self._clock.monotonic() + TICK_SECONDS)
            except queue.Empty:
                pass
            if self._clock.monotonic() >= due:
                soon = self._guarded(self._tick)
                due = self._clock.monotonic() + (REST_SECONDS if soon is False else TICK_SECONDS)
            with self._changed:
                self._changed.notify_all()

    def _guarded(self, function: Callable[[], T]) -> T | None:
        try:
            return function()
        except Exception:  # one defect must not end the supervision of all tasks; the log is where it is read
            self._log.exception("supervisor: an event could not be handled")
            return None
