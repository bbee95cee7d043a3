"""How far a load is: DM's fields, and rate and remaining time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from dm.clock import Clock
from dm.position import Position
from dm.unit import JSON


@dataclass
class LoadProgress:
    """Counters of one run; any thread may read."""

    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _position: Position | None = None
    _rows: int = 0
    _size: int = 0
    _total_rows: int = 0
    _total_size: int = 0
    _started: float | None = None
    _before: int = 0
    _finished: bool = False
    _left_out: tuple[str, ...] = ()

    def begin(self, position: Position) -> None:
        """The dump is known."""
        with self._lock:
            self._position = position

    def leave_out(self, files: tuple[str, ...]) -> None:
        """Files of the dump that are not loaded: they hold no tables."""
        with self._lock:
            self._left_out = files

    def expect(self, rows: int, size: int) -> None:
        """A part that the dump consists of."""
        with self._lock:
            self._total_rows += rows
            self._total_size += size

    def loaded(self, rows: int, size: int) -> None:
        """A part is in the target."""
        with self._lock:
            self._rows += rows
            self._size += size

    def loading(self) -> None:
        """Rows begin to flow: the rate counts from here."""
        with self._lock:
            self._started = self.clock.monotonic()
            self._before = self._size

    def finish(self) -> None:
        """Everything is loaded and handed over."""
        with self._lock:
            self._finished = True

    def status(self) -> Mapping[str, JSON]:
        """DM's load status, and rows and remaining time."""
        with self._lock:
            seconds = 0.0 if self._started is None else self.clock.monotonic() - self._started
            fresh = self._size - self._before
            rate = fresh / seconds if seconds > 0 and fresh > 0 else 0.0
            share = self._size / self._total_size if self._total_size else 0.0
            position = self._position
            return {
                "finishedBytes": str(self._size),
                "totalBytes": str(self._total_size),
                "finishedRows": str(self._rows),
                "totalRows": str(self._total_rows),
                "progress": "100.00 %" if self._finished else f"{min(99.99, 100 * share):.2f} %",
                "metaBinlog": "" if position is None else str(position),
                "metaBinlogGTID": "" if position is None else str(position.gtid_set),
                "leftOut": list(self._left_out),
                "bps": str(int(rate)),
                "etaSeconds": str(int((self._total_size - self._size) / rate)) if rate else None,
            }
