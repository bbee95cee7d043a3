"""The syncer's reader, a thread: a source's log -> a queue of transactions.

It runs ahead of the dispatcher as far as the memory quota allows and no further, whatever the target does: the
assembler waits for memory (`dm.sourcelog.stream.open_items`), so the queue has no bound of its own. Where the task is
to end by itself (`dm.sourcelog.stream.until`), nothing beyond that place comes into the queue.

Source and target identify a run differently. The source knows the replica's identity, which all runs of a task share;
the target knows the epoch. At the source the replica that registers last wins. So a process that was stopped, replaced
and continued can end the dump of its successor. The epoch decides: `still_ours` is asked before a lost connection is
reopened, and when another replica took the identity. The run that holds the epoch takes the identity back; the other
run ends. A stranger with our identity takes it again each time. That ends the run with an error that says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from dm.errors import DMError
from dm.mysql.binlog.event_source import SourceRun
from dm.position import Position
from dm.sourcelog.stream.open_items import QuotaClosed
from dm.sourcelog.stream.source_log import SourceLogReader
from dm.sourcelog.stream.transaction_queue import TransactionQueue
from dm.stop_signal import StopSignal

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
            if found is None:
                if log.trouble is not None:
                    self._still_ours()
                continue
            self.busy = True
            if self._awaited:
                self._came.set()
            more = isinstance(found, SourceRun)
            for transaction in log.completed(found):
                if not self._queue.put(transaction, more=more):
                    return
            if log.ended:
                break
            if more:
                self._queue.wake()
            self.busy = False
        if log.ended:
            self._queue.finish()
