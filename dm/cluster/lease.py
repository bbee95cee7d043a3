"""A member's lease: everything that shows others that it lives is bound to it, and goes with it.

One thread renews it, three times per life. The member counts from when it *sent* the last renewal that got through,
etcd from when it received it. So `alive` is never true for longer than etcd keeps the lease, whatever was delayed or
frozen meanwhile. The clock is monotonic; a wall clock that jumps has no part in this.

When a renewal does not get through, the thread tries every second. `alive` ends by itself. The member then starts
nothing new, and what runs goes on: whether it may write is decided at the target, by the epoch. When etcd answers that
the lease is gone, the member takes a new one. What was bound to the old one has to be claimed again, and may have been
claimed by others: so `number` changes, and those that `told` names look.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import structlog

from dm.clock import Clock
from dm.cluster.etcd import Etcd
from dm.errors import DMError

LEASE_SECONDS: Final = 15
_RENEWALS: Final = 3  # per life
_AGAIN_SECONDS: Final = 1.0


class Lease:
    """The lease of this process, from `begin` to `end`."""

    def __init__(self, etcd: Etcd, clock: Clock, told: Callable[[], None], seconds: int = LEASE_SECONDS) -> None:
        self._etcd = etcd
        self._clock = clock
        self._told = told
        self._seconds = seconds
        self._until = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._log = structlog.get_logger()
        self.number = 0
        self.in_touch = True  # whether the last renewal got through

    @property
    def alive(self) -> bool:
        """Whether etcd is sure to have it still."""
        return self._clock.monotonic() < self._until

    def begin(self) -> None:
        """Take a lease, and keep it; raises DMError."""
        self._take()
        self._thread.start()

    def end(self) -> None:
        """Give it up with everything that is bound to it."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._until = 0.0
        try:
            self._etcd.revoke(self.number)
        except DMError as error:  # it ends by itself
            self._log.warning("the lease is left to end by itself", error=error)

    def renew_once(self) -> bool:
        """Renew it, or take a new one where it is gone; False where etcd can't be reached."""
        sent = self._clock.monotonic()
        known = (self.number, self.in_touch, self.alive)
        try:
            if self._etcd.renew(self.number):
                self._until = sent + self._seconds
            else:
                self._log.warning("the lease is gone, a new one is taken", lease=self.number)
                self._take()
            self.in_touch = True
        except DMError as error:
            if self.in_touch:
                self._log.warning("the lease can't be renewed", error=error)
            self.in_touch = False
        if known != (self.number, self.in_touch, self.alive):
            self._told()
        return self.in_touch

    def _take(self) -> None:
        sent = self._clock.monotonic()
        self.number = self._etcd.grant(self._seconds)
        self._until = sent + self._seconds

    def _renew(self) -> None:
        pause = self._seconds / _RENEWALS
        while not self._clock.wait(self._stop, pause):
            pause = self._seconds / _RENEWALS if self.renew_once() else _AGAIN_SECONDS
