"""A stop signal for those who wait for something else.

A thread that sleeps in a read, in poll(2) or for another event does not notice that a `threading.Event` is set. It
would have to wake up many times a second to look, and in a process that has nothing to do these looks are all that it
does. So this signal calls who asked for it when it is set.

Whoever wants that may still be given a plain event (the protocols of units and sources ask for no more); then a thread
looks at it, as long as it takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_LOOK_SECONDS: Final = 0.1


class StopSignal(threading.Event):
    """An event that is set once, and calls those who asked for it then."""

    def __init__(self) -> None:
        super().__init__()
        self._listening = threading.Lock()
        self._calls: list[Callable[[], None]] = []

    def set(self) -> None:
        """Set it; who asked is called in this thread."""
        super().set()
        with self._listening:
            calls, self._calls = self._calls, []
        for call in calls:
            call()

    def add(self, call: Callable[[], None]) -> None:
        """Have `call` called when the signal is set, at once if it is."""
        with self._listening:
            if not self.is_set():
                self._calls.append(call)
                return
        call()

    def discard(self, call: Callable[[], None]) -> None:
        """Have it not called any more."""
        with self._listening:
            if call in self._calls:
                self._calls.remove(call)


@contextmanager
def told(stop: threading.Event, call: Callable[[], None]) -> Iterator[None]:
    """Inside, `call` is called once when `stop` is set, at once if it is set already; it must not block."""
    if isinstance(stop, StopSignal):
        stop.add(call)
        try:
            yield
        finally:
            stop.discard(call)
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(_LOOK_SECONDS):
            if stop.is_set():
                call()
                return

    threading.Thread(target=look, name="stop", daemon=True).start()
    try:
        yield
    finally:
        over.set()
