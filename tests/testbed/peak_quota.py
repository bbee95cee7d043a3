"""A quota of memory that remembers its peak."""

from __future__ import annotations

from dm.sourcelog.stream.memory_quota import MemoryQuota


class PeakQuota(MemoryQuota):
    """Tells the most memory that was ever in use."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self.peak = 0

    def _take(self, size: int, unfinished: bool) -> None:
        super()._take(size, unfinished)
        self.peak = max(self.peak, self.used)
