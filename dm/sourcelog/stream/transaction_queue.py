"""The queue between the reader and the dispatcher: whole transactions of the source, in order.

It has no bound of its own: the assembler waits for memory before it completes a transaction.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from dm.errors import DMError
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.rest import Rest
from dm.sourcelog.stream.transaction import SourceTransaction


class TransactionQueue:
    """Transactions in source order; the quota counts their memory."""

    def __init__(self, quota: MemoryQuota) -> None:
        self._quota = quota
        self._waiting: deque[SourceTransaction] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._finished = False
        self._broken_off = False
        self.rest = Rest(self._changed)
        self._error: DMError | None = None  # what follows the last transaction
        quota.before_waiting = self.wake
        self.empty_handed = False  # the dispatcher waits for a transaction

    def put(self, transaction: SourceTransaction, *, more: bool = False) -> bool:
        """Add one; False when nothing more is taken. With `more` at hand, nobody is woken for it: see `wake`.

        Waking a thread for each transaction costs more than the transaction.
        """
        with self._changed:
            if self._over:
                return False
            self._waiting.append(transaction)
            if not more:
                self._changed.notify_all()
            return True

    def wake(self) -> None:
        """Wake the dispatcher for transactions added without a wake-up."""
        with self._changed:
            if self._waiting:
                self._changed.notify_all()

    def take(self, at_rest: Callable[[], None]) -> SourceTransaction | None:
        """The next transaction, waiting for it; None when the queue is closed or broken off, or finished and empty.

        Raises DMError: see `end`.

        If there is none, `at_rest` is called, and again as long as `rest` requires it.
        """
        rest = self.rest
        while True:
            with self._changed:
                if self._closed or self._broken_off:
                    return None
                if self._waiting:
                    return self._waiting.popleft()
                if self._error is not None:
                    raise self._error
                if self._finished:
                    return None
                rest.begin()
            at_rest()
            with self._changed:
                self.empty_handed = True
                while not (self._waiting or self._over or self._error or rest.again()):
                    self._changed.wait()
                self.empty_handed = False

    @property
    def _over(self) -> bool:
        return self._closed or self._finished or self._broken_off

    @property
    def following(self) -> SourceTransaction | None:
        """What `take` gives next, if it is there already; it stays in the queue."""
        with self._changed:
            return self._waiting[0] if self._waiting and not (self._closed or self._broken_off) else None

    def end(self, error: DMError) -> None:
        """Only this error follows, after all transactions."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def finish(self) -> None:
        """Nothing comes any more, and that is as it should be: what is here is taken, then the run is over."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def break_off(self) -> None:
        """Nothing more is taken, and another run goes on after what was: nobody has asked this one to hurry."""
        with self._changed:
            self._broken_off = True
            self._changed.notify_all()

    @property
    def broken_off(self) -> bool:
        """Whether what was taken is all that the run applies."""
        return self._broken_off

    @property
    def finished(self) -> bool:
        """Whether all that the run is to apply was put here."""
        return self._finished

    @property
    def exhausted(self) -> bool:
        """Whether all of that was taken as well: a run may be stopped before."""
        with self._changed:
            return self._finished and not self._waiting

    def close(self) -> None:
        """Wake all threads, including those that wait for memory; the queue is closed."""
        self._quota.close()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether the run is ending."""
        return self._closed

    def __len__(self) -> int:
        return len(self._waiting)
