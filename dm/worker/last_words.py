"""What a subtask's unit said last, and how much of it is still true.

A unit that rests says nothing, and one that begins anew has little to say before it has looked: a load that can't
reach its target would be at 0 %, a task that was paused an hour ago would be as far behind as it was then. So the words
of the run before stand until the run under way has taken stock (it says `starting` until then), and what they said of a
moment is not passed for true of this one: nobody is synced by words of before, and lag goes on counting.

The lag that results is a limit: where everything was applied when the words were said, the source may have rested
since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dm.clock import Clock
from dm.unit import JSON, UnitName

_LAG: Final = "secondsBehindMaster"


@dataclass
class LastWords:
    """Of one subtask."""

    clock: Clock
    status: Mapping[str, JSON] = field(default_factory=dict)
    _unit: UnitName | None = None
    _said_at: float = 0.0
    of_before: bool = False  # the run under way has not taken stock yet
    spoken: bool = False  # the run under way has said something, and has not ended with it

    def begins(self, unit: UnitName) -> None:
        """A run of this unit begins; what another unit said is over, and so is where a relay was."""
        if unit != self._unit or unit == "Relay":
            self.status = {}
        self._unit = unit
        self.of_before = True
        self.spoken = False

    def hear(self, status: Mapping[str, JSON], *, last: bool = False) -> None:
        """The run under way says something."""
        self.spoken = not last
        if status.get("starting") and self.status and not self.status.get("starting"):
            self.status = {**self.status, "waiting": status.get("waiting", "")}
            return
        self.status = status
        self._said_at = self.clock.monotonic()
        self.of_before = bool(status.get("starting"))

    def now(self, *, current: bool) -> Mapping[str, JSON]:
        """As much as is true now; `current`: the run under way has been asked for them and has answered."""
        if self._unit != "Sync" or (current and not self.of_before):
            return self.status
        lag = self.status.get(_LAG)
        silence = self.clock.monotonic() - self._said_at
        behind = round(float(lag) + silence, 3) if isinstance(lag, int | float) else None
        ddl: Mapping[str, JSON] = {"blockingDDLs": [], "blockingDDLSeconds": None}
        over = {name: value for name, value in ddl.items() if name in self.status}
        return {**self.status, **over, "synced": False, _LAG: behind}
