"""Which lanes may have an open target transaction: normally all, after a deadlock one alone.

Lanes hold disjoint keys, yet InnoDB locks more than keys. A REPLACE on a table with a second unique key locks gaps
beside the rows, so two lanes can deadlock again and again on unrelated rows. A transaction that was rolled back that
way is retried alone, when the others have finished. Then nothing of ours blocks it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """A lock that many hold together or one holds alone; a thread that wants it alone precedes newcomers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._alone = False
        self.waiting_alone = 0  # threads that want it alone and do not have it yet
        self.times_alone = 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Hold it with others."""
        with self._changed:
            while self._alone or self.waiting_alone:
                self._changed.wait()
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it alone."""
        with self._changed:
            self.waiting_alone += 1
            while self._inside or self._alone:
                self._changed.wait()
            self.waiting_alone -= 1
            self._alone = True
            self.times_alone += 1
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
