"""When changes are applied idempotently: by position, from L until what is processed covers the bound B.

DM's timer (`safe-mode-duration`) and its permanent switch (`safe-mode`) add to this, if the task file sets them.
"""

from __future__ import annotations

from dm.clock import Clock
from dm.position import Position


class SafeModeWindow:
    """The present reasons for safe mode; the dispatcher, the progress writer and the status share it."""

    def __init__(self, bound: Position | None, *, always: bool, seconds: float, clock: Clock) -> None:
        self._bound = bound
        self._always = always
        self._clock = clock
        self._until = clock.monotonic() + seconds if seconds else None
        self.rows = 0  # changes applied idempotently, for the status

    def covers_change(self, begin: Position) -> bool:
        """Whether the transaction that begins at `begin` may have been applied already, in part or whole."""
        if self.wanted:
            return True
        bound = self._bound  # another thread resets it
        return bound is not None and not begin.covers(bound)

    @property
    def wanted(self) -> bool:
        """Whether the task file turns it on, whatever was applied already."""
        return self._always or (self._until is not None and self._clock.monotonic() < self._until)

    def bound_behind(self, position: Position) -> Position | None:
        """The bound to store with checkpoint `position`: None once the checkpoint covers it."""
        bound = self._bound
        if bound is not None and position.covers(bound):
            bound = self._bound = None
        return bound

    @property
    def reasons(self) -> list[str]:
        """Why safe mode is on, for people."""
        found = []
        if self._always:
            found.append("safe-mode: true")
        if self._until is not None and self._clock.monotonic() < self._until:
            found.append("safe-mode-duration")
        bound = self._bound
        if bound is not None:
            found.append(f"until {bound}")
        return found
