"""A lane: one target session with its bounded queue, applied in order by one thread; and how batches form.

The number of changes bounds each queue, and the memory quota bounds all queues together. A full queue blocks the
dispatcher. So a slow target holds the reader back, and memory stays within the configuration. A batch is whatever waits
when the session is free, up to a limit: a single change is sent at once, a backlog in full batches, without a timer.
(Before that, `Placement` groups changes.)

**Batches** form of changes that are placed on the worker lanes and not handed over yet. A target transaction costs two
round trips and a commit, whatever its size, and each round trip wakes a thread on both sides. So a change should wait
if others follow it, and should not wait if none do. The source's next step is unknown, but two things are visible:
whether the reader has more, and whether lanes are busy.

- One lane is filled after another, up to a batch. So the changes of a small transaction stay together, and a backlog is
  sent in full batches. (Only changes that share a key with earlier ones must follow those.)
- The next lane to fill is an idle one: first a lane that holds changes back, else the one with the lowest number. If
  all lanes are busy, it is the next in turn. So only as many lanes are busy as the target needs, and changes of one
  row, or of one transaction, meet in one lane more often. That makes fewer jobs, and one statement covers more changes.
  A distant target keeps lanes waiting, so more of them are filled.
- The longer the source does not rest, the larger a batch is: an eighth of what has arrived since, within limits. The
  last lane finishes that much later than with small batches; in return, round trips, commits and statements become few.
  Rests undo this, unless lanes are busy: a reader as fast as the lanes rests for a moment now and then.
- If the reader has no more and few lanes are busy, partial batches are sent at once. If many are busy, partial batches
  wait until a lane ends its batch, and later arrivals join them. So a single transaction is sent as it comes, and
  batches grow with the rate, before there is any backlog.

Held-back changes count against the lanes' memory, which comes back only after a hand-over. So they may take only a part
of it.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from dm.changes.native_changes import Room, RunPart
from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.apply.completion import RunShare, RunTickets, Ticket
from dm.syncer.apply.ordered_lane import ChangeStream


@dataclass(slots=True)
class LaneJob:
    """Changes of one transaction for one lane."""

    changes: list[RowChange]
    ticket: Ticket
    cost: int = 0  # memory, returned when they are committed
    stream: ChangeStream | None = None  # instead of changes, if those are too many to hold

    @property
    def count(self) -> int:
        """The number of changes it counts as."""
        return len(self.changes) or 1

    @property
    def end(self) -> Position:
        """The end of its transaction."""
        return self.ticket.end

    @property
    def last(self) -> Ticket:
        """The ticket of its last change."""
        return self.ticket

    def may_be_committed(self) -> None:
        """Whether it is committed is unknown."""
        self.ticket.begun = True


@dataclass(slots=True)
class RunJob:
    """Changes of several transactions of a run for one lane; there is one at least."""

    changes: list[RowChange]
    ticket: RunShare
    cost: int
    stream: None = None

    @property
    def count(self) -> int:
        """The number of changes."""
        return len(self.changes)

    @property
    def end(self) -> Position:
        """The end of its last transaction."""
        return self.ticket.end

    @property
    def last(self) -> Ticket:
        """The ticket of its last change."""
        return self.ticket.last

    def may_be_committed(self) -> None:
        """Whether it is committed is unknown."""
        self.ticket.may_be_committed()

    def apart(self) -> Iterator[LaneJob]:
        """A job for each transaction, in order."""
        at, each = 0, self.cost // len(self.changes)  # those of a run take as much each
        for ticket, count in self.ticket.apart():
            yield LaneJob(self.changes[at : at + count], ticket, each * count)
            at += count


Job = LaneJob | RunJob


def apart(jobs: Iterable[Job]) -> list[LaneJob]:
    """Jobs of one transaction each: for where one of them is to blame, or left undone."""
    return [each for job in jobs for each in ((job,) if isinstance(job, LaneJob) else job.apart())]


changes_of: Final[Callable[[Job], list[RowChange]]] = attrgetter("changes")


def counts_of(jobs: Iterable[Job]) -> list[int]:
    """How many changes each job counts as, without a step of Python for each."""
    counts = list(map(len, map(changes_of, jobs)))
    return counts if all(counts) else [count or 1 for count in counts]


class ChangeQueue:
    """The pending work of one lane."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._jobs: deque[Job] = deque()
        self._refused: list[LaneJob] = []  # put after it was closed
        self._waiting = 0  # changes in the queue
        self._running = 0  # changes in the running batch
        self._changed = threading.Condition()
        self._closed = False
        self._last = 0  # when closed: transactions of the source before this number are still applied
        self._more = False  # when closed: the dispatcher may still hold some of them
        self.waited_for = False  # a thread waits for room
        self.unattended = False  # nobody takes until `ApplyLane.give` has somebody do so

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

    def put(self, *jobs: Job) -> bool:
        """Add jobs, waiting for room; False if the lane is closed and refuses some of them."""
        with self._changed:
            while self._waiting >= self._capacity and not self._closed:
                self.waited_for = True
                self._changed.wait()
            self.waited_for = False
            taken: Sequence[Job] = jobs
            refused: list[LaneJob] = []
            if self._closed:
                single = apart(jobs)
                taken = [job for job in single if job.ticket.number < self._last]
                refused = [job for job in single if job.ticket.number >= self._last]
            self._jobs += taken
            self._refused += refused
            self._waiting += sum(counts_of(taken))
            self._changed.notify_all()
            return not refused

    def take(self, limit: int, *, whole_jobs: bool) -> list[Job]:
        """Wait for work and take up to `limit` changes; empty when the lane is closed and has no work left.

        A job is never divided: if a source transaction is in one job, it stays together. With `whole_jobs`, jobs are
        not combined either; a stream never is.
        """
        with self._changed:
            while not self._jobs and (not self._closed or self._more):
                self._changed.wait()
            if not self._gives():
                return []
            taken, count = self._first(limit, 1 if whole_jobs else len(self._jobs))
            self._waiting -= count
            self._running = count
            self._changed.notify_all()  # there is room
            return taken

    def _first(self, limit: int, most: int) -> tuple[list[Job], int]:
        """Take the first jobs, `most` of them, up to so many changes; at least one."""
        jobs = self._jobs
        if most == len(jobs) and self._waiting <= limit and not self._closed and not any(map(_STREAM, jobs)):
            taken, self._jobs = list(jobs), deque()  # nearly always: a batch was handed over as such
            return taken, self._waiting
        taken = [jobs.popleft()]
        count = taken[0].count
        while jobs and len(taken) < most and taken[0].stream is None:
            job = jobs[0]
            more = count + job.count
            if more > limit or job.stream is not None or (self._closed and job.last.number >= self._last):
                break
            count = more
            taken.append(jobs.popleft())
        return taken, count

    def rests(self, seconds: float) -> bool:
        """Wait for work, at most this long; True if none has come, and the lane is not closed."""
        with self._changed:
            return not self._changed.wait_for(lambda: bool(self._jobs or self._closed), seconds)

    def leave(self) -> bool:
        """Take no more from now on; False if there is work, or the lane is closed."""
        with self._changed:
            self.unattended = not (self._jobs or self._closed)
            return self.unattended

    def _gives(self) -> bool:
        return bool(self._jobs) and (not self._closed or self._jobs[0].last.number < self._last)

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
            self._jobs = deque(apart(self._jobs))
            self._changed.notify_all()

    @property
    def left(self) -> list[LaneJob]:
        """When closed: jobs put and not taken, in order."""
        with self._changed:
            return [*apart(self._jobs), *self._refused]

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


