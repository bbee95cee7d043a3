"""What was placed on the worker lanes and not handed over to them yet: how batches come to be.

A target transaction costs two round trips and a commit, whatever it holds, and each of them wakes a thread here and one
there. So a change that is followed by others shall wait for them, and one that is not shall wait for nothing. Nobody
can know what the source does next, but two things can be seen: whether the reader has more, and whether lanes are at
work.

- One lane is filled after the other, up to a batch: the changes of a small transaction stay together, and a backlog
  leaves in full batches. (Only changes that share a key with earlier ones go where those went.)
- The next one to fill is one that has nothing to do: one that something is held back for, which would wait for company
  otherwise, else the first; and where all have to do, the one behind. So there are no more lanes at work than
  it takes to keep the target busy, and changes of one row, or of one transaction, meet in one of them more often: fewer
  jobs, and more that one statement says. A target far away keeps lanes waiting, so more of them are filled.
- The longer the source does not rest, the larger is a batch: an eighth of what has come since, within limits. That much
  later than with small ones the last lane is done, and round trips, commits and statements become few. Rests undo it.
- When the reader has nothing more, what there is leaves at once, as long as few lanes are at work. When they are, it
  waits for one of them to end: what arrives meanwhile goes with it. So a single transaction goes out as it comes, and
  batches grow by themselves with the rate, before there is any backlog.

What waits here counts against the memory of the lanes. It comes back only if it is handed over, so it is a part of it
that leaves the lanes enough to work with.
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
    """The jobs in the making, one list for each worker lane; belongs to the dispatcher.

    A batch has `batch` changes at least, and in a backlog up to `largest` of them or `share` bytes of memory. All that
    is held back takes `most` bytes at most.
    """

    def __init__(
        self, lanes: int, batch: int, *, largest: int, share: int, most: int, idle: Callable[[int], bool]
    ) -> None:
        self._jobs: list[list[LaneJob]] = [[] for _ in range(lanes)]
        self._left: list[Ticket | None] = [None] * lanes  # whose changes each lane was handed last
        self._counts = [0] * lanes
        self._costs = [0] * lanes
        self._batch = self._full = batch
        self._taken = 0  # since the source rested, and half of what was before
        self._largest = largest
        self._share = share
        self._most = most
        self._idle = idle
        self.held = 0
        self.cost = 0
        self.filling = 0
        """The lane that takes what may go to any."""

    def room(self, cost: int) -> Room:
        """How much the lanes take of changes that need so much memory each, until one is `ready`."""
        most = max(1, -(-(self._most - self.cost) // max(cost, 1)))
        return Room(self._counts, self._costs, cost, self._batch, self._full, self._share, most)

    def add(self, lane: int, changes: list[RowChange], cost: int, ticket: Ticket, end: Position) -> bool:
        """Put changes, of so much memory together, into the lane's job of their transaction; whether one is `ready`."""
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
        """The lanes to hand over to: those with a full batch, that of most memory when all together take too much."""
        if self.cost >= self._most:
            return [max(range(len(self._costs)), key=self._costs.__getitem__)]
        return [
            lane
            for lane, count in enumerate(self._counts)
            if count >= self._batch and (count >= self._full or self._costs[lane] >= self._share)
        ]

    def rested(self) -> None:
        """The source has nothing more for now, and nothing is held back: the next batches are smaller.

        But not small at once: a reader that is about as fast as the dispatcher rests for a moment now and then.
        """
        self._taken //= 2
        self._full = self._grown()

    def _grown(self) -> int:
        return min(max(self._batch, self._taken // _PARTS), self._largest)

    @property
    def waiting(self) -> list[int]:
        """The lanes that something is held back for."""
        return [lane for lane, count in enumerate(self._counts) if count]

    def cost_of(self, lane: int) -> int:
        """What is held back for the lane takes so much memory."""
        return self._costs[lane]

    def count_of(self, lane: int) -> int:
        """So many changes are held back for the lane."""
        return self._counts[lane]

    def take(self, lane: int) -> list[LaneJob]:
        """The lane's jobs, no longer held here; another lane is filled from now on if it was this one's turn."""
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
