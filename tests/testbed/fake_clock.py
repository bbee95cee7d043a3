"""A clock that moves when the test says so."""

from __future__ import annotations

import threading


class FakeClock:
    """Implements dm.clock.Clock."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def monotonic(self) -> float:
        """The set time."""
        return self.now

    def time(self) -> float:
        """The set time."""
        return self.now

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        """Let the time pass at once."""
        self.now += seconds
        return signal.is_set()
