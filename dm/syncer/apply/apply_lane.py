"""Applies a lane's batches, each in one target transaction with the lane's row (I1 of `dm.progress.protocol`)."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, takewhile
from operator import attrgetter
from typing import Final, Protocol

from dm import faults
from dm.changes.row_change import RowChange
from dm.changes.statement import key_of, operation_of
from dm.clock import Clock
from dm.downstream.apply import apply_batch, apply_parts
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.governor import Governor
from dm.position import Position
from dm.progress.lane_rows import LaneClaim
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.syncer.apply.completion import CompletionTracker, Given, Ticket
from dm.syncer.apply.conflict_detector import KeyWriters
from dm.syncer.apply.lane import ChangeQueue, Job, LaneJob, SharedLock, apart, changes_of, counts_of
from dm.syncer.apply.ordered_lane import ChangeStream
from dm.syncer.apply.resolution import Batch, BatchEnds, Resolution
from dm.syncer.apply.table_counters import TableCounters
from dm.syncer.apply.target_writes import Ended
from dm.syncer.operators import EventPlace
from dm.unit import JSON

# A deadlock or a lock wait ended the transaction on the server. It is retried, from the second time on alone. Then only
# a session that is not ours can block it: another subtask's on the same table, or a stranger's. The lane waits a while,
# then raises an error that says so, and auto-resume retries.
RETRY_FOR_SECONDS = 120.0
RETRY_SECONDS = 0.02
LONGEST_RETRY_SECONDS = 1.0
# Without work for so long, a worker's session is closed and its thread ends; both come back with the next batch. An
# idle task would hold twenty sessions otherwise, and a target has room for some hundred.
REST_SECONDS = 30.0


class SessionAtRest(Protocol):
    """Closes a lane's session while it is not needed, and opens it again."""

    def close(self, connection: TargetConnection) -> bool:
        """Close it; False if it has to stay."""
        ...

    def open(self) -> TargetConnection:
        """A session like the one before, at the same server, which holds the lane; raises DMError, or Stopped."""
        ...


_TICKET: Final[Callable[[Job], Given]] = attrgetter("ticket")
_COST: Final[Callable[[Job], int]] = attrgetter("cost")


@dataclass(frozen=True, slots=True)
class LaneSession:
    """The session of a lane, its row, and the form of a position in that row."""

    connection: TargetConnection
    claim: LaneClaim
    position_of: Callable[[Position], Position]
    at_rest: SessionAtRest | None = None  # the session stays open


@dataclass(frozen=True, slots=True)
class LaneContext:
    """What the lanes of a run share."""

    completions: CompletionTracker
    gate: SharedLock
    memory: MemoryQuota  # of the changes in the lanes
    missing: MissingRows
    writers: KeyWriters | None
    clock: Clock
    pace: Governor | None
    looks: bool  # a row that was written at the target, too, is an error (`conflicts`)
    resolution: Resolution | None  # or one side wins
    failed: Callable[[BaseException, Ticket | None], None]  # called once with the error that ended a lane
    ended: Callable[[], None]  # called after every batch


