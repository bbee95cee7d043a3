"""The source's transactions after a position, as far as the syncer's checkpoint and no further.

What lies after the checkpoint may not be applied yet, so its rows would be found different and wait for nothing. The
checkpoint is read at the target. The binlog comes from where the syncer's comes from, by the same reader.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.gtid import Gtid
from dm.ident import TableName
from dm.mysql.binlog.event_source import SourceRun
from dm.position import Position
from dm.progress.checkpoint import read_position_of
from dm.progress.tables import SubtaskKey
from dm.sourcelog.stream.assembler import TransactionAssembler
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.open_items import OpenItems
from dm.sourcelog.stream.origin import Origin
from dm.sourcelog.stream.prepared import PreparedRows, PreparedTransactions, Wanted
from dm.sourcelog.stream.prepared_list import HeldXa, TransactionEnd
from dm.sourcelog.stream.spool import Spool
from dm.sourcelog.stream.transaction import SourceTransaction


class KnownPrepared(PreparedTransactions):
    """Prepared XA transactions; rows of one that was prepared before the validator began are not looked at."""

    def commit(self, xid: str, *, end: Position, gtid: Gtid | None, wanted: Wanted) -> PreparedRows:
        """The rows that the XA COMMIT makes valid, as far as they are known."""
        if any(held.xid == xid for held in self.undecided):
            return super().commit(xid, end=end, gtid=gtid, wanted=wanted)
        return PreparedRows(Path(), HeldXa(0, xid, TransactionEnd.of(end, gtid), 0), wanted)


@dataclass
class CheckpointGate:
    """How far the syncer is; one thread waits at it."""

    connection: TargetConnection
    key: SubtaskKey
    clock: Clock
    interval: float  # seconds between two looks
    place: Position  # the syncer's checkpoint
    until: Position | None = None  # nothing after it is read
    moved: Callable[[], None] = field(default=lambda: None)  # the checkpoint is another one

    def passes(self, end: Position, stop: threading.Event) -> bool:
        """Wait until everything up to here is applied; False when stopped."""
        while not self.open_to(end):
            if self.clock.wait(stop, self.interval):
                return False
            self.look()
        return True

    def open_to(self, end: Position) -> bool:
        """Whether this may be read by now."""
        return self.place.covers(end) and (self.until is None or self.until.covers(end))

    def look(self) -> None:
        """Read the checkpoint; raises DMError."""
        found = read_position_of(self.connection, self.key)
        if found is not None and found != self.place:
            self.place = found
            self.moved()


@dataclass(frozen=True, slots=True)
class Reading:
    """How the binlog is read."""

    origin: Origin
    wanted: Callable[[TableName], bool]
    clock: Clock
    room: int  # bytes of memory for a transaction

    def transactions(
        self, start: Position, prepared: PreparedTransactions, scratch: Path, stop: threading.Event
    ) -> Iterator[SourceTransaction | None]:
        """Everything after `start`, endlessly; each is valid until the next is asked for. None: no more for now."""
        spool = Spool(scratch, self.clock)
        spool.wipe()
        assembler = TransactionAssembler(
            start,
            self.wanted,
            prepared,
            OpenItems(MemoryQuota(self.room), spool),
            gtids_ordered=self.origin.facts.gtid_ordered,
        )
        try:
            for found in self.origin.event_source().runs(start, stop):
                if found is None:
                    yield None
                    continue
                completed: Iterator[SourceTransaction | None]
                completed = (
                    assembler.feed_run(found) if isinstance(found, SourceRun) else iter((assembler.feed(found),))
                )
                for transaction in completed:
                    if transaction is not None:
                        yield transaction
                        transaction.items.release()
                        spool.passed(transaction.end)
        finally:
            spool.close()
