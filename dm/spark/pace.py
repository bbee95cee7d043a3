"""How far something is that is counted: share, rate and the time that remains, as people expect them.

Problem: totals of a dump are estimates. A share computed from them would step back when an estimate turns out too low,
and stand at 100 % while rows still come. And a rate over no time, or over what an earlier run did, is not a rate.

So the share of a run never falls and never says 100 % before the end; the rate counts what came since the pace was
begun, over the time since then; without a rate nothing is said of the remaining time. The next run begins at 0 %: what
it finds done may be less than what the last one saw, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.clock import Clock

_ALMOST = 99.99


@dataclass
class Pace:
    """The pace of one counter; its owner takes care that one thread at a time asks."""

    clock: Clock
    _started: float | None = None
    _before: int = 0
    _highest: float = 0.0

    @property
    def begun(self) -> bool:
        """Whether the rate counts."""
        return self._started is not None

    def begin(self, done: int) -> None:
        """The rate counts from here; `done` was done before. A second call changes nothing."""
        if self._started is None:
            self._started = self.clock.monotonic()
            self._before = done

    def rate(self, done: int) -> float:
        """Units per second; 0 as long as there is none."""
        seconds = 0.0 if self._started is None else self.clock.monotonic() - self._started
        return max(0, done - self._before) / seconds if seconds > 0 else 0.0

    def eta(self, done: int, total: int) -> int | None:
        """Seconds that remain; None as long as there is no rate."""
        rate = self.rate(done)
        return int(max(0, total - done) / rate) if rate > 0 else None

    def share(self, done: int, total: int, *, finished: bool) -> str:
        """DM's text of progress."""
        if finished:
            return "100.00 %"
        self._highest = max(self._highest, min(_ALMOST, 100 * done / total if total > 0 else 0.0))
        return f"{self._highest:.2f} %"
