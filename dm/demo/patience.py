"""How long a demo waits: as long as something new is to be seen, however slow the machine is.

What was seen before is nothing new, so a task that fails and begins again for ever is given up.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final

from dm.clock import Clock

_MARKS: Final = ("finishedBytes", "finishedRows", "totalRows", "completedTables", "progress", "syncerBinlog")
"""Fields of a unit's status that move on with its work, and do not with time alone."""


class Patience:
    """Of one wait."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._seen: set[Hashable] = set()
        self._last_new = clock.monotonic()

    def see(self, sight: Hashable) -> None:
        """Look at how things are."""
        if sight not in self._seen:
            self._seen.add(sight)
            self._last_new = self._clock.monotonic()

    @property
    def idle(self) -> float:
        """Seconds since something new was seen."""
        return self._clock.monotonic() - self._last_new

    @property
    def over(self) -> bool:
        """Whether nothing new has come for too long."""
        return self.idle > self._seconds


def sight_of(status: Mapping[str, Any]) -> Hashable:
    """How far each subtask of a `query-status` is."""
    return tuple(
        (source["sourceStatus"]["source"], subtask["unit"], *(str(detail.get(mark)) for mark in _MARKS))
        for source in status["sources"]
        for subtask in source["subTaskStatus"]
        for detail in (subtask.get(str(subtask["unit"]).lower()) or {},)
    )
