"""How long auto-resume waits: twice as long after every error, up to a limit, and shorter again after quiet times."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Backoff:
    """Delays of one subtask; times are seconds of the caller's monotonic clock."""

    minimum: float = 1.0
    maximum: float = 300.0
    rollback: float = 300.0  # DM's backoff-rollback: this long without an error takes one doubling back
    factor: float = 2.0
    jitter: float = 0.25  # the share of a delay that is left to chance, so that many tasks don't return as one
    chance: random.Random = field(default_factory=random.Random)
    _step: int = 0
    _last_failure: float | None = None

    def failed(self, now: float) -> float:
        """Note an error at `now`; returns the seconds to wait before the next attempt."""
        if self._last_failure is not None and self.rollback > 0:
            self._step = max(0, self._step - int((now - self._last_failure) // self.rollback))
        self._last_failure = now
        delay = min(self.maximum, self.minimum * self.factor**self._step)
        if delay < self.maximum:
            self._step += 1
        return delay * (1 - self.jitter * self.chance.random())

    def reset(self) -> None:
        """Begin anew, as after a person's resume."""
        self._step = 0
        self._last_failure = None
