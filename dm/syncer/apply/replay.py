"""How the changes of a transaction are applied, given what earlier runs may have done of it.

A change is applied strictly, so that the target refuses what does not match (a duplicate row, a missing row), or in
safe mode, which settles that silently. There are three cases:

    FIRST_TIME    no earlier run has reached it, or none has done any of it: strictly.
    AGAIN         earlier runs may have done any of it: in safe mode.
    in parts      earlier runs may have done all but certain changes, known by their keys (`dm.progress.undone`): those
                  strictly, the others in safe mode.

If the task file asks for safe mode, everything is AGAIN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.progress.undone import Undone, UndoneKeys
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.stream.transaction import SourceTransaction


@dataclass(frozen=True, slots=True)
class Repetition:
    """Whether changes are applied in safe mode; if so, which are still strict."""

    safe: bool
    but_for: UndoneKeys | None = None


FIRST_TIME: Final = Repetition(safe=False)
AGAIN: Final = Repetition(safe=True)


class Replay:
    """Asked about each transaction in order; belongs to the dispatcher."""

    def __init__(self, safe_mode: SafeModeWindow, undone: Undone) -> None:
        self.safe_mode = safe_mode
        self._undone = undone
        self._known = bool(undone.transactions)  # the record of earlier runs does not grow

    def of(self, transaction: SourceTransaction) -> Repetition:
        """How the transaction's changes are applied; it counts as reached from now on."""
        safe_mode = self.safe_mode
        again = safe_mode.covers_change(transaction.begin)
        if not self._known:
            return AGAIN if again else FIRST_TIME
        undone = self._undone.of(transaction.end)
        if not again:
            return FIRST_TIME
        if undone is None or safe_mode.wanted:
            return AGAIN
        return FIRST_TIME if undone.whole else Repetition(safe=True, but_for=undone)
