"""Changes placed on the worker lanes and not handed over yet: how batches form.

A target transaction costs two round trips and a commit, whatever its size, and each round trip wakes a thread on both
sides. So a change should wait if others follow it, and should not wait if none do. The source's next step is unknown,
but two things are visible: whether the reader has more, and whether lanes are busy.

- One lane is filled after another, up to a batch. So the changes of a small transaction stay together, and a backlog is
  sent in full batches. (Only changes that share a key with earlier ones must follow those.)
- The next lane to fill is an idle one: first a lane that holds changes back, else the one with the lowest number. If
  all lanes are busy, it is the next in turn. So only as many lanes are busy as the target needs, and changes of one
  row, or of one transaction, meet in one lane more often. That makes fewer jobs, and one statement covers more changes.
  A distant target keeps lanes waiting, so more of them are filled.
- The longer the source does not rest, the larger a batch is: an eighth of what has arrived since, within limits. The
  last lane finishes that much later than with small batches; in return, round trips, commits and statements become few.
  Rests undo this.
- If the reader has no more and few lanes are busy, partial batches are sent at once. If many are busy, partial batches
  wait until a lane ends its batch, and later arrivals join them. So a single transaction is sent as it comes, and
  batches grow with the rate, before there is any backlog.

Held-back changes count against the lanes' memory, which comes back only after a hand-over. So they may take only a part
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dm.changes.native_changes import Room
from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lane import LaneJob

_PARTS: Final = 8


class Placement:
    """The unfinished jobs, one list for each worker lane; belongs to the dispatcher.

    A batch has at least `batch` changes, and in a backlog up to `largest` of them or `share` bytes of memory.
    Everything held back takes at most `most` bytes.
    """

    def __init__(
        self, lanes: int, batch: int, *, largest: int, share: int, most: int, idle: Callable[[int], bool]
    ) -> None:
        self._jobs: list[list[LaneJob]] = [[] for _ in range(lanes)]
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

    def add(self, lane: int, changes: list[RowChange], cost: int, ticket: Ticket, end: Position) -> bool:
        """Add changes, with their memory, to the lane's job of their transaction; whether a lane is `ready`."""
        jobs = self._jobs[lane]
        if jobs and jobs[-1].ticket is ticket:
            job = jobs[-1]
            job.changes += changes
            job.cost += cost
        else:
            jobs.append(LaneJob(changes, ticket, end, cost))
            ticket.divided = ticket.divided or self._left[lane] is ticket
        self._counts[lane] = count = self._counts[lane] + len(changes)
        self._costs[lane] = lane_cost = self._costs[lane] + cost
        self.held += len(changes)
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

        They shrink step by step: a reader as fast as the dispatcher rests for a moment now and then.
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

    def take(self, lane: int) -> list[LaneJob]:
        """Take the lane's jobs; if it was being filled, another lane is filled from now on."""
        self.cost -= self._costs[lane]
        self.held -= self._counts[lane]
        self._taken += self._counts[lane]
        self._full = self._grown()
        jobs, self._jobs[lane] = self._jobs[lane], []
        self._left[lane] = jobs[-1].ticket
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
