"""Time as an argument: everything that waits or measures takes a `Clock`, so that tests drive it."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock, a wall clock and a wait that a stop signal ends."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def time(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        """Wait until the signal is set or the seconds have passed; True if it is set."""
        ...


class SystemClock:
    """The machine's own clock."""

    def monotonic(self) -> float:
        """Seconds of the system's monotonic clock."""
        return time.monotonic()

    def time(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        """Block on the signal itself, so a stop is seen at once."""
        return signal.wait(seconds)
