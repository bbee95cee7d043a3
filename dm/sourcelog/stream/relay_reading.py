"""Transactions of a relay as far as it has got, for whoever does not follow it: no quota to share, no place to keep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dm.clock import SystemClock
from dm.flavor import Flavor
from dm.ident import TableName
from dm.mysql.binlog.event_source import SourceRun
from dm.position import Position
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.stream.assembler import BroughtBack, TransactionAssembler
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.open_items import OpenItems
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.spool import Spool
from dm.sourcelog.stream.transaction import SourceTransaction


@dataclass(frozen=True, slots=True)
class RelayReading:
    """How a relay is read: its directory, its source's flavour, and whose rows are kept."""

    relay: Path
    flavor: Flavor
    wanted: Callable[[TableName], bool]
    room: int  # bytes of memory for a transaction
    gtids_ordered: bool = True
    brought_back: BroughtBack | None = None

    def transactions(
        self, start: Position, prepared: PreparedTransactions, scratch: Path, stop: threading.Event
    ) -> Iterator[SourceTransaction]:
        """Everything after `start` that is there; each is valid until the next is asked for.

        What is too large for memory waits in `scratch`.
        """
        spool = Spool(scratch, SystemClock())
        spool.wipe()
        items = OpenItems(MemoryQuota(self.room), spool)
        assembler = TransactionAssembler(start, self.wanted, prepared, items, gtids_ordered=self.gtids_ordered)
        assembler.brought_back = self.brought_back
        try:
            for found in RelayEventSource(self.relay, self.flavor).runs(start, stop):
                if found is None:
                    return
                if isinstance(found, SourceRun):
                    completed: Iterator[SourceTransaction | None] = assembler.feed_run(found)
                else:
                    completed = iter((assembler.feed(found),))
                for transaction in completed:
                    if transaction is not None:
                        yield transaction
                        transaction.items.release()
                        spool.passed(transaction.end)
        finally:
            spool.close()
