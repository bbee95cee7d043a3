"""Applying one lane's batches to the target, each in one transaction that carries the lane's row (I1 of the
protocol)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dm import faults
from dm.clock import Clock
from dm.errors import DMError
from dm.position import Position
from dm.syncer.completion import CompletionTracker, Ticket
from dm.syncer.lane import LaneJob, LaneQueue
from dm.target.apply import apply_batch
from dm.target.connection import TargetConnection
from dm.target.progress.lanes import LaneClaim

# A deadlock or a lock wait ended the transaction on the server; it is simply tried again. Another session of ours
# makes progress each time, so a handful is plenty; more than that is a stranger's lock, which pauses and resumes.
TRANSACTION_TRIES = 10
RETRY_SECONDS = 0.05


class ApplyLane:
    """The thread of one lane; `failed` is called once with the error that ended it."""

    def __init__(
        self,
        connection: TargetConnection,
        claim: LaneClaim,
        queue: LaneQueue,
        completions: CompletionTracker,
        *,
        batch: int,
        ordered: bool,
        clock: Clock,
        position_of: Callable[[Position], Position],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.queue = queue
        self.rows = 0
        self.batches = 0
        self.retries = 0
        self._connection = connection
        self._claim = claim
        self._completions = completions
        self._batch = batch
        self._ordered = ordered
        self._clock = clock
        self._position_of = position_of
        self._failed = failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lane-{claim.lane}", daemon=True)

    def start(self) -> None:
        """Begin to take batches."""
        self._thread.start()

    def close(self) -> None:
        """End the lane: what is waiting is given up, a running statement is cut off with its session."""
        self._stop.set()
        self.queue.close()
        self._thread.join(timeout=0.5)
        if self._thread.is_alive():
            self._connection.abort()
            self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        try:
            while jobs := self.queue.take(self._batch, whole_jobs=self._ordered):
                self._apply(jobs)
                self._completions.committed(_count(jobs))
                self.queue.finished()
        except BaseException as error:  # handed to the owner, who raises it in the unit's own thread
            if not self._stop.is_set():
                self._failed(error)
            self.queue.close()

    def _apply(self, jobs: list[LaneJob]) -> None:
        changes = [change for job in jobs for change in job.changes]
        position = self._position_of(jobs[-1].end)
        for left in reversed(range(TRANSACTION_TRIES)):
            try:
                faults.hit("syncer.before_begin")
                apply_batch(
                    self._connection,
                    changes,
                    first=lambda: self._first(position),
                    last=lambda: faults.hit("syncer.before_commit"),
                )
                faults.hit("syncer.after_commit")
                break
            except DMError as error:
                if error.name != "transaction-aborted" or left == 0 or self._clock.wait(self._stop, RETRY_SECONDS):
                    raise
                self.retries += 1
        self.rows += len(changes)
        self.batches += 1

    def _first(self, position: Position) -> None:
        self._claim.advance(self._connection, position)
        faults.hit("syncer.after_lane_row")


def _count(jobs: list[LaneJob]) -> dict[int, tuple[Ticket, int]]:
    counts: dict[int, tuple[Ticket, int]] = {}
    for job in jobs:
        known = counts.get(id(job.ticket))
        counts[id(job.ticket)] = (job.ticket, len(job.changes) + (known[1] if known else 0))
    return counts
