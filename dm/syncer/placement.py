"""What was placed on the worker lanes and not handed over to them yet: how batches come to be.

A target transaction costs two round trips and a commit, whatever it holds, and each of them wakes a thread here and one
there. So a change that is followed by others shall wait for them, and one that is not shall wait for nothing. Nobody
can know what the source does next, but two things can be seen: whether the reader has more, and whether lanes are at
work.

- One lane is filled after the other, up to a batch: the changes of a small transaction stay together, and a backlog
  leaves in full batches. (Only changes that share a key with earlier ones go where those went.)
- When the reader has nothing more, what there is leaves at once, as long as few lanes are at work. When they are, it
  waits for one of them to end: what arrives meanwhile goes with it. So a single transaction goes out as it comes, and
  batches grow by themselves with the rate, before there is any backlog.

What waits here is not counted by the quota, so it is little.
"""

from __future__ import annotations

from typing import Final

from dm.changes.row_change import RowChange
from dm.position import Position
from dm.syncer.completion import Ticket
from dm.syncer.lane import LaneJob

MOST_COST: Final = 2 << 20  # memory of what is held back


class Placement:
    """The jobs in the making, one list for each worker lane; belongs to the dispatcher."""

    def __init__(self, lanes: int, batch: int) -> None:
        self._jobs: list[list[LaneJob]] = [[] for _ in range(lanes)]
        self._counts = [0] * lanes
        self._batch = batch
        self._most = batch * lanes
        self.held = 0
        self.cost = 0
        self.filling = 0
        """The lane that takes what may go to any."""

    def add(self, lane: int, change: RowChange, cost: int, ticket: Ticket, end: Position) -> bool:
        """Put one change into the lane's job of its transaction; whether something should be handed over now."""
        return self.add_all(lane, [change], cost, ticket, end)

    def room(self, lane: int) -> int:
        """How many more changes make a batch of the lane's; one at least."""
        return max(1, self._batch - self._counts[lane])

    def add_all(self, lane: int, changes: list[RowChange], cost: int, ticket: Ticket, end: Position) -> bool:
        """Put changes, of so much memory together, into the lane's job of their transaction; as `add`."""
        jobs = self._jobs[lane]
        if jobs and jobs[-1].ticket is ticket:
            job = jobs[-1]
            job.changes += changes
            job.cost += cost
        else:
            jobs.append(LaneJob(changes, ticket, end, cost))
        self._counts[lane] = count = self._counts[lane] + len(changes)
        self.held += len(changes)
        self.cost += cost
        return count >= self._batch or self.held >= self._most or self.cost >= MOST_COST

    @property
    def ready(self) -> list[int]:
        """The lanes to hand over to: those with a full batch, all of them when together they hold too much."""
        if self.held >= self._most or self.cost >= MOST_COST:
            return self.waiting
        return [lane for lane, count in enumerate(self._counts) if count >= self._batch]

    @property
    def waiting(self) -> list[int]:
        """The lanes that something is held back for."""
        return [lane for lane, count in enumerate(self._counts) if count]

    def cost_of(self, lane: int) -> int:
        """What is held back for the lane takes so much memory."""
        return sum([job.cost for job in self._jobs[lane]])

    def take(self, lane: int) -> list[LaneJob]:
        """The lane's jobs, no longer held here; the next lane is filled from now on if it was this one's turn."""
        self.cost -= self.cost_of(lane)
        self.held -= self._counts[lane]
        jobs, self._jobs[lane], self._counts[lane] = self._jobs[lane], [], 0
        if lane == self.filling:
            self.filling = (lane + 1) % len(self._jobs)
        return jobs
