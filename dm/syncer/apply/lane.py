"""A lane: one target session with its bounded queue, applied in order by one thread.

The number of changes bounds each queue, and the memory quota bounds all queues together. A full queue blocks the
dispatcher. So a slow target holds the reader back, and memory stays within the configuration. A batch is whatever waits
when the session is free, up to a limit: a single change is sent at once, a backlog in full batches, without a timer.
(Before that, `placement.py` groups changes.)
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.ordered_lane import ChangeStream


@dataclass(slots=True)
class LaneJob:
    """Changes of one transaction for one lane; `end` is the end of that transaction."""

    changes: list[RowChange]
    ticket: Ticket
    end: Position
    cost: int = 0  # memory, returned when they are committed
    stream: ChangeStream | None = None  # instead of changes, if those are too many to hold

    @property
    def count(self) -> int:
        """The number of changes it counts as."""
        return len(self.changes) or 1


class ChangeQueue:
    """The pending work of one lane."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._jobs: deque[LaneJob] = deque()
        self._refused: list[LaneJob] = []  # put after it was closed
        self._waiting = 0  # changes in the queue
        self._running = 0  # changes in the running batch
        self._changed = threading.Condition()
        self._closed = False
        self._last = 0  # when closed: transactions of the source before this number are still applied
        self._more = False  # when closed: the dispatcher may still hold some of them
        self.waited_for = False  # a thread waits for room

    @property
    def closed(self) -> bool:
        """Whether the lane is closed."""
        return self._closed

    @property
    def load(self) -> int:
        """Changes waiting or being applied."""
        return self._waiting + self._running

    @property
    def busy(self) -> bool:
        """Whether a batch is running."""
        return self._running > 0

    def put(self, *jobs: LaneJob) -> bool:
        """Add jobs, waiting for room; False if the lane is closed and refuses some of them."""
        with self._changed:
            while self._waiting >= self._capacity and not self._closed:
                self.waited_for = True
                self._changed.wait()
            self.waited_for = False
            taken = [job for job in jobs if job.ticket.number < self._last] if self._closed else jobs
            self._jobs += taken
            self._refused += [job for job in jobs if job.ticket.number >= self._last] if self._closed else ()
            self._waiting += sum([len(job.changes) or 1 for job in taken])  # `count`, without a call for each
            self._changed.notify_all()
            return len(taken) == len(jobs)

    def take(self, limit: int, *, whole_jobs: bool) -> list[LaneJob]:
        """Wait for work and take up to `limit` changes; empty when the lane is closed and has no work left.

        A job is never divided: if a source transaction is one job, it stays together. With `whole_jobs`, jobs are not
        combined either; a stream never is.
        """
        with self._changed:
            while not self._jobs and (not self._closed or self._more):
                self._changed.wait()
            if not self._gives():
                return []
            jobs = self._jobs
            taken = [jobs.popleft()]
            count = taken[0].count
            if not whole_jobs and taken[0].stream is None:
                for job in jobs:
                    more = count + (len(job.changes) or 1)
                    if more > limit or job.stream is not None or (self._closed and job.ticket.number >= self._last):
                        break
                    count = more
                    taken.append(job)
                for _ in range(len(taken) - 1):
                    jobs.popleft()
            self._waiting -= count
            self._running = count
            self._changed.notify_all()  # there is room
            return taken

    def _gives(self) -> bool:
        return bool(self._jobs) and (not self._closed or self._jobs[0].ticket.number < self._last)

    def finished(self) -> None:
        """The batch taken last is committed."""
        with self._changed:
            self._running = 0
            self._changed.notify_all()

    def wait_idle(self, timeout: float) -> bool:
        """Wait until nothing waits or runs; False after the timeout, or when closed with work left."""
        with self._changed:
            return self._changed.wait_for(lambda: self.load == 0 or self._closed, timeout) and self.load == 0

    def close(self, before: int = 0) -> None:
        """Drop waiting jobs, except for transactions of the source before number `before`, and wake all threads.

        The dispatcher may still put jobs of those transactions, until it calls `end`.
        """
        with self._changed:
            self._more = before > 0 and (self._more or not self._closed)
            self._last = min(before, self._last) if self._closed else before
            self._closed = True
            self._changed.notify_all()

    @property
    def left(self) -> list[LaneJob]:
        """When closed: jobs put and not taken, in order."""
        with self._changed:
            return [*self._jobs, *self._refused]

    def end(self) -> None:
        """Nothing more is put."""
        with self._changed:
            self._more = False
            self._changed.notify_all()


class SharedLock:
    """Which lanes may have an open target transaction: normally all, after a deadlock one alone.

    Lanes hold disjoint keys, but InnoDB locks more than keys. A REPLACE on a table with a second unique key locks gaps
    beside the rows, so two lanes can deadlock again and again on unrelated rows. A transaction that was rolled back
    that way is retried alone, when the others have finished. Then no lane of ours blocks it. A thread that wants the
    lock alone precedes newcomers.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._alone = False
        self.waiting_alone = 0  # threads waiting to hold it alone
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
