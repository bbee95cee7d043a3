"""Asks for leave before each piece of work, and measures what the leave depends on while somebody needs it.

A process that asks (a lane, a Spark worker) only waits. Measuring belongs to processes that own a unit: the thread here
begins when limits need it and ends after a rest, so an idle stream asks no server anything. Of all processes of the
task one measures (`SharedPace.lead`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from dm.clock import Clock
from dm.config.pace import PaceConfig
from dm.pace.shared import SharedPace
from dm.unit import JSON

_MEASURE_SECONDS: Final = 0.25
_LEADS_SECONDS: Final = 15.0  # a process that is frozen is replaced after so long; a login and a question take less
_REST_SECONDS: Final = 10.0  # without a question; then nothing is measured


class Gauge(Protocol):
    """Measures one thing that a limit is for; those here are its subclasses."""

    def excess(self) -> str:
        """Why everybody must wait, in words; empty where the limit is kept."""
        ...

    def allowance(self, used: float) -> float:
        """Bytes that may be written until the next measurement; `used`: those since the last one."""
        return math.inf

    def close(self) -> None:
        """End its session."""
        ...


Gauges = Callable[[PaceConfig], Sequence[Gauge]]


class Governor:
    """The pace of a task, as one process of it asks for it."""

    def __init__(self, shared: SharedPace, gauges: Gauges | None, clock: Clock) -> None:
        self._shared = self.shared = shared
        self._gauges = gauges
        self._clock = clock
        self._over = threading.Event()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None  # that measures
        self._ending: list[threading.Thread] = []  # it, and those that close their sessions
        self._asked = 0.0  # when somebody asked last
        self._working = 0  # units whose work is done by other processes

    @property
    def path(self) -> Path:
        """The file that all processes share."""
        return self._shared.path

    @property
    def limited(self) -> bool:
        """Whether there is any limit; a look at memory."""
        return self._shared.limited

    @property
    def lets_whole_batches(self) -> bool:
        """Whether no limit depends on how much is written at once; a replica is late by all of a transaction."""
        return self._shared.config.replica_lag is None

    def ask(self, rows: int, size: int, stop: threading.Event) -> bool:
        """Wait until so much may be done; False when the stop came first."""
        return self.ask_first([(rows, size)], stop) > 0

    def ask_first(self, pieces: Sequence[tuple[int, int]], stop: threading.Event) -> int:
        """Wait until the first of these pieces of work may be done, by rows and bytes; how many, 0 after the stop."""
        while True:
            taken, seconds = self._shared.take_first(pieces)
            self._asked = self._clock.monotonic()
            if self._shared.measured:
                self._measure()
            if taken:
                return taken
            if self._clock.wait(stop, seconds):
                return 0

    @contextmanager
    def for_others(self) -> Iterator[None]:
        """Meanwhile other processes ask, which can't measure: Spark's workers."""
        with self._mutex:
            self._working += 1
        self._measure()
        try:
            yield
        finally:
            with self._mutex:
                self._working -= 1

    def status(self) -> dict[str, JSON]:
        """For `query-status`: nothing where there is no limit."""
        with self._mutex:  # any thread asks, also while the unit ends
            if self._over.is_set() or not self.limited:
                return {}
            state = self._shared.state()
        held: dict[str, JSON] = {"paceHolds": state.holding, "paceHeldShare": round(state.held_share, 3)}
        return {**held, "waiting": state.holding} if state.holding else held

    def close(self) -> None:
        """Measure no more, and give the file back."""
        self._over.set()
        with self._mutex:
            threads, self._ending = self._ending, []
        for thread in threads:
            thread.join()
        with self._mutex:
            self._shared.close()

    def _measure(self) -> None:
        with self._mutex:
            if self._gauges is None or self._over.is_set() or (self._thread is not None and self._thread.is_alive()):
                return
            self._thread = threading.Thread(target=self._run, name="pace", daemon=True)
            self._ending = [*filter(threading.Thread.is_alive, self._ending), self._thread]
            self._thread.start()

    def _run(self) -> None:
        assert self._gauges is not None
        config, gauges, allowed = PaceConfig(), list[Gauge](), math.inf
        try:
            while self._needed():
                if self._shared.config != config:
                    _close(gauges)
                    config = self._shared.config
                    gauges = list(self._gauges(config))
                if config.measured and self._shared.lead(_LEADS_SECONDS):
                    reasons = [each.excess() for each in gauges]
                    used = max(0.0, allowed - self._shared.allowed) if math.isfinite(allowed) else 0.0
                    allowed = min((each.allowance(used) for each in gauges), default=math.inf)
                    self._shared.hold(next(filter(None, reasons), ""), allowed)
                if self._clock.wait(self._over, _MEASURE_SECONDS):
                    break
        finally:
            _close(gauges)
            self._shared.retire()

    def _needed(self) -> bool:
        """Whether somebody may be asking; decided under the lock, so that the next to ask starts another thread."""
        with self._mutex:
            rests = self._clock.monotonic() - self._asked > _REST_SECONDS
            if self._over.is_set() or (not self._working and (rests or not self._shared.measured)):
                self._thread = None
                return False
            return True


def _close(gauges: list[Gauge]) -> None:
    while gauges:
        gauges.pop().close()
