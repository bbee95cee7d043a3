"""Which way the changes of a target table go in this run, where runs before have gone one (`dm.target.progress`)."""

from __future__ import annotations

from collections.abc import Callable

from dm.changes.plan import TablePlan
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.syncer.transaction import SourceTransaction
from dm.target.progress.ordered_tables import OrderedRecord, OrderedSince

Store = Callable[[TableName, OrderedSince | None], None]


class OrderedTables:
    """What is stored of them, and kept up to date; belongs to the dispatcher.

    `replays`: something beyond the checkpoint may be done already.
    """

    def __init__(self, record: OrderedRecord, start: Position, store: Store, *, replays: bool) -> None:
        self._tables = dict(record.tables)
        self._ahead = {table: since for table, since in self._tables.items() if replays and not _passed(start, since)}
        self._exact = frozenset(self._tables if record.kept else ())
        self._reached = record.reached
        self._replays = replays
        self._store = store

    def settle(self) -> None:
        """A DDL has waited for everything; tables may go another way behind it."""
        self._replays = False
        self._ahead.clear()

    def stored(self, table: TableName) -> bool:
        """Whether the table has to go in order, whatever it is like now."""
        return self._replays and table in self._tables

    def exact(self, table: TableName) -> bool:
        """Whether what the ordered lane has not done of the table is surely not done."""
        return table in self._exact

    def is_done(self, table: TableName, transaction: SourceTransaction, number: int) -> bool:
        """Whether these rows came before the table was changed in order."""
        since = self._ahead.get(table)
        if since is None:
            return False
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        same = gtid == since.gtid if gtid and since.gtid else _place(transaction.begin) == _place(since.begin)
        if same:
            return number < since.number
        return since.begin.has_processed(transaction.gtid, transaction.end)

    def learned(self, source: TableName, plan: TablePlan, transaction: SourceTransaction, number: int) -> None:
        """The way of the table as it is from these rows on; everything of it is committed. Raises DMError."""
        table = plan.target
        known = table in self._tables
        if plan.ordered == known:
            return
        if not plan.ordered:
            del self._tables[table]
            self._store(table, None)
            return
        if self._reached is not None and not transaction.begin.covers(self._reached):
            why = "foreign keys there join it to others" if plan.keyed else "it has no key by which its rows are found"
            raise DMError("replay-out-of-order", table=table, source_table=source, until=self._reached, why=why)
        gtid = "" if transaction.gtid is None else str(transaction.gtid)
        self._tables[table] = since = OrderedSince(transaction.begin, gtid, number)
        self._store(table, since)


def _passed(start: Position, since: OrderedSince) -> bool:
    inside = since.number and _place(start) == _place(since.begin)
    return not inside and start.is_behind(since.begin)


def _place(position: Position) -> tuple[str, str, int]:
    return position.server_uuid, position.file, position.offset
