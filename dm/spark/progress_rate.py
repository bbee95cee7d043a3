"""How far something is that is counted: share, rate and the time that remains, as people expect them.

Problem: totals of a dump are estimates. A share computed from them would step back when an estimate turns out too low,
and stand at 100 % while rows still come. And a rate over no time, or over what an earlier run did, is not a rate.

So the share of a run never falls and never says 100 % before the end; the rate counts what came since the pace was
begun, over the time since then. The next run begins at 0 %: what it finds done may be less than what the last one saw,
or nothing.

The time that remains is another matter. At the beginning workers start, connect and fill their first piece, and
nothing is counted meanwhile: a rate that includes this has said 8:55 where 0:32 was true. So the remaining time goes by
what came after the first piece, and is told when that has gone on for some seconds. Without a rate nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.clock import Clock

SETTLED_SECONDS: Final = 5.0  # since the first piece, until a remaining time is told
_ALMOST = 99.99


@dataclass
class ProgressRate:
    """The pace of one counter; its owner takes care that one thread at a time asks."""

    clock: Clock
    _started: float | None = None
    _before: int = 0
    _first: tuple[float, int] | None = None  # when the first piece was there, and what was done with it
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

    def came(self, done: int) -> None:
        """So much is done now: to be told with each piece."""
        if self._first is None and self._started is not None and done > self._before:
            self._first = self.clock.monotonic(), done

    def rate(self, done: int) -> float:
        """Units per second; 0 as long as there is none."""
        seconds = 0.0 if self._started is None else self.clock.monotonic() - self._started
        return max(0, done - self._before) / seconds if seconds > 0 else 0.0

    def eta(self, done: int, total: int) -> int | None:
        """Seconds that remain; None as long as nobody can know."""
        if self._first is None:
            return None
        since, with_first = self._first
        seconds = self.clock.monotonic() - since
        if seconds < SETTLED_SECONDS or done <= with_first:
            return None
        return int(max(0, total - done) * seconds / (done - with_first))

    def share(self, done: int, total: int, *, finished: bool) -> str:
        """DM's text of progress."""
        if finished:
            return "100.00 %"
        self._highest = max(self._highest, min(_ALMOST, 100 * done / total if total > 0 else 0.0))
        return f"{self._highest:.2f} %"
