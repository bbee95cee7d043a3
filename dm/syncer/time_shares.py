"""Where a run's time goes: the state of each thread, sampled twenty times a second.

Threads show their state in plain attributes that they set anyway, or set when they begin to wait; no thread reads a
clock per row or event. A sampler counts the states and reports shares of the last seconds. They tell which part holds
the others up: the source, this process, or the target.

Sampling an idle run would be its only activity. So when all parts wait for the source, the sampler sleeps until the
reader has an event, and counts the time in between as sampled: nothing can change without an event.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final

from dm.clock import Clock
from dm.unit import JSON

INTERVAL_SECONDS: Final = 0.05
SLICE_SAMPLES: Final = 20
SLICES: Final = 10  # kept slices, of a second each

Look = Callable[[], Mapping[str, float]]
"""What is the case now: a share from 0 to 1 for each name."""

AtRest = Callable[[], bool]
"""Whether all that is looked at stays as it is until there is an event."""

Sleep = Callable[[AtRest], bool]
"""Where it holds, sleep until there is an event or the run is over; False at once where it does not."""


class TimeShares:
    """Samples a run until its stop signal is set."""

    def __init__(self, look: Look, at_rest: AtRest, sleep: Sleep, clock: Clock, stop: threading.Event) -> None:
        self._look = look
        self._at_rest = at_rest
        self._sleep = sleep
        self._clock = clock
        self._stop = stop
        self._slices: deque[Counter[str]] = deque(maxlen=SLICES)
        self._samples: deque[int] = deque(maxlen=SLICES)
        self._resting: tuple[float, Mapping[str, float]] | None = None  # since when, and the state all along
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="time-shares", daemon=True)

    def start(self) -> None:
        """Start to sample."""
        self._thread.start()

    def _run(self) -> None:
        while not self._clock.wait(self._stop, INTERVAL_SECONDS):
            self.sample()

    def sample(self) -> None:
        """Sample once, and sleep if all parts are idle."""
        seen = self._look()
        with self._lock:
            self._count(seen, 1)
        if self._sleep(self._rests):
            with self._lock:
                self._count_rest()
                self._resting = None

    def _rests(self) -> bool:
        if not self._at_rest():
            return False
        with self._lock:
            self._resting = self._clock.monotonic(), self._look()
        return True

    def _count_rest(self) -> None:
        if self._resting is None:
            return
        since, seen = self._resting
        samples = int((self._clock.monotonic() - since) / INTERVAL_SECONDS)
        self._resting = since + samples * INTERVAL_SECONDS, seen
        self._count(seen, min(samples, SLICES * SLICE_SAMPLES))

    def _count(self, seen: Mapping[str, float], samples: int) -> None:
        while samples:
            if not self._samples or self._samples[-1] >= SLICE_SAMPLES:
                self._slices.append(Counter())
                self._samples.append(0)
            counted = min(samples, SLICE_SAMPLES - self._samples[-1])
            samples -= counted
            self._samples[-1] += counted
            for name, share in seen.items():
                self._slices[-1][name] += share * counted  # type: ignore[assignment]  # a Counter counts anything

    def report(self) -> dict[str, JSON]:
        """The share of the last seconds for each name, from 0 to 1."""
        with self._lock:
            self._count_rest()
            samples = sum(self._samples)
            total = sum(self._slices, Counter[str]())
            names = {name for part in self._slices for name in part}
        return {name: round(total[name] / samples, 2) for name in sorted(names)} if samples else {}
