"""One transaction of the source, as the assembler yields it: raw row events, not yet decoded."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple, Protocol

from dm.accelerator.native import shared
from dm.gtid import Gtid, GtidSet
from dm.ident import TableName
from dm.mysql.binlog.reader import Query, Rows, TableMap
from dm.mysql.binlog.row_events import FoundTransaction, gtid_of
from dm.position import Position
from dm.sourcelog.stream.marks import Writer
from dm.sourcelog.stream.memory_quota import MemoryQuota


@shared
class RowsItem(NamedTuple):
    """One row event with the table map it refers to."""

    table_map: TableMap
    rows: Rows


@dataclass(slots=True)
class StatementItem:
    """One query event that is neither BEGIN nor an end: DDL, or something that needs no replication."""

    query: Query
    start: int = 0  # start of its event, in the file where the transaction ends


Item = RowsItem | StatementItem


class TransactionItems(Protocol):
    """The items of a transaction, in memory or partly in a spool file; readable several times."""

    @property
    def size(self) -> int:
        """The memory that the last `release` returns."""
        ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Item]: ...

    def hold(self) -> None:
        """Register one more reader: `release` is called once more."""
        ...

    def release(self) -> None:
        """A reader is done; nothing reads the items after the last call."""
        ...


# One lock for all: it is held for an addition.
_counting = threading.Lock()


class Readers(ABC):
    """Counts the readers of a transaction's items; the last one returns their memory."""

    __slots__ = ("_quota", "_readers", "size")

    def __init__(self, size: int, quota: MemoryQuota | None) -> None:
        self.size = size
        self._quota = quota
        self._readers = 1

    def hold(self) -> None:
        """Register one more reader: `release` is called once more."""
        with _counting:
            self._readers += 1

    def release(self) -> None:
        """A reader is done; nothing reads the items after the last call."""
        with _counting:
            self._readers -= 1
            last = self._readers == 0
        if last:
            self._forget()
            if self._quota is not None:
                self._quota.release(self.size)

    @abstractmethod
    def _forget(self) -> None:
        """Drop the items; nothing reads them any more."""


class MemoryItems(Readers):
    """Items of a transaction that is small enough to stay in memory."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[Item] = (), size: int = 0, quota: MemoryQuota | None = None) -> None:
        super().__init__(size, quota)
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def _forget(self) -> None:
        self._items = ()


class PlainItems(MemoryItems):
    """Items of a small transaction that has only rows."""

    __slots__ = ("rows",)

    def __init__(self, rows: list[RowsItem], size: int, quota: MemoryQuota) -> None:
        super().__init__(rows, size, quota)
        self.rows = rows

    def _forget(self) -> None:
        self._items, self.rows = (), []


class TransactionRun:
    """Plain transactions that follow each other in one file, and by their GTIDs: one thing on the way to the lanes.

    A source of small transactions has so many that an object for each, and a step of each queue, costs more than their
    rows. What is asked of one of them is worked out when it is asked for: a place, or the transaction by itself.
    """

    __slots__ = (
        "_costs", "_first", "_found", "_offsets", "_quota", "_timestamps", "begin", "end", "ends", "items", "starts",
    )  # fmt: skip

    def __init__(
        self,
        found: Sequence[FoundTransaction[RowsItem]],
        begin: Position,
        end: Position,
        offset: int,
        starts: int,
        memory: RunMemory,
    ) -> None:
        self.begin = begin
        """Where the position was before; its file is the one of `end`."""
        self.end = end
        self.starts = starts
        self.items = [item for each in found for item in each.items]
        """The rows of all of them."""
        self.ends = list(accumulate([len(each.items) for each in found]))
        """For each transaction, how many of the items end with it."""
        # Tickets keep the run, so it keeps no rows beyond `release`.
        self._found = found
        self._first = gtid_of(found[0])
        self._offsets = list(accumulate([each.length for each in found], initial=offset))
        self._timestamps = [each.timestamp for each in found]
        self._quota, self._costs = memory

    @property
    def count(self) -> int:
        """How many transactions."""
        return len(self._timestamps)

    def place(self, number: int) -> Position:
        """The end of the transaction with this number, from 0."""
        if number == self.count - 1:
            return self.end
        return Position(self.end.server_uuid, self.end.file, self._offsets[number + 1], self._gtids(number))

    def begin_of(self, number: int) -> Position:
        """Where the transaction with this number begins, from 0."""
        return self.place(number - 1) if number else self.begin

    def _gtids(self, number: int) -> GtidSet:
        first, gtids = self._first, self.begin.gtid_set
        return gtids.then_anonymous() if first is None else gtids.with_run(first, first.number + number)

    @staticmethod
    def gtids_after(found: Sequence[FoundTransaction[RowsItem]], gtids: GtidSet, *, known: bool) -> GtidSet | None:
        """The set after transactions of one server that it does not have, with numbers that follow each other, or none.

        None: they are others, or all that `known` says is that the set lacks some.
        """
        first = found[0]
        gtid = gtid_of(first)
        if gtid is None:
            return gtids.then_anonymous() if all(each.source is None for each in found) else None
        alike = [(first.source, number, first.server_id) for number in range(first.number, first.number + len(found))]
        if not known or not gtids.ends_before(gtid) or [(each[0], each[1], each[2]) for each in found] != alike:
            return None
        return gtids.with_run(gtid, found[-1].number)

    def timestamp(self, number: int) -> int:
        """When the transaction with this number ended, by the source's clock, in seconds."""
        return self._timestamps[number]

    def apart(self) -> Iterator[SourceTransaction]:
        """The transactions, each by itself; the memory of all goes over to them."""
        begin = self.begin
        for number, each in enumerate(self._found):
            end = self.place(number)
            items = PlainItems(each.items, self._costs[number], self._quota)
            yield SourceTransaction(begin, end, gtid_of(each), each.timestamp, items, each.size, self.starts)
            begin = end

    def release(self) -> None:
        """Nothing reads the items any more."""
        self.items, self._found = [], ()
        self._quota.release(sum(self._costs))


class RunMemory(NamedTuple):
    """The memory of a run's transactions, by transaction."""

    quota: MemoryQuota
    costs: list[int]


@dataclass(slots=True)
class SourceTransaction:
    """What the source committed at once, or a mere move of the position (no items)."""

    begin: Position
    end: Position
    gtid: Gtid | None
    timestamp: int  # the source's clock, seconds
    items: TransactionItems = field(default_factory=MemoryItems)
    size: int = 0  # bytes of binlog
    starts: int = 0  # how often the run has seen the server start; its sessions of before are no more
    moment: int = 0  # when it was committed, in microseconds, where an order of several sources needs it
    moves: bool = False  # it is no transaction: a file begins or ends here
    writer: Writer = "others"  # who has executed its statement
    brought: Position | None = None  # up to where the source had the target's writes

    @property
    def count(self) -> int:
        """It is one."""
        return 1

    @property
    def empty(self) -> bool:
        """Whether only the position moves."""
        return not len(self.items)


class BroughtBackCheck(Protocol):
    """Judges whether a transaction came from the target of the task that reads it."""

    def is_progress(self, table: TableName) -> bool:
        """Whether tasks write rows of the table together with those that they apply."""
        ...

    def demand_none(self, progress: TableName, tables: Iterable[TableName], position: Position) -> None:
        """Raise DMError where a transaction with this progress and rows of these tables came from the target."""
        ...
