"""What the ordered lane applies: which tables' changes, and the changes of one large transaction, part by part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.lane_rows import OrderedRecord, OrderedSince
from dm.sourcelog.stream.memory_quota import CHANGE_COST, DECODED_FACTOR, MemoryQuota
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction
from dm.syncer.apply.scattered_table import ScatteredTable
from dm.syncer.apply.source_table import SourceTable

Store = Callable[[TableName, OrderedSince], None]
Destinations = Callable[[TableName], Collection[TableName]]  # the target's tables of a source table


class OrderedTables:
    """Which target tables are changed in order in this run, given the stored routes of earlier runs.

    `dm.progress.lane_rows` has the reasons. Belongs to the dispatcher. `replays`: changes after the checkpoint may
    be done already. `whole`: no transaction is done in part.

    A switch point inside of a transaction counts the row events of the table's own sources: those of other tables may
    not be there for another stream. One that brings tables back alone has only theirs, and so has a run with another
    block-allow list. The tables that share a target are always in one stream.
    """

    def __init__(
        self,
        record: OrderedRecord,
        start: Position,
        store: Store,
        destinations: Destinations,
        *,
        replays: bool,
        whole: bool = False,
    ) -> None:
        self._tables = dict(record.tables)
        self._ahead = {table: since for table, since in self._tables.items() if replays and not _passed(start, since)}
        self._exact = frozenset(self._tables if record.kept else ())
        self._reached = record.reached if record.kept else None
        self._done = record.done
        self._taken_again = record.taken_again
        self._by_key: set[TableName] = set()  # what this run changed by key, before it was past `done`
        self._keyed: set[TableName] = set()  # where a plan of this run is by key
        self._replays = replays
        self._whole = whole
        self._store = store
        self._destinations = destinations
        self._firsts: dict[TableName, int] = {}  # of the row events of a switch's transaction, the first not done

    def after_drain(self) -> None:
        """A DDL has drained the lanes; tables may change their route after it."""
        self._replays = False
        self._ahead.clear()

    def stored(self, table: TableName) -> bool:
        """Whether the table must be changed in order, whatever its present structure."""
        return self._replays and table in self._tables

    def exact(self, table: TableName) -> bool:
        """Whether the table's changes that the ordered lane has not done are certainly not done."""
        return table in self._exact

    def is_done(self, table: TablePlan, transaction: SourceTransaction, number: int, *, lost_key: bool) -> bool:
        """Whether these rows, of the transaction's event with this number, precede the switch; raises DMError.

        The first rows of a table store its switch point. `lost_key`: the target's table has no key, the source's has.
        """
        if table.target not in self._tables:
            return self._begin(table, transaction, number, lost_key=lost_key)
        since = self._ahead.get(table.target)
        if since is None:
            return False
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        same = gtid == since.gtid if gtid and since.gtid else _place(transaction.begin) == _place(since.begin)
        if same:
            return number < self._first_open(table.target, transaction, since.number)
        return _within(transaction, since.begin)

    def learned(self, plan: TablePlan, begin: Position) -> None:
        """The table follows the plan from this transaction on; its earlier changes are committed. Raises DMError."""
        if plan.ordered:
            return
        self._keyed.add(plan.target)
        if self._done is not None and not begin.covers(self._done):
            self._by_key.add(plan.target)
        if plan.target in self._tables:
            del self._tables[plan.target]
            self._store(plan.target, OrderedSince.never(begin))

    def _begin(self, plan: TablePlan, transaction: SourceTransaction, number: int, *, lost_key: bool) -> bool:
        done = self._done
        if done is not None and _within(transaction, done):
            if self._taken_again or plan.target in self._by_key:
                raise _out_of_order(plan, done, transaction)
            self._tables[plan.target] = self._ahead[plan.target] = since = OrderedSince(done, "", 0)
            self._firsts.pop(plan.target, None)
            self._store(plan.target, since)
            return True
        reached = self._reached
        # Earlier runs may not have reached these rows of their last transaction. Then the table never had a key, or its
        # key refuses a row that exists twice.
        if reached is not None and _within(transaction, reached) and (lost_key or not _ends_at(transaction, reached)):
            raise _out_of_order(plan, reached, transaction)
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        # Earlier rows of the transaction may be done by key; where no plan is by key, none of the table's can be.
        before = 0
        if plan.target in self._keyed and not self._whole:
            before = sum(1 for event in self._own_events(plan.target, transaction) if event < number)
        self._tables[plan.target] = since = OrderedSince(transaction.begin, gtid, before)
        self._store(plan.target, since)
        return False

    def _first_open(self, target: TableName, transaction: SourceTransaction, done: int) -> int:
        """Of the transaction's row events the first that is not done, where so many of the table's own are."""
        found = self._firsts.get(target)
        if found is None:
            found = next(islice(self._own_events(target, transaction), done, None), sys.maxsize)
            self._firsts[target] = found
        return found

    def _own_events(self, target: TableName, transaction: SourceTransaction) -> Iterator[int]:
        """The numbers of the row events whose rows go to the table."""
        rows = (item for item in transaction.items if isinstance(item, RowsItem))
        for number, (table_map, _) in enumerate(rows):
            if target in self._destinations(TableName(table_map.schema, table_map.table)):
                yield number


