"""How long a full load has taken, dump and load together, and how long it will take yet.

While rows are dumped nothing is known of how fast the target takes them. What dm has been measured at: a load takes
between 1.3 and 6.7 times as long as the dump of the same rows (`docs/performance.md`). So three times is assumed until
the load has a rate of its own, and it is said that this is assumed. Who is told the dump's time alone would plan for a
third of the truth, or less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dm.clock import Clock
from dm.unit import JSON, UnitName

LOAD_PER_DUMP: Final = 3.0


@dataclass
class CopyProgress:
    """Of one subtask, as long as this daemon has seen it."""

    clock: Clock
    load_follows: bool
    _began: float | None = None
    _ended: float | None = None
    _unit: UnitName | None = None
    _unit_began: float = 0.0
    _dump_seconds: float | None = None  # that the dump of everything takes, at its rate

    def begins(self, unit: UnitName) -> None:
        """A run of the unit begins."""
        now = self.clock.monotonic()
        if unit not in ("Dump", "Load"):
            self._ended = self._ended or now
            return
        if self._began is None:
            self._began = now
        if unit != self._unit:
            self._unit, self._unit_began = unit, now

    def report(self, unit: UnitName, status: Mapping[str, JSON]) -> dict[str, JSON]:
        """What is added to the unit's own words."""
        if self._began is None or unit not in ("Dump", "Load"):
            return {}
        elapsed = (self._ended or self.clock.monotonic()) - self._began
        eta, assumed = self._eta(unit, status)
        return {
            "totalElapsedSeconds": str(int(elapsed)),
            "totalEtaSeconds": None if eta is None else str(int(eta)),
            "totalEtaAssumed": assumed,
        }

    def _eta(self, unit: UnitName, status: Mapping[str, JSON]) -> tuple[float | None, bool]:
        """Seconds that remain, and whether a part of them is assumed."""
        said = status.get("etaSeconds")
        ours = None if said is None else float(str(said))
        if unit == "Load":
            if ours is not None or self._dump_seconds is None or status.get("phase"):
                return ours, False
            left = LOAD_PER_DUMP * self._dump_seconds - (self.clock.monotonic() - self._unit_began)
            return (left, True) if left > 0 else (None, False)
        if ours is None or not self.load_follows or status.get("streamed"):
            return ours, False
        total, done = int(str(status["estimateTotalRows"])), int(str(status["finishedRows"]))
        if done < total:
            self._dump_seconds = ours * total / (total - done)
        return (None, False) if self._dump_seconds is None else (ours + LOAD_PER_DUMP * self._dump_seconds, True)
