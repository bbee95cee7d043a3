"""Sets how often the garbage collector of a unit host looks for cycles.

Problem: rows and events are tuples and bytes without cycles, which reference counts free. But Python's collector counts
containers, not cycles. It runs after 700 new containers, and objects that survive two runs count towards the next full
run, which visits every object of the process. A backlog has hundreds of thousands of rows on their way, each visited
several times before it was freed: a fifth of the work on a row.

So objects left by the imports are frozen, and the collector rests while there are less than a million new containers.
Garbage that only a cycle holds (an error and its frames, say) is collected by the clock: the young generation every
half minute, the next one every tenth time, everything every hundredth time.
"""

from __future__ import annotations

import gc
from typing import Final

from dm.clock import Clock

_YOUNG: Final = 1_000_000  # containers more than before, after which the young are looked at without the clock
_OLDER: Final = 10  # collections of one generation to one of the next
_PAUSE_SECONDS: Final = 30.0


def settle() -> None:
    """Set the collector of this process; called once, when everything is imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)


class Collector:
    """Looks for cycles when it is time to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due = clock.monotonic() + _PAUSE_SECONDS
        self._times = 0

    def pass_by(self) -> None:
        """Collect, if it is time to; whoever has a loop calls this in it."""
        now = self._clock.monotonic()
        if now < self._due:
            return
        self._due = now + _PAUSE_SECONDS
        self._times += 1
        gc.collect(2 if self._times % _OLDER**2 == 0 else 1 if self._times % _OLDER == 0 else 0)
