"""When stored bytes are forced to the disk: the `relay-sync` of a source.

  always    after every write (a write is a MiB, or all that has arrived)
  interval  at most a second after the last time, and when a file is closed or indexed
  none      never: the operating system writes when it likes

A power cut loses what was not forced, never more: the relay finds the last whole transaction, and the source sends the
rest again. Readers get bytes before they are forced, so after a power cut a checkpoint may be ahead of the relay. The
syncer then waits until the relay reaches it. A crash of the relay alone loses nothing under any policy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from dm.clock import Clock

SyncPolicy = Literal["always", "interval", "none"]
INTERVAL_SECONDS = 1.0


class Durability:
    """Forces written bytes to the disk as the policy says; `force` is fsync(2), or a test's counter."""

    def __init__(self, policy: SyncPolicy, clock: Clock, force: Callable[[int], None] = os.fsync) -> None:
        self._policy = policy
        self._clock = clock
        self._force = force
        self._dirty = False
        self._last = clock.monotonic()

    def created(self, directory: Path) -> None:
        """A file was created: its name must survive as well."""
        if self._policy == "none":
            return
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._force(descriptor)
        finally:
            os.close(descriptor)

    def wrote(self, descriptor: int) -> None:
        """Bytes were written."""
        self._dirty = True
        if self._policy == "always" or self._clock.monotonic() - self._last >= INTERVAL_SECONDS:
            self.settle(descriptor)

    def settle(self, descriptor: int) -> None:
        """Force everything written so far: an index or a closed file depends on it."""
        if not self._dirty or self._policy == "none":
            return
        self._force(descriptor)
        self._dirty = False
        self._last = self._clock.monotonic()
