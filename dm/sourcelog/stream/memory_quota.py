"""How much memory pending work may take, and what happens when it is used up.

There are three ways to ask. They depend on what the caller could do without the memory (TiCDC's discipline):

    try      take it if there is room: for a caller with an alternative, such as a file
    block    wait for room: for a caller that follows others, which return their memory without its help
    force    take it in any case: for a caller that holds what the others wait for

The danger is a deadlock. A transaction whose end is not read yet can't be applied, so its memory does not come back.
Two of them, each larger than half of the quota, would wait for ever. So their memory is counted as `unfinished`, and
`block` waits only while other memory is out: that memory belongs to changes on their way to the target and comes back.
If none comes back, `block` returns False, and the caller spills to disk or forces.

So only forced memory exceeds the quota: the last piece of a transaction, or one event that is larger than everything.
Sizes are estimates of memory, not bytes of binlog; see the constants at their definitions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

# The memory of a decoded change until it is applied: its values, their literals, its statement, the packet. 95 bytes of
# a row in the binlog took 840 (measured). A blob is sent as hexadecimal digits: 9 bytes for 1. Then, per change, the
# part that does not depend on its size.
DECODED_FACTOR: Final = 9
# The same of a change that goes as the source's event, whose values are mostly unread: the bytes by themselves, the
# event that they came in, their text, a third longer, and what the heap can't give back between them.
RAW_FACTOR: Final = 5
CHANGE_COST: Final = 400
# A raw event without its bytes, a transaction without its events, each member of its position's GTID set.
ITEM_COST: Final = 480
TRANSACTION_COST: Final = 1024
SOURCE_COST: Final = 100


class MemoryQuota:
    """Memory shared by several callers; thread-safe."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._used = 0
        self._unfinished = 0
        self._lock = threading.Lock()  # taken for every transaction: a plain lock is the fastest
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._closed = False
        self.before_waiting: Callable[[], None] = lambda: None
        """Whoever waits may hold something back that others need to give theirs back; called in the asker's thread."""

    @property
    def used(self) -> int:
        """The memory in use."""
        return self._used

    @property
    def waited_for(self) -> bool:
        """Whether a caller waits for room."""
        return self._waiting > 0

    @property
    def closed(self) -> bool:
        """Whether the quota is closed."""
        return self._closed

    def block_acquire(self, size: int, *, unfinished: bool = False) -> bool:
        """Wait for room; False when no returning memory could make room, or when the quota was closed."""
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
        """Take memory in any case."""
        with self._lock:
            self._take(size, unfinished)

    def _take(self, size: int, unfinished: bool) -> None:
        self._used += size
        if unfinished:
            self._unfinished += size

    def finish(self, size: int) -> None:
        """From now on the memory of an unfinished transaction comes back without further reading."""
        with self._lock:
            self._unfinished -= size
            if self._waiting:
                self._changed.notify_all()

    def release(self, size: int, *, unfinished: bool = False) -> None:
        """Return memory."""
        with self._lock:
            self._used -= size
            if unfinished:
                self._unfinished -= size
            if self._waiting:
                self._changed.notify_all()

    def close(self) -> None:
        """Wake all callers and let none wait."""
        with self._lock:
            self._closed = True
            if self._waiting:
                self._changed.notify_all()
