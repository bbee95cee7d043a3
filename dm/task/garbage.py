"""How often the garbage collector of a unit host looks for cycles: by the clock, and never among what was there first.

Rows and events are tuples and bytes without cycles, which their reference counts free. But Python counts containers,
not cycles: a collection comes after 700 that are not free yet, looks at all of them, and those that survive two of them
count for the next full one, which looks at every object of the process. In a backlog there are hundreds of thousands on
their way, and each was looked at several times before it was freed: a fifth of the work on a row.

So what the imports left is put aside for good, and as long as less than a million containers are there that were not
before, the collector rests. What only a cycle holds (an error and its frames, say) is found by the clock instead: every
half minute the young are looked at, every tenth time what survived that, and every hundredth time everything.
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
