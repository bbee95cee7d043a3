"""All lanes of a run: where a change goes, and how to wait until everything given is committed.

Order (`conflict_detector.py`): changes that share a key go to the same lane. If that is impossible, because two lanes
hold their keys, everything is drained first. Changes of tables without a usable key go to the one ordered lane.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dm.changes.keys import keys_of
from dm.changes.row_change import RowChange
from dm.errors import DMError
from dm.progress.takeover import TransactionKey, UndoneKeys, digests, transaction_key
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.reader import Rest
from dm.syncer.apply.apply_lane import ApplyLane
from dm.syncer.apply.completion import RunTickets, Ticket
from dm.syncer.apply.conflict_detector import CONFLICT, ConflictDetector, KeyMemory
from dm.syncer.apply.lane import Job, LaneJob, Placement, apart
from dm.syncer.apply.ordered_lane import ChangeStream
from dm.syncer.apply.table_counters import TableCounters

# While one lane in this many is busy, only full batches are handed over.
_LANES_PER_SMALL_BATCH = 8
# Shares of the lanes' memory: the limits of a batch, and of all held-back changes.
_BATCH_SHARE = 16
_HELD_SHARE = 4
_LEAST_HELD = 2 << 20
_LAST_BATCH_SECONDS = 0.5
# How long the lanes may take for transactions before a failed one.
_BEFORE_FAILURE_SECONDS = 5.0


class Stopped(Exception):
    """Raised in the run when a lane was closed: the run is ending."""


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """Limits for collected changes."""

    batch: int  # changes in a batch
    largest: int  # changes in a batch during a backlog, at most
    key_bytes: int  # memory of the conflict detector's keys


class Lanes:
    """Places changes on worker lanes and the ordered lane; sends held-back changes when the source rests."""

    def __init__(
        self,
        workers: Sequence[ApplyLane],
        ordered: ApplyLane,
        rest: Rest,
        *,
        sizes: BatchSizes,
        memory: MemoryQuota,
        reads_all: bool = False,
    ) -> None:
        self.reads_all = reads_all
        """Whether a batch has all values of its rows read before it is applied."""
        self._workers = list(workers)
        self._ordered = ordered
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
        self.memory = memory  # of the changes in the lanes; held-back ones count as `unfinished`
        self._keys = KeyMemory(sizes.key_bytes)
        self.conflicts = 0
        self.draining = False  # the dispatcher waits for the lanes' work
        self._ends_before = False

    def start(self) -> None:
        """Start all lanes."""
        for lane in (*self._workers, self._ordered):
            lane.start()

    def place(self, change: RowChange, cost: int, ticket: Ticket) -> None:
        """Give one change of a keyed table to the lane that its keys require; `cost` is its memory."""
        self._reserve(cost)
        self._place(change, cost, ticket)

    def _place(self, change: RowChange, cost: int, ticket: Ticket) -> None:
        keys = keys_of(change)
        worker = self._detector.place(keys)
        if worker == CONFLICT:
            self.conflicts += 1
            self._drain_workers(ticket)
            worker = self._detector.place(keys)
        if self._placement.add(worker, [change], cost, ticket):
            for lane in self._placement.ready:
                self._hand_over(lane)
            self._forget_keys(ticket)

    def place_all(self, changes: list[RowChange], cost: int, ticket: Ticket) -> None:
        """Give changes of the compiled loop to the lanes that their keys require; `cost` is the memory of each.

        After each hand-over the lanes are computed again: all keys may have been cleared.
        """
        at, count = 0, len(changes)
        self._reserve(cost * count)
        placement = self._placement
        while at < count:
            parts, following = self._detector.place_all(changes, at, placement.room(cost))
            if following == at:
                self._place(changes[at], cost, ticket)
                at += 1
                continue
            at = following
            full = False
            for lane, part in parts:
                full |= placement.add(lane, part, cost * len(part), ticket)
            if full:
                for lane in placement.ready:
                    self._hand_over(lane)
                self._forget_keys(ticket)

    def place_run(self, changes: list[RowChange], cost: int, tickets: RunTickets, ends: list[int]) -> None:
        """The same for the changes of a run; `ends`: for each transaction, how many changes end with it."""
        at, count = 0, len(changes)
        self._reserve(cost * count)
        placement = self._placement
        while at < count:
            parts, following = self._detector.place_run(changes, at, placement.room(cost), ends)
            if following == at:
                self._place(changes[at], cost, tickets.ticket(bisect_right(ends, at)))
                at += 1
                continue
            at = following
            full = False
            for part in parts:
                full |= placement.add_part(part, tickets, cost)
            if full:
                for lane in placement.ready:
                    self._hand_over(lane)
                if self._keys.full:
                    self._forget_keys(tickets.ticket(bisect_right(ends, at - 1)))

    def source_rests(self) -> None:
        """Hand over held-back changes, unless enough lanes are busy: see `Rest`."""
        waiting = self._placement.waiting
        if waiting:
            self._rest.starve()
        busy = sum([lane.queue.load > 0 for lane in self._workers]) >= self._few
        if not (busy and waiting):
            self._rest.feed()
        if busy:
            return
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
        if not self._workers[lane].give(*jobs):
            raise Stopped

    def _reserve(self, cost: int) -> None:
        # Memory in the lanes comes back as they commit; memory of held-back changes, only after a hand-over.
        if not self.memory.block_acquire(cost, unfinished=True):
            self._hand_over_all()
            self._acquire(cost, unfinished=True)

    def _acquire(self, cost: int, *, unfinished: bool = False) -> None:
        # If the lanes have no work, there is nothing to wait for.
        if not self.memory.block_acquire(cost, unfinished=unfinished):
            if self.memory.closed:
                raise Stopped
            self.memory.force_acquire(cost, unfinished=unfinished)

    def place_ordered(self, changes: list[RowChange], cost: int, ticket: Ticket) -> None:
        """Give all ordered changes of one transaction to the ordered lane, as one target transaction."""
        self._acquire(cost)
        if not self._ordered.queue.put(LaneJob(changes, ticket, cost)):
            raise Stopped

    def stream_ordered(self, stream: ChangeStream, ticket: Ticket) -> None:
        """Have the ordered lane decode and apply one transaction's ordered changes, as one target transaction."""
        if not self._ordered.queue.put(LaneJob([], ticket, stream=stream)):
            raise Stopped

    def _drain_workers(self, under_way: Ticket | None = None) -> None:
        if under_way is not None:
            under_way.divided = True
        self._hand_over_all()
        self._wait_idle(self._workers)
        self._detector.clear()
        self._keys.clear()

    def drain(self, under_way: Ticket | None = None) -> None:
        """Wait until everything is committed (the DDL barrier); `under_way` is the transaction in hand, if any."""
        self._drain_workers(under_way)
        self._wait_idle([self._ordered])

    def _wait_idle(self, lanes: Sequence[ApplyLane]) -> None:
        self.draining = True
        for lane in lanes:
            while not lane.queue.wait_idle(timeout=60):
                if lane.queue.closed:
                    raise Stopped
        self.draining = False

    def drain_within(self, seconds: float) -> None:
        """Wait until everything is committed, at most this long; raises DMError `lane-stalled`."""
        self._hand_over_all()
        for lane in (*self._workers, self._ordered):
            if not lane.queue.wait_idle(timeout=seconds):
                raise DMError("lane-stalled", seconds=seconds)

    def end_before(self, ticket: Ticket) -> None:
        """Apply only what the source committed before this transaction, which failed.

        Lanes run independently, so an earlier transaction may fail after this one. Then the user must hear of the
        earlier one: mending this one would only lead to it.
        """
        self._ends_before = True
        self.memory.close()
        for lane in (*self._workers, self._ordered):
            lane.end_before(ticket)

    def give_up(self) -> None:
        """Begin no batch in any lane, and wake all threads that wait for a lane."""
        self.memory.close()
        for lane in (*self._workers, self._ordered):
            lane.give_up()

    def close(self) -> None:
        """End all lanes, dropping what is not committed."""
        lanes = (*self._workers, self._ordered)
        if self._ends_before:
            for number in self._placement.waiting:
                self._workers[number].give(*self._placement.take(number))
            for lane in lanes:
                lane.queue.end()
            self._wait_ended(_BEFORE_FAILURE_SECONDS)
        self.give_up()
        self._wait_ended(_LAST_BATCH_SECONDS)
        # Cut all off before waiting for any: a lane may wait in the gate for another to finish.
        for lane in lanes:
            lane.cut_off()
        for lane in lanes:
            lane.close()

    def take_undone(self) -> list[LaneJob]:
        """When closed: the workers' jobs that are certainly not committed, of one transaction each."""
        held: list[Job] = [job for number in self._placement.waiting for job in self._placement.take(number)]
        return [*(job for lane in self._workers for job in lane.undone), *apart(held)]

    def _wait_ended(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        for lane in (*self._workers, self._ordered):
            lane.wait_ended(max(0.0, deadline - time.monotonic()))

    @property
    def memory_used(self) -> int:
        """Memory of the changes in the lanes or held back for them, and of the detector's keys."""
        return self.memory.used + self._keys.used

    @property
    def batch_seconds(self) -> float:
        """How long the oldest running batch has taken; 0 if there is none."""
        return max(lane.batch_seconds for lane in (*self._workers, self._ordered))

    @property
    def queued(self) -> int:
        """Row changes given to the lanes, or held back for them, and not committed."""
        return self._placement.held + sum(lane.queue.load for lane in (*self._workers, self._ordered))

    @property
    def tables(self) -> TableCounters:
        """Rows committed in this run, by target table."""
        total = TableCounters()
        for lane in (*self._workers, self._ordered):
            total.merge(lane.tables)
        return total

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of worker lanes with a running batch, and inside its COMMIT.

        While the ordered lane works alone it counts as all lanes, since others may wait for it.
        """
        lanes = [lane for lane in self._workers if lane.queue.busy]
        if self._ordered.queue.busy and not lanes:
            return 1.0, float(self._ordered.committing)
        count = len(self._workers) or 1  # there are none if transactions are kept whole
        return len(lanes) / count, sum(lane.committing for lane in lanes) / count

    @property
    def waited_for(self) -> bool:
        """Whether the dispatcher waits for a lane."""
        full = any(lane.queue.waited_for for lane in (*self._workers, self._ordered))
        return self.draining or full or self.memory.waited_for

    @property
    def rows(self) -> int:
        """Row changes committed in this run."""
        return sum(lane.rows for lane in (*self._workers, self._ordered))

    @property
    def compacted(self) -> int:
        """Committed changes that a later change of the same row replaced (`compact`)."""
        return sum(lane.compacted for lane in (*self._workers, self._ordered))

    @property
    def event_rows(self) -> int:
        """Committed changes that went to the target as row events."""
        return sum(lane.event_rows for lane in (*self._workers, self._ordered))

    @property
    def hash_rows(self) -> int:
        """Committed changes whose rows the target found together, by their hash."""
        return sum(lane.hash_rows for lane in (*self._workers, self._ordered))

    @property
    def batches(self) -> int:
        """Target transactions committed in this run."""
        return sum(lane.batches for lane in (*self._workers, self._ordered))

    @property
    def retries(self) -> int:
        """Target transactions retried after a rollback by the server (deadlocks, lock waits)."""
        return sum(lane.retries for lane in (*self._workers, self._ordered))


def undone_changes(jobs: Iterable[LaneJob]) -> dict[TransactionKey, UndoneKeys]:
    """What the next run must know of jobs that were not committed, by transaction (`dm.progress.takeover`).

    Changes for safe mode are left out: an earlier run may have done them.
    """
    held: dict[int, tuple[Ticket, set[str]]] = {}
    replayed: set[int] = set()
    for job in sorted(jobs, key=lambda job: job.ticket.number):
        ticket = job.ticket
        _, keys = held.setdefault(ticket.number, (ticket, set()))
        for change in job.changes:
            if change.safe:
                replayed.add(ticket.number)
            else:
                keys |= digests(keys_of(change))
    found = {}
    for number, (ticket, keys) in held.items():
        if not ticket.begun and number not in replayed:
            found[transaction_key(ticket.end)] = UndoneKeys(None)
        elif keys and not ticket.divided:
            found[transaction_key(ticket.end)] = UndoneKeys(frozenset(keys))
    return found
