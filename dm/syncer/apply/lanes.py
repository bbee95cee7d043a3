"""All lanes of a run: where a change goes, and how to wait until everything given is committed.

Order (design, "Order"): changes that share a key go to the same lane; where that is impossible, because their keys are
held by two lanes, everything is drained first. Changes of tables without a usable key go to the one ordered lane.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from dm.changes.keys import keys_of
from dm.changes.row_change import RowChange
from dm.errors import DMError
from dm.position import Position
from dm.syncer.apply.apply_lane import ApplyLane
from dm.syncer.apply.change_stream import ChangeStream
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.conflict_detector import CONFLICT, ConflictDetector
from dm.syncer.apply.key_memory import KeyMemory
from dm.syncer.apply.lane import LaneJob
from dm.syncer.apply.placement import Placement
from dm.syncer.apply.table_counters import TableCounters
from dm.syncer.stream.memory_quota import MemoryQuota
from dm.syncer.stream.rest import Rest

# While one in so many lanes is at work, nothing is handed over that is no full batch.
_LANES_PER_SMALL_BATCH = 8
# Parts of the memory that all lanes share: what a batch may grow to, and what may be held back for all of them.
_BATCH_SHARE = 16
_HELD_SHARE = 4
_LEAST_HELD = 2 << 20
_LAST_BATCH_SECONDS = 0.5
# How long the lanes may take for what lies before a transaction that failed.
_BEFORE_FAILURE_SECONDS = 5.0


class Stopped(Exception):
    """Raised inside the run when a lane was closed under it: the run is ending."""


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """How much is collected before something is done about it."""

    batch: int  # changes that make a batch
    largest: int  # changes that a batch may grow to in a backlog
    key_bytes: int  # memory of the keys that the conflict detector knows


class Lanes:
    """Places changes on worker lanes and the keyless lane; has what is held back handed over when the source rests."""

    def __init__(
        self,
        workers: Sequence[ApplyLane],
        keyless: ApplyLane,
        rest: Rest,
        *,
        sizes: BatchSizes,
        memory: MemoryQuota,
    ) -> None:
        self._workers = list(workers)
        self._keyless = keyless
        self._placement = placement = Placement(
            len(self._workers),
            sizes.batch,
            largest=sizes.largest,
            share=memory.total // _BATCH_SHARE,
            most=max(_LEAST_HELD, memory.total // _HELD_SHARE),
            idle=lambda number: self._workers[number].queue.load == 0,
        )
        self._detector = ConflictDetector(len(self._workers) or 1, choose=lambda: placement.filling)
        self._few = max(1, len(self._workers) // _LANES_PER_SMALL_BATCH)
        self._rest = rest
        self.memory = memory  # of the changes that are with the lanes; of those held back as `unfinished`
        self._keys = KeyMemory(sizes.key_bytes)
        self.conflicts = 0
        self.draining = False  # the dispatcher waits for what the lanes have
        self._ends_before = False

    def start(self) -> None:
        """Start all lanes."""
        for lane in (*self._workers, self._keyless):
            lane.start()

    def place(self, change: RowChange, cost: int, ticket: Ticket, end: Position) -> None:
        """Give one change of a keyed table to the lane its keys demand; `cost` is the memory it takes."""
        self._reserve(cost)
        self._place(change, cost, ticket, end)

    def _place(self, change: RowChange, cost: int, ticket: Ticket, end: Position) -> None:
        keys = keys_of(change)
        worker = self._detector.place(keys)
        if worker == CONFLICT:
            self.conflicts += 1
            self._drain_workers(ticket)
            worker = self._detector.place(keys)
        if self._placement.add(worker, [change], cost, ticket, end):
            for lane in self._placement.ready:
                self._hand_over(lane)
            self._forget_keys(ticket)

    def place_all(self, changes: list[RowChange], cost: int, ticket: Ticket, end: Position) -> None:
        """Give changes of the compiled loop to the lanes their keys demand; each takes so much memory.

        Behind each hand-over they are asked about anew: it may have been one that forgets all keys.
        """
        at, count = 0, len(changes)
        self._reserve(cost * count)
        placement = self._placement
        while at < count:
            parts, behind = self._detector.place_all(changes, at, placement.room(cost))
            if behind == at:
                self._place(changes[at], cost, ticket, end)
                at += 1
                continue
            at = behind
            full = False
            for lane, part in parts:
                full |= placement.add(lane, part, cost * len(part), ticket, end)
            if full:
                for lane in placement.ready:
                    self._hand_over(lane)
                self._forget_keys(ticket)

    def source_rests(self) -> None:
        """Hand over what is held back, unless enough lanes are at work: see `dm.syncer.stream.rest`."""
        waiting = self._placement.waiting
        if not waiting:
            self._rest.feed()
            self._placement.rested()
            return
        self._rest.starve()
        if sum([lane.queue.load > 0 for lane in self._workers]) >= self._few:
            return
        self._rest.feed()
        self._hand_over_all()
        self._placement.rested()
        self._forget_keys()

    def _forget_keys(self, ticket: Ticket | None = None) -> None:
        if self._keys.full:
            self._drain_workers(ticket)

    def _hand_over_all(self) -> None:
        for lane in self._placement.waiting:
            self._hand_over(lane)

    def _hand_over(self, lane: int) -> None:
        self.memory.finish(self._placement.cost_of(lane))
        count = self._placement.count_of(lane)
        jobs = self._placement.take(lane)
        self._keys.placed(jobs[0].changes[0], count)
        if not self._workers[lane].queue.put(*jobs):
            raise Stopped

    def _reserve(self, cost: int) -> None:
        # What the lanes have comes back as they commit, what is held back only if they get it.
        if not self.memory.block_acquire(cost, unfinished=True):
            self._hand_over_all()
            self._acquire(cost, unfinished=True)

    def _acquire(self, cost: int, *, unfinished: bool = False) -> None:
        # When the lanes have nothing, nobody can be waited for.
        if not self.memory.block_acquire(cost, unfinished=unfinished):
            if self.memory.closed:
                raise Stopped
            self.memory.force_acquire(cost, unfinished=unfinished)

    def place_keyless(self, changes: list[RowChange], cost: int, ticket: Ticket, end: Position) -> None:
        """Give all keyless changes of one transaction to the ordered lane, as one target transaction."""
        self._acquire(cost)
        if not self._keyless.queue.put(LaneJob(changes, ticket, end, cost)):
            raise Stopped

    def stream_keyless(self, stream: ChangeStream, ticket: Ticket, end: Position) -> None:
        """Have the ordered lane decode and apply the keyless changes of one transaction, as one target transaction."""
        if not self._keyless.queue.put(LaneJob([], ticket, end, stream=stream)):
            raise Stopped

    def _drain_workers(self, under_way: Ticket | None = None) -> None:
        if under_way is not None:
            under_way.divided = True
        self._hand_over_all()
        self._wait_idle(self._workers)
        self._detector.clear()
        self._keys.clear()

    def drain(self, under_way: Ticket | None = None) -> None:
        """Wait until everything given is committed (the DDL barrier), in the middle of this transaction."""
        self._drain_workers(under_way)
        self._wait_idle([self._keyless])

    def _wait_idle(self, lanes: Sequence[ApplyLane]) -> None:
        self.draining = True
        for lane in lanes:
            while not lane.queue.wait_idle(timeout=60):
                if lane.queue.closed:
                    raise Stopped
        self.draining = False

    def drain_within(self, seconds: float) -> None:
        """Wait for everything given, but not longer; raises DMError `lane-stalled`."""
        self._hand_over_all()
        for lane in (*self._workers, self._keyless):
            if not lane.queue.wait_idle(timeout=seconds):
                raise DMError("lane-stalled", seconds=seconds)

    def end_before(self, ticket: Ticket) -> None:
        """Begin nothing more but what the source committed before this transaction, which cannot be applied.

        Lanes run apart from each other, so an earlier transaction may fail too, and later. That is the one to tell the
        user: a way out of the other one would lead to this one.
        """
        self._ends_before = True
        self.memory.close()
        for lane in (*self._workers, self._keyless):
            lane.end_before(ticket)

    def give_up(self) -> None:
        """Begin nothing more in any lane, and wake whoever waits for one."""
        self.memory.close()
        for lane in (*self._workers, self._keyless):
            lane.give_up()

    def close(self) -> None:
        """End all lanes, giving up what is not committed."""
        lanes = (*self._workers, self._keyless)
        if self._ends_before:
            for number in self._placement.waiting:
                self._workers[number].queue.put(*self._placement.take(number))
            for lane in lanes:
                lane.queue.end()
            self._wait_ended(_BEFORE_FAILURE_SECONDS)
        self.give_up()
        self._wait_ended(_LAST_BATCH_SECONDS)
        # All of them, before one is waited for: a lane may wait in the gate for another one to finish.
        for lane in lanes:
            lane.cut_off()
        for lane in lanes:
            lane.close()

    def take_undone(self) -> list[LaneJob]:
        """When closed: what was meant for the workers and is surely not committed."""
        held = [job for number in self._placement.waiting for job in self._placement.take(number)]
        return [*(job for lane in self._workers for job in lane.undone), *held]

    def _wait_ended(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for lane in (*self._workers, self._keyless):
            lane.wait_ended(max(0.0, deadline - time.monotonic()))

    @property
    def memory_used(self) -> int:
        """What the changes take that are with the lanes or held back for them, and the keys the detector knows."""
        return self.memory.used + self._keys.used

    @property
    def batch_seconds(self) -> float:
        """How long the oldest batch under way has taken so far; 0 when there is none."""
        return max(lane.batch_seconds for lane in (*self._workers, self._keyless))

    @property
    def queued(self) -> int:
        """Row changes that were given to lanes and are not committed."""
        return self._placement.held + sum(lane.queue.load for lane in (*self._workers, self._keyless))

    @property
    def tables(self) -> TableCounters:
        """What was committed in this run, by target table."""
        total = TableCounters()
        for lane in (*self._workers, self._keyless):
            total.merge(lane.tables)
        return total

    @property
    def shares(self) -> tuple[float, float]:
        """Which part of the worker lanes has a batch under way, and which is inside its COMMIT; the busiest at least.

        The ordered lane counts as all of them while it is the only one that works, since others may wait for it.
        """
        lanes = [lane for lane in self._workers if lane.queue.busy]
        if self._keyless.queue.busy and not lanes:
            return 1.0, float(self._keyless.committing)
        count = len(self._workers) or 1  # none where transactions are kept whole
        return len(lanes) / count, sum(lane.committing for lane in lanes) / count

    @property
    def waited_for(self) -> bool:
        """Whether the dispatcher waits for a lane."""
        full = any(lane.queue.waited_for for lane in (*self._workers, self._keyless))
        return self.draining or full or self.memory.waited_for

    @property
    def rows(self) -> int:
        """Row changes committed in this run."""
        return sum(lane.rows for lane in (*self._workers, self._keyless))

    @property
    def compacted(self) -> int:
        """Of these, changes that a later one of the same row stood for (`compact`)."""
        return sum(lane.compacted for lane in (*self._workers, self._keyless))

    @property
    def batches(self) -> int:
        """Target transactions committed in this run."""
        return sum(lane.batches for lane in (*self._workers, self._keyless))

    @property
    def retries(self) -> int:
        """Target transactions that the server rolled back (deadlocks, lock waits) and that were tried again."""
        return sum(lane.retries for lane in (*self._workers, self._keyless))
