"""The contract between a subtask and the work it runs, one `Unit` per dump, load, sync or relay run; its stop signal.

Who calls what: the host process creates a unit and calls `run` once, in a thread of its own; any thread may call
`status` at any time. `run` returns when the work is finished (dump, load) or when `stop` was set and the unit has
brought everything it owns to a resumable rest; it raises `DMError` when it can't go on. A pause is `stop`; a resume
is a new unit object, which finds its place from what is stored (progress tables, chunk records, relay files). So
nothing in memory is ever needed to go on: a SIGKILL is just a stop that nobody announced.

A stop signal for those who wait for something else.

A thread that sleeps in a read, in poll(2) or for another event does not notice that a `threading.Event` is set. It
would have to wake up many times a second to look, and in a process that has nothing to do these looks are all that it
does. So this signal calls who asked for it when it is set.

Whoever wants that may still be given a plain event (the protocols of units and sources ask for no more); then a thread
looks at it, as long as it takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, Protocol

UnitName = Literal["Dump", "Load", "Sync", "Relay", "Validator", "Diff", "Flashback", "Replay", "Heal", "Spark", "Join"]
JSON = None | bool | int | float | str | list["JSON"] | dict[str, "JSON"]


class Unit(Protocol):
    """One run of one unit."""

    name: UnitName

    def run(self, stop: threading.Event) -> None:
        """Work until finished or stopped; raises DMError. Must return within 10 s of `stop`."""
        ...

    def status(self) -> Mapping[str, JSON]:
        """DM's status fields of the unit, from memory, never blocking on a server."""
        ...


Factory = Callable[[Mapping[str, JSON]], Unit]
"""Makes a unit from its payload, as it comes over the pipe."""


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
