"""The syncer's reader, a thread: a source's log -> a queue of transactions.

It runs ahead of the dispatcher as far as the memory quota allows and no further, whatever the target does: the
assembler waits for memory (`dm.sourcelog.stream.spool`), so the queue has no bound of its own. Where the task is to end
by itself (`dm.sourcelog.stream.until`), nothing beyond that place comes into the queue.

Source and target identify a run differently. The source knows the replica's identity, which all runs of a task share;
the target knows the epoch. At the source the replica that registers last wins. So a process that was stopped, replaced
and continued can end the dump of its successor. The epoch decides: `still_ours` is asked before a lost connection is
reopened, and when another replica took the identity. The run that holds the epoch takes the identity back; the other
run ends. A stranger with our identity takes it again each time. That ends the run with an error that says so.

The queue between the reader and the dispatcher: whole transactions of the source, in order.

It has no bound of its own: the assembler waits for memory before it completes a transaction.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from dm.errors import DMError
from dm.mysql.binlog.event import SourceRun
from dm.position import Position
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.source_log import SourceLogReader
from dm.sourcelog.stream.spool import QuotaClosed
from dm.sourcelog.stream.transaction import SourceTransaction, TransactionRun
from dm.unit import StopSignal

# How often the run takes back its identity at the source.
TAKINGS = 4
_OF_THE_RUN: Final = ("fenced", "replica-id-taken")  # errors that no position in the source causes
_TRIED_AGAIN: Final = ("shard-target-behind",)  # errors of one event that pass by themselves or when a person decides


def concerns_event(error: DMError) -> bool:
    """Whether the error comes from one event, which a person may skip or replace."""
    return error.name in _TRIED_AGAIN or not (error.retryable or error.name in _OF_THE_RUN)


class Reader:
    """Owns the reading of the source's log."""

    def __init__(
        self,
        log: SourceLogReader,
        queue: TransactionQueue,
        failed: Callable[[BaseException], None],
        still_ours: Callable[[], None],
    ) -> None:
        self._still_ours = still_ours
        self._log = log
        self._queue = queue
        self._failed = failed
        self._stop = StopSignal()
        self._awaited = False  # the dispatcher sleeps until there is an event
        self._came = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self.busy = False  # processing an event; otherwise it waits for the source
        self.begun = False  # the source has sent something, or has nothing to send

    @property
    def stopping(self) -> threading.Event:
        """Set when the run is over."""
        return self._stop

    @property
    def queue(self) -> TransactionQueue:
        """The queue for what it has read."""
        return self._queue

    @property
    def position(self) -> Position:
        """The end of the last complete transaction read."""
        return self._log.position

    @property
    def events(self) -> int:
        """How many were read."""
        return self._log.events

    @property
    def bytes(self) -> int:
        """How many were read."""
        return self._log.bytes

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wait_for_event(self, needed: Callable[[], bool]) -> bool:
        """If `needed`, sleep until there is an event or the run is over; otherwise False at once.

        For one thread. An event after the call of `needed` is not missed.
        """
        self._came.clear()
        self._awaited = True
        try:
            if self._stop.is_set() or not needed():
                return False
            self._came.wait()
            return True
        finally:
            self._awaited = False

    def stop(self) -> None:
        """End the thread; the source's iterator gets the same signal."""
        self._stop.set()
        self._came.set()
        self._queue.close()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            for left in reversed(range(TAKINGS)):
                try:
                    return self._read()
                except DMError as error:
                    if error.name != "replica-id-taken" or left == 0:
                        raise
                    self._still_ours()
        except QuotaClosed:
            pass  # the same as a closed queue
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            if self._stop.is_set():
                pass
            elif isinstance(error, DMError) and concerns_event(error):
                # A person has to act. Everything before it is applied first: the person may act at the target, and the
                # next run, which ends at the same place, would not get further than this one.
                error.position = error.position or str(self._log.position)
                self._queue.end(error)
            else:
                self._failed(error)

    def look(self, source_time: float, end: Callable[[], Position]) -> None:
        """Learn the source's clock, and where its binlog ends now: a task that ends at a time may be there."""
        if self._log.passed(source_time, end):
            self._queue.finish()

    def _read(self) -> None:
        log = self._log
        for found in log.arrivals(self._stop):
            self.begun = True
            if found is None:
                if log.trouble is not None:
                    self._still_ours()
                continue
            self.busy = True
            if self._awaited:
                self._came.set()
            more = isinstance(found, SourceRun)
            for completed in log.completed_together(found):
                if not self._queue.put(completed, more=more):
                    return
            if log.ended:
                break
            if more:
                self._queue.wake()
            self.busy = False
        if log.ended:
            self._queue.finish()