class ApplyLane:
    """The thread of one lane."""

    def __init__(
        self, session: LaneSession, queue: ChangeQueue, context: LaneContext, *, batch: int, ordered: bool
    ) -> None:
        self.queue = queue
        self.tables = TableCounters()
        self.committing = False
        self.rows = 0
        self.compacted = 0
        self.event_rows = 0
        self.hash_rows = 0
        self.batches = 0
        self.retries = 0
        claim = session.claim
        self._connection = session.connection
        self._claim = claim
        self._position_of = session.position_of
        self._at_rest = session.at_rest
        self._rests = False  # the session is closed
        self._completions = context.completions
        self._batch = batch
        self._ordered = ordered
        self._gate = context.gate
        self._memory = context.memory
        self._missing = context.missing
        self._writers = context.writers
        self._clock = context.clock
        self._pace = context.pace
        self._looks = context.looks
        self._resolution = context.resolution
        self._failed = context.failed
        self._ended = context.ended
        self._chance = random.Random(claim.lane)
        self._began: float | None = None  # when the current batch began
        self._failed_change: RowChange | None = None
        self._blamed: Ticket | None = None  # the transaction that caused a lasting error
        self._taken: list[Job] = []  # of the batch, what is not committed
        self._stop = threading.Event()
        self._thread = self._made_thread()

    @property
    def batch_seconds(self) -> float:
        """How long the current batch has taken; 0 if there is none."""
        began = self._began
        return 0.0 if began is None else self._clock.monotonic() - began

    def start(self) -> None:
        """Start to take batches."""
        self._thread.start()

    def give(self, *jobs: Job) -> bool:
        """Queue jobs, waiting for room; False if the lane is closed and refuses some of them."""
        taken = self.queue.put(*jobs)
        if self.queue.unattended:  # so its thread has ended, or is about to
            self.queue.unattended = False
            self._thread.join()
            self._thread = self._made_thread()
            self._thread.start()
        return taken

    def _made_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name=f"lane-{self._claim.lane}", daemon=True)

    def end_before(self, ticket: Ticket) -> None:
        """Apply only what the source committed before this transaction."""
        self.queue.close(ticket.number)

    def give_up(self) -> None:
        """Begin no batch; a running one may end."""
        self._stop.set()
        self.queue.close()

    def wait_ended(self, seconds: float) -> None:
        """Wait for the running batch, at most this long."""
        if self._thread.ident is not None:
            self._thread.join(timeout=seconds)

    def cut_off(self) -> None:
        """End a running statement, with its session."""
        if self._thread.is_alive():
            self._connection.abort()

    def close(self) -> None:
        """Wait for the end of the thread and of the session."""
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()

    @property
    def undone(self) -> list[LaneJob]:
        """After the thread has ended: the jobs that are certainly not committed, in order."""
        return [*apart(self._taken), *self.queue.left]

    def _run(self) -> None:
        try:
            while jobs := self._next():
                self._taken = jobs
                if self._rests and not self._awake():
                    break
                if self._pace is not None and self._pace.limited:
                    if not self._apply_paced(jobs, self._pace):
                        break
                else:
                    self._apply_timed(jobs)
                self.queue.finished()
                self._ended()
        except Ended:  # the run is: what it was about to do is rolled back
            self.queue.close()
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            self._end(error)
            if not self._stop.is_set():
                self._failed(error, self._blamed)
            self.queue.close()

    def _next(self) -> list[Job]:
        """The next batch; empty when the lane is closed, or at rest."""
        if self._at_rest is not None and not self._rests and self.queue.rests(REST_SECONDS):
            self._rests = self._at_rest.close(self._connection)
            if not self._rests:
                self._at_rest = None
        if self._rests and self.queue.leave():
            return []
        return self.queue.take(self._batch, whole_jobs=self._ordered)

    def _awake(self) -> bool:
        """Open the session again; False where the lane gives up meanwhile, and the batch is not begun."""
        assert self._at_rest is not None
        self._connection, self._rests = self._at_rest.open(), False
        return not self._stop.is_set()

    def _apply_paced(self, jobs: list[Job], pace: Governor) -> bool:
        """Apply as much of the batch at a time as the pace lets go; False where the lane gives up before the end.

        A stream asks for each part of it, inside its transaction.
        """
        if jobs[0].stream is not None:
            self._apply_timed(jobs)
            return True
        left: Sequence[Job] = jobs if pace.lets_whole_batches else apart(jobs)
        while left:
            taken = pace.ask_first([(job.count, job.cost) for job in left], self._stop)
            if not taken:
                return False
            if taken < len(left):
                self._taken = [*left]  # of a run, each transaction counts by itself from here on
            self._apply_timed(left[:taken])
            left = left[taken:]
        return True

    def _apply_timed(self, jobs: Sequence[Job]) -> None:
        self._began = self._clock.monotonic()
        self._apply(jobs)
        self._began = None

    def _paced(self, stream: ChangeStream) -> Iterator[Sequence[RowChange]]:
        """The parts of a stream, each when the pace lets it go; a lane that gives up does not wait."""
        for part in stream.parts():
            if self._pace is not None and self._pace.limited:
                self._pace.ask(len(part), stream.part_cost, self._stop)
            yield part

    def _end(self, error: BaseException) -> None:
        if isinstance(error, DMError) and (not error.retryable or error.name == "transaction-aborted"):
            return
        for job in self._taken:
            job.may_be_committed()
        self._taken = []

    def _apply(self, jobs: Sequence[Job]) -> None:
        try:
            self._commit(jobs)
        except DMError as error:
            # If no change is to blame, it is the first transaction, or one that is committed with it.
            single = apart(jobs)
            culprit = self._culprit(single)
            ticket, begin = culprit.ticket, culprit.ticket.begin
            if not error.retryable:
                self._taken = [*apart(self._taken)]
                before = list(takewhile(lambda job: job is not culprit, single))
                if before:  # a person will decide about this transaction, and L must pass everything before it
                    self._apply(before)
                self._blamed = ticket
                error.tables = self._tables(culprit)
                if begin is not None:
                    error.place = EventPlace(begin.server_uuid, begin.file, begin.offset).to_json()
                    error.position = error.position or str(begin)
            raise
        self._completions.committed(zip(map(_TICKET, jobs), counts_of(jobs), strict=True))
        self._memory.release(sum(map(_COST, jobs)))
        self._taken = self._taken[len(jobs) :]

    def _culprit(self, jobs: list[LaneJob]) -> LaneJob:
        failed = self._failed_change
        return next((job for job in jobs if any(change is failed for change in job.changes)), jobs[0])

    def _tables(self, culprit: LaneJob) -> frozenset[TableName]:
        """The table of the change that failed; of a stream, all of its tables."""
        if culprit.stream is not None:
            return culprit.stream.tables
        failed = self._failed_change
        found = failed is not None and any(change is failed for change in culprit.changes)
        return frozenset((failed.plan.source,)) if failed is not None and found else frozenset()

    def _note(self, change: RowChange) -> None:
        self._failed_change = change

    def _commit(self, jobs: Sequence[Job]) -> None:
        changes = list(chain.from_iterable(map(changes_of, jobs)))
        stream = jobs[0].stream  # it is a batch of its own
        first = _LaneRow(self._claim, self._connection, self._position_of(jobs[-1].end))

        def last() -> None:
            faults.hit("syncer.before_commit")
            self.committing = True

        counted = TableCounters()  # counts a stream, which is gone afterwards
        give_up = self._clock.monotonic() + RETRY_FOR_SECONDS
        tries = 0
        while True:
            try:
                with self._gate.alone() if tries else self._gate.together():
                    faults.hit("syncer.before_begin")
                    if self._resolution is not None:
                        ends = BatchEnds(first, last, self._note)
                        batch = Batch(
                            apart(jobs), None if stream is None else counted.counting(partial(self._paced, stream))
                        )
                        applied = self._resolution.apply(self._connection, batch, ends)
                    elif stream is None:
                        applied = apply_batch(
                            self._connection, changes, first=first, last=last, failed=self._note, looks=self._looks
                        )
                    else:
                        parts = counted.counting(partial(self._paced, stream))
                        applied = apply_parts(self._connection, parts, first=first, last=last, looks=self._looks)
                    self.committing = False
                    faults.hit("syncer.after_commit")
                break
            except DMError as error:
                self.committing = False
                if error.name != "transaction-aborted" or self._clock.monotonic() > give_up:
                    raise
                pause = min(RETRY_SECONDS * 2**tries, LONGEST_RETRY_SECONDS) * self._chance.uniform(0.5, 1.0)
                if self._clock.wait(self._stop, pause):
                    raise
                tries = min(tries + 1, 16)
                self.retries += 1
        if stream is not None:
            stream.release()
            self.tables.merge(counted)
        else:
            self.tables.add(changes)
            if self._writers is not None:
                self._writers.note(changes)
        self._missing.add(applied.missing, jobs[-1].end)
        self.rows += applied.changes
        self.compacted += applied.compacted
        self.event_rows += applied.as_events
        self.hash_rows += applied.by_hash
        self.batches += 1


