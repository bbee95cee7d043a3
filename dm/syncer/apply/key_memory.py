"""The memory of the conflict detector's keys, estimated by samples: a key may be a number or kilobytes of text."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from dm.changes.keys import keys_of
from dm.changes.row_change import RowChange

_SAMPLE_CHANGES: Final = 64
_SLOT: Final = 100  # of a dictionary, per key, while it grows


class KeyMemory:
    """Counts what was placed since the detector was cleared; belongs to the dispatcher."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0
        self._per_change = 0
        self._since = _SAMPLE_CHANGES

    @property
    def full(self) -> bool:
        """Whether it is time to clear."""
        return self.used > self._limit

    def placed(self, sample: RowChange, count: int) -> None:
        """Count so many changes of the sample's size."""
        self._since += count
        if self._since >= _SAMPLE_CHANGES:
            self._since = 0
            self._per_change = sum(
                _SLOT + getsizeof(key) + sum(getsizeof(part) for part in key[1:]) for key in keys_of(sample)
            )
        self.used += self._per_change * count

    def clear(self) -> None:
        """The detector was cleared."""
        self.used = 0