class TransactionQueue:
    """Transactions in source order; the quota counts their memory."""

    def __init__(self, quota: MemoryQuota) -> None:
        self._quota = quota
        self._waiting: deque[SourceTransaction | TransactionRun] = deque()
        self._count = 0  # transactions in it
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._finished = False
        self._broken_off = False
        self.rest = Rest(self._changed)
        self._error: DMError | None = None  # what follows the last transaction
        quota.before_waiting = self.wake
        self.empty_handed = False  # the dispatcher waits for a transaction

    def put(self, transaction: SourceTransaction | TransactionRun, *, more: bool = False) -> bool:
        """Add one, or a run; False when nothing more is taken. With `more` at hand, nobody is woken for it: see `wake`.

        Waking a thread for each transaction costs more than the transaction.
        """
        with self._changed:
            if self._over:
                return False
            self._waiting.append(transaction)
            self._count += transaction.count
            if not more:
                self._changed.notify_all()
            return True

    def wake(self) -> None:
        """Wake the dispatcher for transactions added without a wake-up."""
        with self._changed:
            if self._waiting:
                self._changed.notify_all()

    def take(self, at_rest: Callable[[], None]) -> SourceTransaction | TransactionRun | None:
        """The next transaction, or run of them, waiting for it; None when the queue is closed or broken off, or empty
        and finished. Raises DMError: see `end`.

        If there is none, `at_rest` is called, and again as long as `rest` requires it.
        """
        rest = self.rest
        while True:
            with self._changed:
                if self._closed or self._broken_off:
                    return None
                if self._waiting:
                    taken = self._waiting.popleft()
                    self._count -= taken.count
                    return taken
                if self._error is not None:
                    raise self._error
                if self._finished:
                    return None
                rest.begin()
            at_rest()
            with self._changed:
                self.empty_handed = True
                while not (self._waiting or self._over or self._error or rest.again()):
                    self._changed.wait()
                self.empty_handed = False

    @property
    def _over(self) -> bool:
        return self._closed or self._finished or self._broken_off

    @property
    def following(self) -> SourceTransaction | None:
        """The transaction that `take` gives next, if it is there already; it stays in the queue."""
        with self._changed:
            found = self._waiting[0] if self._waiting and not (self._closed or self._broken_off) else None
        return found if isinstance(found, SourceTransaction) else None

    def end(self, error: DMError) -> None:
        """Only this error follows, after all transactions."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def finish(self) -> None:
        """Nothing comes any more, and that is as it should be: what is here is taken, then the run is over."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()

    def break_off(self) -> None:
        """Nothing more is taken, and another run goes on after what was: nobody has asked this one to hurry."""
        with self._changed:
            self._broken_off = True
            self._changed.notify_all()

    @property
    def broken_off(self) -> bool:
        """Whether what was taken is all that the run applies."""
        return self._broken_off

    @property
    def finished(self) -> bool:
        """Whether all that the run is to apply was put here."""
        return self._finished

    @property
    def exhausted(self) -> bool:
        """Whether all of that was taken as well: a run may be stopped before."""
        with self._changed:
            return self._finished and not self._waiting

    def close(self) -> None:
        """Wake all threads, including those that wait for memory; the queue is closed."""
        self._quota.close()
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether the run is ending."""
        return self._closed

    def __len__(self) -> int:
        return self._count


class Rest:
    """The state of a rest: one per run, under the lock of the queue on which the dispatcher sleeps.

    Changes are held back so that batches fill (`dm.syncer.apply.lane`). When the queue is empty, nothing can fill
    them soon, so partial batches are sent at once. But while enough lanes are busy, a small batch gains nothing: it can
    as well wait until a lane ends its batch, and more changes may come. Three threads follow this protocol:

        dispatcher    finds the queue empty: `begin`, then asks the lanes to hand over what is held back.
                      Enough lanes are busy: `starve` first, then check them. Otherwise `feed` and hand over.
                      Then it sleeps until there is a transaction, or it has to check `again`.
        lane          has ended a batch: `batch_ended`, which wakes the dispatcher only while it starves.
        reader        puts a transaction: the rest is over, whatever is held back.

    No wake-up is lost. The dispatcher starves before it checks the lanes, so the last lane that ends a batch either was
    seen idle or sees the dispatcher starve. An end between `begin` and the sleep is noted under the queue's lock.
    """

    def __init__(self, queue_changed: threading.Condition) -> None:
        self._queue_changed = queue_changed
        self._starving = False
        self._ended = False  # a lane has ended a batch since the dispatcher began to check them
        self._asked = False

    def again(self) -> bool:
        """Whether the dispatcher should ask the lanes once more; under the queue's lock."""
        return (self._ended and self._starving) or self._asked

    def begin(self) -> None:
        """The dispatcher is about to check the lanes; under the queue's lock."""
        self._ended = self._asked = False

    def starve(self) -> None:
        """From now on a lane that ends a batch wakes the dispatcher."""
        self._starving = True

    def feed(self) -> None:
        """Nothing is held back: only a transaction wakes the dispatcher."""
        self._starving = False

    def ask(self) -> None:
        """Have the dispatcher look again, for another reason than a lane's; called in any thread."""
        with self._queue_changed:
            self._asked = True
            self._queue_changed.notify_all()

    def batch_ended(self) -> None:
        """A lane has ended a batch; called in its thread."""
        if self._starving:
            with self._queue_changed:
                self._ended = True
                self._queue_changed.notify_all()
