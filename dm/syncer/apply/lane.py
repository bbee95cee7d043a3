"""A lane: one target session with its bounded queue, applied in order by one thread.

The queue is bounded by changes, all queues together by the memory quota; a full queue makes the dispatcher wait, so a
slow target holds the reader back and memory stays where the configuration put it. A batch is whatever is waiting when
the session is free, at most so many changes: a single change leaves at once, a backlog leaves in full batches, and no
timer is involved. (What is waiting here was put together before: see `dm.syncer.apply.placement`.)
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.apply.change_stream import ChangeStream
from dm.syncer.apply.completion import Ticket


@dataclass(slots=True)
class LaneJob:
    """Changes of one transaction for one lane; `end` is the end of that transaction."""

    changes: list[RowChange]
    ticket: Ticket
    end: Position
    cost: int = 0  # of memory, given back when they are committed
    stream: ChangeStream | None = None  # instead of changes, where those are too many to be held

    @property
    def count(self) -> int:
        """How many changes it counts as."""
        return len(self.changes) or 1


class ChangeQueue:
    """What one lane still has to do."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._jobs: deque[LaneJob] = deque()
        self._refused: list[LaneJob] = []  # put when it was closed
        self._waiting = 0  # changes in the queue
        self._running = 0  # changes in the batch under way
        self._changed = threading.Condition()
        self._closed = False
        self._last = 0  # when closed: what was in the source before the transaction of this number is still given out
        self._more = False  # when closed: the dispatcher may still hold some of that
        self.waited_for = False  # somebody wants to put a job and there is no room

    @property
    def closed(self) -> bool:
        """Whether the lane takes nothing more."""
        return self._closed

    @property
    def load(self) -> int:
        """Changes waiting or under way."""
        return self._waiting + self._running

    @property
    def busy(self) -> bool:
        """Whether a batch is under way."""
        return self._running > 0

    def put(self, *jobs: LaneJob) -> bool:
        """Add jobs, waiting for room; False when the lane was closed and does not end with all of these."""
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
        """Wait for work and take up to `limit` changes; empty when the lane is closed and has nothing to end with.

        A job is never divided: what the source committed at once stays together where all of it is one job. With
        `whole_jobs` none is joined with another either; a stream never is.
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
        """Wait until nothing is waiting or under way; False on time-out or when closed with work left."""
        with self._changed:
            return self._changed.wait_for(lambda: self.load == 0 or self._closed, timeout) and self.load == 0

    def close(self, before: int = 0) -> None:
        """Give up what is waiting, but for transactions of the source before number `before`, and wake everybody.

        Of those, the dispatcher may still put what it holds, until it says `end`.
        """
        with self._changed:
            self._more = before > 0 and (self._more or not self._closed)
            self._last = min(before, self._last) if self._closed else before
            self._closed = True
            self._changed.notify_all()

    @property
    def left(self) -> list[LaneJob]:
        """When closed: what was put and not taken, in order."""
        with self._changed:
            return [*self._jobs, *self._refused]

    def end(self) -> None:
        """Nothing more is put."""
        with self._changed:
            self._more = False
            self._changed.notify_all()