@dataclass(frozen=True, slots=True)
class _LaneRow:
    """How each transaction of a batch begins: with the lane's own row (I1)."""

    claim: LaneClaim
    connection: TargetConnection
    position: Position

    def statement(self) -> bytes:
        """The row's UPDATE."""
        return self.claim.advancing(self.connection, self.position)

    def opened(self, affected: int) -> None:
        """Check that the row was ours: raises DMError `fenced`."""
        self.claim.advanced(affected)
        faults.hit("syncer.after_lane_row")


_LOG = logging.getLogger(__name__)


class MissingRows:
    """Counts and logs rows that an UPDATE or DELETE did not find, if the task file says to continue. Any lane adds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: Counter[TableName] = Counter()
        self._last = ""

    def add(self, changes: Sequence[RowChange], end: Position) -> None:
        """Count changes of one committed target transaction; `end` is the end of its last source transaction."""
        if not changes:
            return
        change = changes[-1]
        last = f"{operation_of(change)} on {change.plan.target}: {key_of(change)}, at or before {end}"
        with self._lock:
            self._tables.update(change.plan.target for change in changes)
            self._last = last
        _LOG.warning("%d changes found no row at the target (`missing-row: count`); the last: %s", len(changes), last)

    @property
    def total(self) -> int:
        """All counts of this run."""
        with self._lock:
            return sum(self._tables.values())

    @property
    def report(self) -> dict[str, JSON]:
        """The fields of `query-status`."""
        with self._lock:
            tables: dict[str, JSON] = {str(table): count for table, count in sorted(self._tables.items())}
            return {"missingRows": sum(self._tables.values()), "missingRowTables": tables, "lastMissingRow": self._last}
