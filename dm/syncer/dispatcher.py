"""From transactions to the lanes: rows in parts, statements as barriers between them.

A transaction is never decoded whole. Its events are taken a part at a time; the changes of keyed tables go to the lanes
as they come, and may be committed long before the last part is read. That is allowed because the completion of the
transaction counts them all, so the checkpoint stays before it, and because each lane's row names the transaction's end:
the next run finds it in the bound B and replays the transaction in safe mode (I3, I4 of `dm.target.progress.protocol`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from dm.syncer.completion import CompletionTracker
from dm.syncer.ddl_lane import DdlLane
from dm.syncer.lanes import Stopped
from dm.syncer.row_lane import RowLane
from dm.syncer.transaction import RowsItem, SourceTransaction

PART_BYTES: Final = 256 << 10  # of row events


class Dispatcher:
    """Gives transactions to the lanes, in order; belongs to the unit's own thread."""

    def __init__(
        self, rows: RowLane, ddl: DdlLane, completions: CompletionTracker, stopping: Callable[[], bool]
    ) -> None:
        self._rows = rows
        self._ddl = ddl
        self._completions = completions
        self._stopping = stopping

    def dispatch(self, transaction: SourceTransaction) -> None:
        """Hand over everything; raises DMError, or Stopped between two parts when the run is to end."""
        rows, items = self._rows, transaction.items
        ticket = self._completions.open(transaction.end, transaction.timestamp)
        given = 0
        first = 0  # number of the first item behind the last DDL
        part: list[RowsItem] = []
        size = 0
        for number, item in enumerate(items):
            if isinstance(item, RowsItem):
                part.append(item)
                size += len(item.rows.data)
                if size >= PART_BYTES:
                    given += rows.take(part, ticket, transaction)
                    part, size = [], 0
                    if self._stopping():
                        raise Stopped
                continue
            steps = self._ddl.steps(item.query, transaction)
            if steps:
                given += rows.take(part, ticket, transaction) + rows.finish(first, number, ticket, transaction)
                part, size, first = [], 0, number + 1
                rows_follow = any(isinstance(later, RowsItem) for later in islice(items, first, None))
                self._ddl.run(item.query, steps, transaction.end, transaction.begin if rows_follow else transaction.end)
        given += rows.take(part, ticket, transaction) + rows.finish(first, len(items), ticket, transaction)
        self._completions.close(ticket, given)
        items.release()
