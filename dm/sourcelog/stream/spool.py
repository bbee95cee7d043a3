"""The spool: transactions larger than the memory quota wait in files.

A transaction can only be applied when its end is known: before that its position is unknown, and so is whether it was
committed. A transaction larger than the quota is written to a file while it is read, as raw events, and decoded from
there in parts. Several transactions share a file; each is in one file.

The files are scratch. Their content is also in the binlog after the checkpoint, so a run begins by deleting all of
them: the spool of a crashed run is never applied. A file is deleted when the stored checkpoint has passed its last
transaction. Deletions are a few seconds apart, so that a source of large transactions does not cause a stream of
unlinks.

The items of the transaction being read: in memory while the quota has room, after that in a spool file.

Memory is requested in steps, so a small transaction asks once, at its end. A transaction waits for memory while others
are on their way to the target. It goes to a file only when nothing but itself uses the memory. So a slow target does
not fill the disk: what it can't take stays in the binlog, and the spool holds only what fits nowhere else.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dm.clock import Clock
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.row_events import FoundTransaction
from dm.mysql.binlog.table_map import TableMap
from dm.position import Position
from dm.sourcelog.stream.memory_quota import ITEM_COST, SOURCE_COST, TRANSACTION_COST, MemoryQuota
from dm.sourcelog.stream.spool_file import ItemWriter, SpoolReader, SpoolWriter, read_items
from dm.sourcelog.stream.transaction import (
    Item,
    MemoryItems,
    PlainItems,
    Readers,
    RowsItem,
    RunMemory,
    StatementItem,
    TransactionItems,
)

FILE_BYTES: Final = 64 << 20
UNLINK_SECONDS: Final = 5.0


@dataclass(slots=True)
class _File:
    writer: SpoolWriter
    open: bool = False  # a transaction is being written
    last: Position | None = None  # the end of the last transaction in it
    commit_time: int = 0


class Spool:
    """The spool files of one run. The reader's thread writes, any thread reads, the progress writer deletes."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._lock = threading.Lock()  # guards the list of files and their fields
        self._files: list[_File] = []
        self._created = 0
        self._unlinked_at: float | None = None
        self.transactions = 0
        self.rounds = 0  # of deletions

    def wipe(self) -> None:
        """Delete what an earlier run left; raises DMError."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._directory.iterdir():
                path.unlink()
        except OSError as error:
            raise DMError("spool-not-written", file=self._directory) from error

    @property
    def bytes(self) -> int:
        """The size of all files now."""
        with self._lock:
            return sum(file.writer.end for file in self._files)

    def begin(self) -> SpoolPart:
        """A place for one transaction; raises DMError."""
        with self._lock:
            if not self._files or self._files[-1].writer.end >= FILE_BYTES:
                if self._files:
                    self._finish(self._files[-1])
                self._created += 1
                self._files.append(_File(SpoolWriter(self._directory / f"{os.getpid()}.{self._created:06d}.spool")))
            file = self._files[-1]
            file.open = True
        self.transactions += 1
        return SpoolPart(self, file)

    def _finish(self, file: _File) -> None:
        file.writer.finish(file.commit_time)
        file.writer.close()

    def end(self, file: _File, last: Position | None, commit_time: int = 0) -> None:
        """The last item of a transaction was written; without a position it will never be read."""
        with self._lock:
            file.open = False
            if last is not None:
                file.last = last
                file.commit_time = max(file.commit_time, commit_time)

    def passed(self, checkpoint: Position) -> None:
        """Delete the files whose transactions the stored checkpoint covers, unless that was just done."""
        now = self._clock.monotonic()
        if not self._files or (self._unlinked_at is not None and now - self._unlinked_at < UNLINK_SECONDS):
            return
        with self._lock:
            over = [file for file in self._files if not file.open]
            gone = [file for file in over if file.last is None or checkpoint.covers(file.last)]
            if not gone:
                return
            self._files = [file for file in self._files if file not in gone]
        self._unlink(gone)
        self._unlinked_at = now
        self.rounds += 1

    def _unlink(self, files: list[_File]) -> None:
        for file in files:
            file.writer.close()
            try:
                file.writer.path.unlink(missing_ok=True)
            except OSError as error:
                raise DMError("spool-not-written", file=file.writer.path) from error

    def close(self) -> None:
        """The run is over: what was not applied is read again from the binlog."""
        with self._lock:
            files, self._files = self._files, []
        self._unlink(files)


@dataclass(slots=True)
class SpoolPart:
    """The place of one transaction in a spool file."""

    spool: Spool
    file: _File
    items: ItemWriter = field(init=False)

    def __post_init__(self) -> None:
        self.items = ItemWriter(self.file.writer)

    def finish(self, end: Position, commit_time: int) -> tuple[Path, int, int]:
        """The transaction is complete; returns its place."""
        writer = self.file.writer
        writer.flush()
        self.spool.end(self.file, end, commit_time)
        return writer.path, self.items.start, writer.end

    def abandon(self) -> None:
        """The transaction will be read again, or never."""
        self.spool.end(self.file, None)


class SpooledItems(Readers):
    """The first items of a large transaction in memory, the others in a spool file."""

    def __init__(
        self,
        head: list[Item],
        count: int,
        size: int,
        quota: MemoryQuota,
        place: tuple[Path, int, int],
        maps: list[TableMap],
    ) -> None:
        super().__init__(size, quota)
        self._head = head
        self._count = count
        self._place = place
        self._maps = maps

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        yield from self._head
        path, start, end = self._place
        reader = SpoolReader(path)
        try:
            yield from read_items(reader.records(start, end), self._maps)
        finally:
            reader.close()

    def _forget(self) -> None:
        self._head = []


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

    def run(self, found: Sequence[FoundTransaction[RowsItem]], end: Position, most: int) -> RunMemory | None:
        """The memory of several transactions, as `whole` asks for it of each; None if it is more than `most`."""
        each = TRANSACTION_COST + SOURCE_COST * end.gtid_set.sources
        costs = [one.rows_size + ITEM_COST * len(one.items) + each for one in found]
        cost = sum(costs)
        if cost > most:
            return None
        self._last_of_all(cost)
        return RunMemory(self._quota, costs)

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
