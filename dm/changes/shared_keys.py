"""What the changes of one target table have in common, whichever source table they come from.

Tables of different types may be merged into one. If one of them can't promise how a part of a key folds, that part
counts as one value for all its rows. Then it must do so for the rows of all: `t(u)` with a value and `t(u)` without one
are two keys, so the order of a row that leaves and another that replaces it would be lost. For the same reason all
leave out a part whose column one of the tables lacks. And if one of them has no key that finds its rows, so that it
uses the ordered lane, all of them use it.

Each plan adds what it lacks and avoids what others lack. Plans made before an addition are out of date: `size` shows
it.
"""

from __future__ import annotations

from dm.changes.keys import KeyPart


class SharedKeys:
    """What the plans of all source tables of one target table avoid."""

    __slots__ = ("_lacking", "_unfolded", "keyless", "plans")

    def __init__(self, *, keyless: bool = False) -> None:
        self._unfolded: set[str] = set()
        self._lacking: set[str] = set()
        self.keyless = keyless  # no key finds the rows of a source table
        self.plans = 0  # how many plans have been made

    @property
    def size(self) -> int:
        """The number of additions; it only grows."""
        return len(self._unfolded) + len(self._lacking) + self.keyless

    def part(self, own: KeyPart) -> KeyPart:
        """The part of a key as all tables can read it."""
        if own.at is None:
            self._lacking.add(own.label)
        elif own.fold is None:
            self._unfolded.add(own.label)
        if own.label in self._lacking:
            return KeyPart(own.column, None, None, own.prefix)
        if own.label in self._unfolded:
            return KeyPart(own.column, own.at, None, own.prefix)
        return own