def _out_of_order(plan: TablePlan, until: Position, transaction: SourceTransaction) -> DMError:
    return DMError(
        "replay-out-of-order",
        table=plan.target,
        source_table=plan.source,
        until=until,
        why="foreign keys there join it to others" if plan.keyed else "it has no key by which rows are found",
        position=transaction.end,
    )


def _within(transaction: SourceTransaction, position: Position) -> bool:
    gtid, end = transaction.gtid, transaction.end
    if position.same_files(end) or (gtid is not None and gtid.ordered):
        return position.has_processed(gtid, end)
    return not transaction.begin.covers(position)


def _ends_at(transaction: SourceTransaction, position: Position) -> bool:
    """Whether the transaction ends at the position; on another server, any may."""
    return not position.same_files(transaction.end) or _place(position) == _place(transaction.end)


def _passed(start: Position, since: OrderedSince) -> bool:
    inside = since.number and _place(start) == _place(since.begin)
    return not inside and start.at_or_after(since.begin)


def _place(position: Position) -> tuple[str, str, int]:
    return position.server_uuid, position.file, position.offset


PART_COST = 2 << 20
_PART_SHARE = 4  # of the lanes' memory: a table whose rows are found by a hash is read once for each part


@dataclass(slots=True)
class OrderedRows:
    """A transaction's changes for the ordered lane; if they are too many, only their tables."""

    changes: list[RowChange] = field(default_factory=list)  # empty once they cost more than PART_COST
    cost: int = 0
    tables: dict[int, SourceTable | ScatteredTable] = field(default_factory=dict)  # by their table maps' ids
    # The first row event in the ordered lane of each table of the target, by the table map's id.
    begins: dict[tuple[int, TableName], int] = field(default_factory=dict)

    @property
    def too_many(self) -> bool:
        """Whether the lane has to decode them itself."""
        return self.cost >= PART_COST


def part_cost(plans: Iterable[TablePlan], memory: int) -> int:
    """How much of the lanes' memory a part may take: more only if a large part saves readings of a table."""
    if any(plan.row_hash is not None and not plan.row_hash.refused for plan in plans):
        return max(PART_COST, memory // _PART_SHARE)
    return PART_COST


class ChangeStream:
    """The keyless changes of one large source transaction, decoded part by part while they are applied.

    They are one target transaction, because the lane's row records whole source transactions. So they can't be handed
    over in parts, as changes of keyed tables can. Instead the lane gets the numbers of their items, and decodes. If the
    target rolls the transaction back, the lane reads them again from the start. `release` returns the items.
    """

    def __init__(
        self,
        transaction: SourceTransaction,
        between: tuple[int, int],
        rows: OrderedRows,
        memory: MemoryQuota,
        *,
        safe: bool,
    ) -> None:
        self._transaction = transaction
        self._items = transaction.items
        self._first, self._last = between
        self._tables = {key: table.for_another_thread() for key, table in rows.tables.items()}
        self._begins = dict(rows.begins)
        self._memory = memory
        self._safe = safe
        self.part_cost = 0  # memory of the part that was given last
        self._items.hold()

    @property
    def tables(self) -> frozenset[TableName]:
        """The source's tables that have changes in it."""
        maps = (table.table_map for table in self._tables.values())
        return frozenset(TableName(each.schema, each.table) for each in maps)

    def parts(self) -> Iterator[list[RowChange]]:
        """The changes in order, in lists of bounded size; each list is dropped when the next one is requested."""
        part: list[RowChange] = []
        cost = 0
        most = part_cost([plan for table in self._tables.values() for plan in table.plans], self._memory.total)
        rows = (item for item in islice(self._items, self._first, self._last) if isinstance(item, RowsItem))
        for number, item in enumerate(rows):
            table = self._tables.get(id(item.table_map))
            if table is None or not table.wanted_kinds[item.rows.kind]:
                continue
            changes = self._changes(table, item, number)
            if not changes:
                continue
            part += changes
            cost += DECODED_FACTOR * len(item.rows.data) + CHANGE_COST * len(changes)
            if cost >= most:
                yield from self._lent(part, cost)
                part, cost = [], 0
        if part:
            yield from self._lent(part, cost)

    def _changes(self, table: SourceTable | ScatteredTable, item: RowsItem, number: int) -> list[RowChange]:
        """Those in tables of the target that the lane had begun with by this event of the transaction."""

        def begun(target: TableName) -> bool:
            first = self._begins.get((id(item.table_map), target))
            return first is not None and number >= first

        if isinstance(table, ScatteredTable):
            return table.ordered_changes(item, self._transaction, safe=self._safe, begun=begun)
        if not begun(table.plan.target):
            return []
        return table.ordered_changes(item, self._transaction, safe=self._safe)

    def _lent(self, part: list[RowChange], cost: int) -> Iterator[list[RowChange]]:
        # Never waits: other lanes may hold all the memory, and wait for this one to leave the gate.
        self._memory.force_acquire(cost)
        self.part_cost = cost
        try:
            yield part
        finally:
            self._memory.release(cost)

    def release(self) -> None:
        """The changes are committed."""
        self._items.release()
