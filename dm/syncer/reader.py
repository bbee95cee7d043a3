"""The reader's thread: events -> assembler -> a queue of transactions bounded by bytes.

It runs ahead of the dispatcher as far as the queue allows and no further, so memory is what the configuration says,
whatever the target does. One transaction larger than the bound is let through alone.

Source and target know a run by different things: the source by the replica's identity, which all runs of a task share,
the target by the epoch. At the source the replica wins that registers last, so a process that was stopped, replaced
and continued can end the dump of its successor. The epoch decides: `still_ours` is asked before a lost connection is
opened again, and when another one took the identity. The run that holds the epoch takes it back, the other ends. A
stranger with our identity takes it again each time; that ends the run with an error that says so.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from dm.binlog.event_source import EventSource
from dm.errors import DMError
from dm.position import Position
from dm.syncer.assembler import TransactionAssembler
from dm.syncer.transaction import SourceTransaction

QUEUE_BYTES = 64 << 20
# What a transaction costs beside its bytes; keeps a flood of empty ones bounded too.
TRANSACTION_COST = 512
# How often the identity at the source is taken back from somebody.
TAKINGS = 4


class TransactionQueue:
    """Transactions in source order, bounded by bytes."""

    def __init__(self, limit: int = QUEUE_BYTES) -> None:
        self._limit = limit
        self._waiting: deque[SourceTransaction] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._closed = False

    def put(self, transaction: SourceTransaction) -> bool:
        """Add one, waiting for room; False when the queue was closed instead."""
        cost = transaction.size + TRANSACTION_COST
        with self._changed:
            while self._bytes and self._bytes + cost > self._limit and not self._closed:
                self._changed.wait()
            if self._closed:
                return False
            self._waiting.append(transaction)
            self._bytes += cost
            self._changed.notify_all()
            return True

    def take(self) -> SourceTransaction | None:
        """The next transaction, waiting for it; None when the queue is closed."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            transaction = self._waiting.popleft()
            self._bytes -= transaction.size + TRANSACTION_COST
            self._changed.notify_all()
            return transaction

    def close(self) -> None:
        """Wake everybody; nothing is given or taken any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def bytes(self) -> int:
        """What is waiting."""
        return self._bytes


class Reader:
    """Owns the event source and the assembler."""

    def __init__(
        self,
        source: EventSource,
        assembler: TransactionAssembler,
        queue: TransactionQueue,
        failed: Callable[[BaseException], None],
        still_ours: Callable[[], None],
    ) -> None:
        self._still_ours = still_ours
        self._source = source
        self._assembler = assembler
        self._queue = queue
        self._failed = failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)
        self.events = 0
        self.bytes = 0

    @property
    def position(self) -> Position:
        """The end of the last complete transaction read."""
        return self._assembler.position

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; the source's iterator sees the same signal."""
        self._stop.set()
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
                    self._assembler.restart()
        except BaseException as error:  # handed to the owner, who raises it in the unit's own thread
            if not self._stop.is_set():
                self._failed(error)

    def _read(self) -> None:
        for event in self._source.events(self._assembler.position, self._stop):
            if event is None:
                if self._source.trouble is not None:
                    self._still_ours()
                continue
            self.events += 1
            self.bytes += event.raw.header.size
            transaction = self._assembler.feed(event)
            if transaction is not None and not self._queue.put(transaction):
                return
