"""How far a dump is: DM's fields, and rate and remaining time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from dm.clock import Clock
from dm.ident import TableName
from dm.unit import JSON


def rate_and_eta(done: int, total: int, seconds: float, before: int = 0) -> tuple[int, int | None]:
    """Units per second since the start, and the seconds that remain; `before` was done by an earlier run."""
    fresh = done - before
    if seconds <= 0 or fresh <= 0:
        return 0, None
    rate = fresh / seconds
    return int(rate), max(0, int((total - done) / rate))


def percentage(done: int, total: int, finished: bool) -> str:
    """DM's text of progress; an estimate never says 100 % before the end."""
    if finished:
        return "100.00 %"
    return f"{min(99.99, 100 * done / total) if total else 0.0:.2f} %"


@dataclass
class DumpProgress:
    """Counters of one run; any thread may read."""

    clock: Clock
    phase: str = "starting"
    finished: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _missing: dict[TableName, int] = field(default_factory=dict)  # chunks that are still to be read
    _estimates: dict[TableName, int] = field(default_factory=dict)
    _rows: dict[TableName, int] = field(default_factory=dict)
    _sizes: dict[TableName, int] = field(default_factory=dict)
    _under_way: tuple[int, int] = (0, 0)  # rows and bytes of chunks that are being read
    _started: float | None = None
    _before: tuple[int, int] = (0, 0)

    def plan(self, table: TableName, chunks: int, estimated_rows: int) -> None:
        """A table enters, or starts anew."""
        with self._lock:
            self._missing[table] = chunks
            self._estimates[table] = estimated_rows
            self._rows[table] = self._sizes[table] = 0

    def forget(self, table: TableName) -> None:
        """A table is gone."""
        with self._lock:
            for counters in (self._missing, self._estimates, self._rows, self._sizes):
                counters.pop(table, None)

    def chunk(self, table: TableName, rows: int, size: int) -> None:
        """A chunk is done."""
        with self._lock:
            self._missing[table] -= 1
            self._rows[table] += rows
            self._sizes[table] += size

    def under_way(self, rows: int, size: int) -> None:
        """How much of unfinished chunks has been read."""
        with self._lock:
            self._under_way = (rows, size)

    def reading(self) -> None:
        """Rows begin to flow: the rate counts from here."""
        with self._lock:
            if self._started is None:
                self._started = self.clock.monotonic()
                self._before = (sum(self._rows.values()), sum(self._sizes.values()))

    def status(self) -> Mapping[str, JSON]:
        """DM's dump status."""
        with self._lock:
            rows = sum(self._rows.values()) + self._under_way[0]
            size = sum(self._sizes.values()) + self._under_way[1]
            # Where more came than was estimated, the estimate was wrong.
            estimate = sum(
                self._rows[table] if missing <= 0 else max(self._estimates[table], self._rows[table])
                for table, missing in self._missing.items()
            )
            seconds = 0.0 if self._started is None else self.clock.monotonic() - self._started
            total = len(self._missing)
            completed = sum(1 for missing in self._missing.values() if missing <= 0)
        row_rate, eta = rate_and_eta(rows, estimate, seconds, self._before[0])
        bps, _ = rate_and_eta(size, size, seconds, self._before[1])
        return {
            "totalTables": str(total),
            "completedTables": f"{completed:.0f}",
            "finishedBytes": str(size),
            "finishedRows": str(rows),
            "estimateTotalRows": str(estimate),
            "bps": str(bps),
            "rps": str(row_rate),
            "etaSeconds": None if eta is None else str(eta),
            "phase": self.phase,
            "progress": percentage(rows, estimate, self.finished),
        }
