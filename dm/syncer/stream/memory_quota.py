"""How much memory what is under way may take, and what happens when it is used up.

Three ways to ask, chosen by what the asker could do without the memory (TiCDC's discipline):

    try      take it if there is room: whoever has another way, such as a file, asks so
    block    wait for room: whoever comes after others, who give theirs back without his doing
    force    take it in any case: whoever holds what the others wait for

The danger is that all wait for each other. A transaction whose end is not read yet can't be applied, so what it holds
comes back to nobody; two of them, each larger than half of the quota, would wait for ever. So what they hold is counted
as `unfinished`, and `block` waits only as long as there is something else out: that is on its way to the target and
comes back. Where nothing comes back, `block` says no, and the asker takes its other way (spills), or forces.

So the quota is exceeded by what was forced alone: the last piece of a transaction, or one event that is larger than
everything. Sizes are estimates of memory, not bytes of binlog; see the constants where they are made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

# What a decoded change takes until it is applied: its values, their literals, its statement, the packet. 95 bytes of a
# row in the binlog were 840 (measured), a blob is sent as hexadecimal digits: 9 for 1. Then, per change, what does not
# depend on its size.
DECODED_FACTOR: Final = 9
CHANGE_COST: Final = 400
# A raw event beside its bytes, a transaction beside its events, each member of the GTID set that its position has.
ITEM_COST: Final = 480
TRANSACTION_COST: Final = 1024
SOURCE_COST: Final = 100


class MemoryQuota:
    """Memory shared by those who ask for it; thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._used = 0
        self._unfinished = 0
        self._peak = 0
        self._lock = threading.Lock()  # taken for every transaction: the plain one is the quickest
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._closed = False
        self.before_waiting: Callable[[], None] = lambda: None
        """Whoever waits may hold something back that others need to give theirs back; called in the asker's thread."""

    @property
    def used(self) -> int:
        """What is out."""
        return self._used

    @property
    def peak(self) -> int:
        """The most that was ever out."""
        return self._peak

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits for room."""
        return self._waiting > 0

    @property
    def closed(self) -> bool:
        """Whether nobody waits any more."""
        return self._closed

    def block_acquire(self, size: int, *, unfinished: bool = False) -> bool:
        """Wait for room; False when nothing comes back that could make it, or when the quota was closed."""
        with self._lock:
            while self._used + size > self.total:
                if self._used <= self._unfinished or self._closed:
                    return False
                self._waiting += 1
                self.before_waiting()
                self._changed.wait()
                self._waiting -= 1
            self._take(size, unfinished)
            return True

    def force_acquire(self, size: int, *, unfinished: bool = False) -> None:
        """Take it in any case."""
        with self._lock:
            self._take(size, unfinished)

    def _take(self, size: int, unfinished: bool) -> None:
        self._used += size
        if unfinished:
            self._unfinished += size
        self._peak = max(self._peak, self._used)

    def finish(self, size: int) -> None:
        """What an unfinished transaction held will come back by itself from now on."""
        with self._lock:
            self._unfinished -= size
            if self._waiting:
                self._changed.notify_all()

    def release(self, size: int, *, unfinished: bool = False) -> None:
        """Give it back."""
        with self._lock:
            self._used -= size
            if unfinished:
                self._unfinished -= size
            if self._waiting:
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._lock:
            self._closed = True
            if self._waiting:
                self._changed.notify_all()
