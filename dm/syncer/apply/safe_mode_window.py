"""When changes are applied idempotently (safe mode): by position, from L until the processed changes cover the bound B.

DM's timer (`safe-mode-duration`) and its permanent switch (`safe-mode`) add to this, if the task file sets them.

Outside safe mode a change is strict: the target refuses a duplicate or missing row. Safe mode settles both silently.
How a transaction's changes are applied depends on what earlier runs may have done of it:

    FIRST_TIME    none of it: strictly
    AGAIN         any part of it: in safe mode
    in parts      all but certain changes, known by their keys (`dm.progress.takeover`): those strictly, the others in
                  safe mode

If the task file asks for safe mode, everything is AGAIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.clock import Clock
from dm.position import Position
from dm.progress.takeover import Undone, UndoneKeys
from dm.sourcelog.stream.transaction import SourceTransaction


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
        """Whether the task file turns it on, whatever earlier runs have applied."""
        return self._always or (self._until is not None and self._clock.monotonic() < self._until)

    def bound_after(self, position: Position) -> Position | None:
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


@dataclass(frozen=True, slots=True)
class Repetition:
    """Whether a transaction's changes are applied in safe mode, and which of them are still strict."""

    safe: bool
    strict_keys: UndoneKeys | None = None


FIRST_TIME: Final = Repetition(safe=False)
AGAIN: Final = Repetition(safe=True)


class WindowReplay:
    """Decides for each transaction in order; belongs to the dispatcher."""

    def __init__(self, safe_mode: SafeModeWindow, undone: Undone) -> None:
        self.safe_mode = safe_mode
        self._undone = undone
        self._known = bool(undone.transactions)  # the record of earlier runs does not grow

    def is_first_time(self, begin: Position) -> bool:
        """Whether everything after here is applied for the first time."""
        return not self._known and not self.safe_mode.covers_change(begin)

    def of(self, transaction: SourceTransaction) -> Repetition:
        """How the transaction's changes are applied; from now on it counts as reached."""
        safe_mode = self.safe_mode
        again = safe_mode.covers_change(transaction.begin)
        if not self._known:
            return AGAIN if again else FIRST_TIME
        undone = self._undone.of(transaction.end)
        if not again:
            return FIRST_TIME
        if undone is None or safe_mode.wanted:
            return AGAIN
        return FIRST_TIME if undone.whole else Repetition(safe=True, strict_keys=undone)
