"""The items of the transaction being read: in memory while the quota has room, after that in a spool file.

Memory is requested in steps, so a small transaction asks once, at its end. A transaction waits for memory while others
are on their way to the target. It goes to a file only when nothing but itself uses the memory. So a slow target does
not fill the disk: what it can't take stays in the binlog, and the spool holds only what fits nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from dm.ident import TableName
from dm.mysql.binlog.table_map import TableMap
from dm.position import Position
from dm.sourcelog.stream.memory_quota import ITEM_COST, SOURCE_COST, TRANSACTION_COST, MemoryQuota
from dm.sourcelog.stream.spool import Spool, SpooledItems, SpoolPart
from dm.sourcelog.stream.transaction import Item, MemoryItems, PlainItems, RowsItem, StatementItem, TransactionItems

LARGEST_STEP: Final = 256 << 10


class QuotaClosed(Exception):
    """Raised while waiting for memory: the run is ending."""


class OpenItems:
    """Collects the items of one transaction after another; belongs to the reader's thread."""

    def __init__(self, quota: MemoryQuota, spool: Spool | None) -> None:
        self._quota = quota
        self._spool = spool  # None: even a too large transaction stays in memory
        self.step = min(LARGEST_STEP, quota.total // 16)
        """Of so much memory is asked for at once."""
        self._head: list[Item] = []
        self._cost = 0  # of the items in memory
        self._sure = 0  # how many items the quota knows
        self._acquired = 0  # what they cost
        self._part: SpoolPart | None = None
        self._spooled = 0  # items in it
        self.table: TableMap | None = None  # of the first rows

    @property
    def room(self) -> int:
        """Bytes of memory for all that is read and not applied yet."""
        return self._quota.total

    def __len__(self) -> int:
        return len(self._head) + self._spooled

    def tables(self) -> Iterator[TableName]:
        """The tables of the rows that are in memory: all of them, or the first ones of many."""
        for item in self._head:
            if isinstance(item, RowsItem):
                yield TableName(item.table_map.schema, item.table_map.table)

    def add_statement(self, item: StatementItem) -> None:
        """Add an item; waits for memory, raises DMError when the disk is full."""
        self._add(item, len(item.query.sql) + ITEM_COST)

    def add_rows(self, item: RowsItem, size: int) -> None:
        """Add rows of an event of so many bytes; as `add_statement`."""
        if self.table is None:
            self.table = item.table_map
        self._add(item, size + ITEM_COST)

    def add_run(self, items: Sequence[RowsItem], size: int) -> None:
        """Add several items, whose events have so many bytes together."""
        if self._part is not None:
            for item in items:
                self.add_rows(item, 0)
            return
        if self.table is None:
            self.table = items[0].table_map
        self._head += items
        self._cost += size + ITEM_COST * len(items)
        if self._cost - self._acquired > self.step:
            self._acquire(self._cost - self._acquired)

    def whole(self, items: list[RowsItem], size: int, end: Position) -> TransactionItems:
        """All items of a transaction at once, when nothing else is open; their events have so many bytes together."""
        cost = size + ITEM_COST * len(items) + TRANSACTION_COST + SOURCE_COST * end.gtid_set.sources
        self._last_of_all(cost)
        return PlainItems(items, cost, self._quota)

    def _add(self, item: Item, cost: int) -> None:
        if self._part is not None:
            self._part.items.append(item)
            self._spooled += 1
            return
        self._head.append(item)
        self._cost += cost
        if self._cost - self._acquired > self.step:
            self._acquire(self._cost - self._acquired)

    def _acquire(self, size: int) -> None:
        if not self._quota.block_acquire(size, unfinished=True):
            if self._quota.closed:
                raise QuotaClosed
            if self._spool is not None:
                self._spill(self._spool)
                return
            self._quota.force_acquire(size, unfinished=True)
        self._acquired = self._cost
        self._sure = len(self._head)

    def _spill(self, spool: Spool) -> None:
        self._part = spool.begin()
        rest = self._head[self._sure :]
        del self._head[self._sure :]
        self._cost = self._acquired
        for item in rest:
            self._part.items.append(item)
        self._spooled = len(rest)

    def finish(self, end: Position, commit_time: int) -> TransactionItems:
        """The transaction is complete; its consumer returns the memory."""
        rest = self._cost - self._acquired + TRANSACTION_COST + SOURCE_COST * end.gtid_set.sources
        self._last_of_all(rest)
        if self._acquired:
            self._quota.finish(self._acquired)
        size = self._acquired + rest
        if self._part is None:
            items: TransactionItems = MemoryItems(self._head, size, self._quota)
        else:
            place, maps = self._part.finish(end, commit_time), self._part.items.maps
            items = SpooledItems(self._head, len(self), size, self._quota, place, maps)
        self._clear()
        return items

    def _last_of_all(self, rest: int) -> None:
        # Without this memory the transaction is never handed on, so waiting for the rest would be in vain.
        if not self._quota.block_acquire(rest):
            if self._quota.closed:
                raise QuotaClosed
            self._quota.force_acquire(rest)

    def discard(self) -> None:
        """Drop them: they come again, or are of no use."""
        if not self._head and self._part is None:
            return
        if self._acquired:
            self._quota.release(self._acquired, unfinished=True)
        if self._part is not None:
            self._part.abandon()
        self._clear()

    def _clear(self) -> None:
        self._head = []
        self._cost = self._sure = self._acquired = self._spooled = 0
        self._part = None
        self.table = None