_STREAM: Final[Callable[[Job], object]] = attrgetter("stream")
_PARTS: Final = 8


class Placement:
    """The unfinished jobs, one list for each worker lane; belongs to the dispatcher.

    A batch has at least `batch` changes, and in a backlog up to `largest` of them or `share` bytes of memory.
    Everything held back takes at most `most` bytes.
    """

    def __init__(
        self, lanes: int, batch: int, *, largest: int, share: int, most: int, idle: Callable[[int], bool]
    ) -> None:
        self._jobs: list[list[Job]] = [[] for _ in range(lanes)]
        self._left: list[Ticket | None] = [None] * lanes  # the transaction of the last change handed to each lane
        self._counts = [0] * lanes
        self._costs = [0] * lanes
        self._batch = self._full = batch
        self._taken = 0  # changes since the source rested, plus half of those before
        self._largest = largest
        self._share = share
        self._most = most
        self._idle = idle
        self.held = 0
        self.cost = 0
        self.filling = 0
        """The lane that takes changes which may go to any lane."""

    def room(self, cost: int) -> Room:
        """How many changes of this memory the lanes take, until one is `ready`."""
        most = max(1, -(-(self._most - self.cost) // max(cost, 1)))
        return Room(self._counts, self._costs, cost, self._batch, self._full, self._share, most)

    def add(self, lane: int, changes: list[RowChange], cost: int, ticket: Ticket) -> bool:
        """Add changes, with their memory, to the lane's job of their transaction; whether a lane is `ready`."""
        jobs = self._jobs[lane]
        last = jobs[-1] if jobs else None
        if isinstance(last, LaneJob) and last.ticket is ticket:
            last.changes += changes
            last.cost += cost
        else:
            jobs.append(LaneJob(changes, ticket, cost))
            ticket.divided = ticket.divided or self._had(lane, last, ticket)
        return self._added(lane, len(changes), cost)

    def add_part(self, part: RunPart, tickets: RunTickets, cost: int) -> bool:
        """Add changes of a run, which take so much memory each; whether a lane is `ready`."""
        lane, changes, numbers = part
        of = array("I", numbers)
        jobs, memory = self._jobs[lane], cost * len(changes)
        last = jobs[-1] if jobs else None
        if isinstance(last, RunJob) and last.ticket.tickets is tickets:
            last.changes += changes
            last.ticket.of += of
            last.cost += memory
        else:
            share = RunShare(tickets, of)
            jobs.append(RunJob(changes, share, memory))
            if self._had(lane, last, share.first):
                share.first.divided = True
        return self._added(lane, len(changes), memory)

    def _had(self, lane: int, last: Job | None, ticket: Ticket) -> bool:
        """Whether other changes of the transaction are in another job of the lane, or were handed to it before."""
        return self._left[lane] is ticket or (last is not None and last.last is ticket)

    def _added(self, lane: int, changes: int, cost: int) -> bool:
        self._counts[lane] = count = self._counts[lane] + changes
        self._costs[lane] = lane_cost = self._costs[lane] + cost
        self.held += changes
        self.cost += cost
        return (count >= self._batch and (count >= self._full or lane_cost >= self._share)) or self.cost >= self._most

    @property
    def ready(self) -> list[int]:
        """The lanes to hand over to: those with a full batch; if all together take too much, the largest."""
        if self.cost >= self._most:
            return [max(range(len(self._costs)), key=self._costs.__getitem__)]
        return [
            lane
            for lane, count in enumerate(self._counts)
            if count >= self._batch and (count >= self._full or self._costs[lane] >= self._share)
        ]

    def rested(self) -> None:
        """The source has no more for now, and nothing is held back: the next batches are smaller.

        They shrink step by step.
        """
        self._taken //= 2
        self._full = self._grown()

    def _grown(self) -> int:
        return min(max(self._batch, self._taken // _PARTS), self._largest)

    @property
    def waiting(self) -> list[int]:
        """The lanes with held-back changes."""
        return [lane for lane, count in enumerate(self._counts) if count]

    def cost_of(self, lane: int) -> int:
        """The memory of the lane's held-back changes."""
        return self._costs[lane]

    def count_of(self, lane: int) -> int:
        """The number of the lane's held-back changes."""
        return self._counts[lane]

    def take(self, lane: int) -> list[Job]:
        """Take the lane's jobs; if it was being filled, another lane is filled from now on."""
        self.cost -= self._costs[lane]
        self.held -= self._counts[lane]
        self._taken += self._counts[lane]
        self._full = self._grown()
        jobs, self._jobs[lane] = self._jobs[lane], []
        self._left[lane] = jobs[-1].last
        self._counts[lane] = self._costs[lane] = 0
        if lane == self.filling:
            self.filling = self._next(lane)
        return jobs

    def _next(self, lane: int) -> int:
        lanes = len(self._jobs)
        turn = [(lane + number) % lanes for number in range(1, lanes)]
        idle = [each for each in turn if self._idle(each)]
        held = next((each for each in idle if self._counts[each]), None)
        if held is not None:
            return held
        return min(idle) if idle else (lane + 1) % lanes
