"""How a source's log is read: the one interface for all who read it.

A reader says where from, which tables, up to where, and what becomes of undecided XA. It gets whole transactions in the
source's order, and is told when the log is at rest.

  where from    An event source: relay files, or the server itself. And a position: the end of a transaction, or the
                start of a file. What the position's GTID set has is not given again.
  which tables  `wanted`. Rows of other tables are dropped by their table map, before they cost memory. Statements are
                all given: only their reader knows which tables they mean.
  up to where   `until` cuts the log between two transactions. Without it a log has no end. A reader that has seen
                enough by a rule of its own stops asking.
  undecided XA  `xa`: held on disk, ignored, refused or passed (`dm.sourcelog.stream.prepared`).
  at rest       The log has nothing more for now. `follow` says so by None and goes on; `transactions` ends there.

Who reads, and how:

  reader              from          rows of            up to               undecided XA        at rest
  syncer              either        the task           `--until`           hold                sends partial batches
  validator           either        the task           the checkpoint      ignore earlier      waits
  its start           either        no table           the checkpoint      ignore earlier      waits
  flashback           relay         the task           the checkpoint      hold                the relay lacks a part
  replay              relay         the task           a piece's end       refuse              the piece is read
  replay's `--until`  relay         no table           `--until`           pass                the place is to come
  change feed         relay         the query          a batch's end       refuse rows         the batch ends

Where a task has an opposite, the readers of the task leave out what that has written (`marks.py`): syncer, validator,
flashback and replay. The feed is of no task: it shows whatever the server has committed.

Memory has two owners. A reader that takes one transaction at a time has a `Space`: each transaction is valid until the
next is asked for. The syncer's reader (`reader.py`) hands transactions to other threads, which return their memory. So
it takes the log apart: `arrivals`, and what each of them has `completed`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dm.clock import Clock, SystemClock
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.event import EventSource, SourceEvent, SourceRun
from dm.position import Position
from dm.sourcelog.stream.assembler import TransactionAssembler
from dm.sourcelog.stream.file_births import FileBirths
from dm.sourcelog.stream.marks import Marks
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.prepared import UndecidedXa
from dm.sourcelog.stream.spool import OpenItems, Spool
from dm.sourcelog.stream.transaction import BroughtBackCheck, SourceTransaction, TransactionRun
from dm.sourcelog.stream.until import Until


@dataclass(frozen=True, slots=True)
class Space:
    """Where a reader keeps the transaction that it looks at."""

    room: int  # bytes of memory
    scratch: Path  # a folder for what is larger; emptied first
    clock: Clock = field(default_factory=SystemClock)


@dataclass(frozen=True, slots=True)
class SourceLog:
    """What a reader wants of a source's log."""

    events: EventSource
    wanted: Callable[[TableName], bool]
    xa: UndecidedXa
    until: Until | None = None
    gtids_ordered: bool = True  # else only places tell what comes after what (MariaDB without strict mode)
    brought_back: BroughtBackCheck | None = None  # for readers that apply rows to the target
    births: FileBirths | None = None  # for readers that store where they are
    marks: Marks | None = None  # for readers of a task that has an opposite
    timed: bool = False  # transactions have the moment of their commit

    def open(self, start: Position, items: OpenItems) -> SourceLogReader:
        """A reading from `start` on, with the memory of `items`."""
        return SourceLogReader(self, start, items)

    def transactions(self, start: Position, space: Space, stop: threading.Event) -> Iterator[SourceTransaction]:
        """Everything after `start` that is there; each is valid until the next is asked for. Raises DMError."""
        for transaction in self.follow(start, space, stop):
            if transaction is None:
                return
            yield transaction

    def follow(self, start: Position, space: Space, stop: threading.Event) -> Iterator[SourceTransaction | None]:
        """Everything after `start`, as it comes; None: at rest. As `transactions` otherwise."""
        spool = Spool(space.scratch, space.clock)
        spool.wipe()
        reader = self.open(start, OpenItems(MemoryQuota(space.room), spool))
        try:
            for found in reader.arrivals(stop):
                if found is None:
                    yield None
                    continue
                for transaction in reader.completed(found):
                    yield transaction
                    transaction.items.release()
                    spool.passed(transaction.end)
                if reader.ended:
                    return
        finally:
            spool.close()


_RUNS: Final = 16  # as many have room at a time


class SourceLogReader:
    """One reading of a log; belongs to one thread, others may look at its place and counts."""

    def __init__(self, log: SourceLog, start: Position, items: OpenItems) -> None:
        self._source = log.events
        self._until = log.until
        self._assembler = TransactionAssembler(
            start, log.wanted, log.xa, items, gtids_ordered=log.gtids_ordered, births=log.births
        )
        self._assembler.timed = log.timed
        self._assembler.brought_back = log.brought_back
        self._assembler.leave_out(log.marks)
        self._together = items.room // _RUNS
        self.events = 0
        self.bytes = 0
        self.ended = log.until is not None and log.until.reached(start)
        """Whether all up to `until` is read."""

    @property
    def position(self) -> Position:
        """The end of the last complete transaction read."""
        return self._assembler.position

    @property
    def trouble(self) -> DMError | None:
        """Why no event comes now, while the source retries."""
        return self._source.trouble

    def arrivals(self, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """Events from `position` on, until `stop`; None: at rest. An open transaction comes again from its first."""
        if self.ended:
            return iter(())
        self._assembler.restart()
        return self._source.runs(self.position, stop)

    def completed(self, found: SourceEvent | SourceRun) -> Iterable[SourceTransaction]:
        """The transactions that the events complete, each as soon as it is; those after `until` are left out."""
        if isinstance(found, SourceRun):
            self._count(found)
            completed: Iterable[SourceTransaction] = self._assembler.feed_run(found)
        else:
            if not found.raw.header.heartbeat:  # these come while nothing is read
                self.events += 1
                self.bytes += len(found.raw.data)
            transaction = self._assembler.feed(found)
            if transaction is None:
                return ()
            completed = (transaction,)
        return completed if self._until is None else self._admitted(completed, self._until)

    def completed_together(self, found: SourceEvent | SourceRun) -> Iterable[SourceTransaction | TransactionRun]:
        """The same, with runs of transactions where those are plain."""
        if self._until is not None or not isinstance(found, SourceRun):
            return self.completed(found)
        self._count(found)
        return self._assembler.feed_together(found, most=self._together)

    def _count(self, run: SourceRun) -> None:
        self.events += len(run.events)
        self.bytes += run.end_offset - run.offset

    def _admitted(self, completed: Iterable[SourceTransaction], until: Until) -> Iterator[SourceTransaction]:
        for transaction in completed:
            if not until.admits(transaction):
                self.ended = True
                return
            yield transaction
            if until.reached(transaction.end):
                self.ended = True
                return

    def passed(self, source_time: float, end: Callable[[], Position]) -> bool:
        """Whether the source's clock and the end of its log, by now, say that nothing more comes before `until`."""
        return self._until is not None and self._until.passed(source_time) and self.position.reaches(end())
