"""What the changes of one target table have in common, whichever source table they come from.

Tables of different types may be merged into one. Where one of them can't promise how a part of a key folds, that part
counts as one value for all its rows. Then it must do so for the rows of all: `t(u)` with a value and `t(u)` without one
are two keys, so nothing would keep the order of a row that leaves and of another that takes its place. A part whose
column one of the tables lacks is left out by all for the same reason. And if one of them has no key by which its rows
are found, so that they go to the ordered lane, the rows of all go there.

Each plan adds what it can't do and does without what others can't. What was planned before an addition is out of date:
`size` shows it.
"""

from __future__ import annotations

from dm.changes.keys import KeyPart


class SharedKeys:
    """What the plans of all source tables of one target table do without."""

    __slots__ = ("_lacking", "_unfolded", "keyless", "plans")

    def __init__(self, *, keyless: bool = False) -> None:
        self._unfolded: set[str] = set()
        self._lacking: set[str] = set()
        self.keyless = keyless  # rows of a source table can't be found by a key
        self.plans = 0  # how many have looked here

    @property
    def size(self) -> int:
        """How much it is; it only grows."""
        return len(self._unfolded) + len(self._lacking) + self.keyless

    def part(self, own: KeyPart) -> KeyPart:
        """The part of a key as all tables can read it, where one reads it so."""
        if own.at is None:
            self._lacking.add(own.label)
        elif own.fold is None:
            self._unfolded.add(own.label)
        if own.label in self._lacking:
            return KeyPart(own.column, None, None, own.prefix)
        if own.label in self._unfolded:
            return KeyPart(own.column, own.at, None, own.prefix)
        return own
