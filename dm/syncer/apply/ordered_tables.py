"""How the changes of a target table are routed in this run, given the routes of earlier runs (`dm.progress`)."""

from __future__ import annotations

from collections.abc import Callable

from dm.changes.plan import TablePlan
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.ordered_tables import OrderedRecord, OrderedSince
from dm.sourcelog.stream.transaction import SourceTransaction

Store = Callable[[TableName, OrderedSince], None]


class OrderedTables:
    """The stored routes, kept up to date; belongs to the dispatcher.

    `replays`: something beyond the checkpoint may be done already. `whole`: no transaction is done in part.
    """

    def __init__(
        self, record: OrderedRecord, start: Position, store: Store, *, replays: bool, whole: bool = False
    ) -> None:
        self._tables = dict(record.tables)
        self._ahead = {table: since for table, since in self._tables.items() if replays and not _passed(start, since)}
        self._exact = frozenset(self._tables if record.kept else ())
        self._reached = record.reached if record.kept else None
        self._done = record.done
        self._taken_again = record.taken_again
        self._by_key: set[TableName] = set()  # what this run changed by key, before it was past `done`
        self._replays = replays
        self._whole = whole
        self._store = store

    def settle(self) -> None:
        """A DDL has waited for everything; tables may change their route after it."""
        self._replays = False
        self._ahead.clear()

    def stored(self, table: TableName) -> bool:
        """Whether the table has to be changed in order, whatever its structure is now."""
        return self._replays and table in self._tables

    def exact(self, table: TableName) -> bool:
        """Whether what the ordered lane has not done of the table is surely not done."""
        return table in self._exact

    def is_done(self, table: TablePlan, transaction: SourceTransaction, number: int, *, lost_key: bool) -> bool:
        """Whether these rows precede the table's switch to the ordered lane; raises DMError.

        If they are the first to switch, this is stored. `lost_key`: unlike the source's, the table has no key at all.
        """
        if table.target not in self._tables:
            return self._begin(table, transaction, number, lost_key=lost_key)
        since = self._ahead.get(table.target)
        if since is None:
            return False
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        same = gtid == since.gtid if gtid and since.gtid else _place(transaction.begin) == _place(since.begin)
        if same:
            return number < since.number
        return _within(transaction, since.begin)

    def learned(self, plan: TablePlan, begin: Position) -> None:
        """The table follows the plan from this transaction on; earlier changes are committed. Raises DMError."""
        if plan.ordered:
            return
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
            self._store(plan.target, since)
            return True
        reached = self._reached
        # Earlier runs may not have reached these rows of their last transaction. Then the table never had a key, or its
        # key refuses a row that exists twice.
        if reached is not None and _within(transaction, reached) and (lost_key or not _ends_at(transaction, reached)):
            raise _out_of_order(plan, reached, transaction)
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        self._tables[plan.target] = since = OrderedSince(transaction.begin, gtid, 0 if self._whole else number)
        self._store(plan.target, since)
        return False


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
    """Whether this is the last transaction before; on another server it may be any."""
    return not position.same_files(transaction.end) or _place(position) == _place(transaction.end)


def _passed(start: Position, since: OrderedSince) -> bool:
    inside = since.number and _place(start) == _place(since.begin)
    return not inside and start.at_or_after(since.begin)


def _place(position: Position) -> tuple[str, str, int]:
    return position.server_uuid, position.file, position.offset
