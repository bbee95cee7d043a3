"""From transactions to the lanes: rows in parts, statements as barriers between them.

A transaction is never decoded whole, but part by part. The changes of keyed tables go to the lanes at once, and may be
committed long before the last part is read. That is safe for two reasons. The completion of the transaction counts all
changes, so the checkpoint stays before it. And each lane's row names the transaction's end, so the next run finds it in
the bound B and replays the transaction in safe mode (I3, I4 of `dm.progress.protocol`).

`ReadingAhead` parses the next statement while the target executes the current one. Parsing a statement takes longer
than asking the target for it, and a statement waits for the one before it. So a thread parses what comes next in the
queue, and routes it. It keeps and decides nothing: the caches of `dm.mysql.sql.token` and `dm.mysql.sql.grammar` hold
what it has parsed until the statement's turn. Unreadable text is reported then, too. A defect of dm is logged here and
stops nothing: a person may skip the statement, and then its turn never comes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.inline_references import without_ignored_references
from dm.mysql.sql.split import split
from dm.mysql.sql.statement import kind_of
from dm.position import Position
from dm.progress.operators import Operator
from dm.sourcelog.stream.reader import concerns_event
from dm.sourcelog.stream.transaction import (
    MemoryItems,
    PlainItems,
    RowsItem,
    SourceTransaction,
    StatementItem,
    TransactionRun,
)
from dm.syncer.apply.completion import CompletionTracker
from dm.syncer.apply.lanes import Lanes, Stopped
from dm.syncer.apply.row_placing import RowPlacing
from dm.syncer.ddl.barrier import DdlBarrier
from dm.syncer.ddl.plan import StatementEvent
from dm.syncer.operators import EventPlace, Operators, first_byte

PART_BYTES: Final = 256 << 10  # of row events


class Dispatcher:
    """Gives transactions to the lanes, in order; belongs to the unit's own thread."""

    def __init__(
        self,
        rows: RowPlacing,
        ddl: DdlBarrier,
        operators: Operators,
        completions: CompletionTracker,
        lanes: Lanes,
        stopping: Callable[[], bool],
    ) -> None:
        self._rows = rows
        self._ddl = ddl
        self._operators = operators
        self._completions = completions
        self._lanes = lanes
        self._stopping = stopping
        self._statement: int | None = None  # where the current statement begins
        self._query: Query | None = None  # it
        self._injecting: Operator | None = None

    def dispatch(self, transaction: SourceTransaction) -> None:
        """Hand over everything; raises DMError, or Stopped between two parts when the run should end."""
        self._statement = self._injecting = self._query = None
        try:
            operators = self._operators.of(transaction)
            if self._operators.changed_in(transaction):
                self._ddl.forget_intent()
            self._dispatch(transaction, self._prepare(operators, transaction) if operators else {})
        except DMError as error:
            if concerns_event(error):
                # The start of the event: the position for `dmctl binlog --binlog-pos` and mysqlbinlog.
                place = self._place(transaction)
                error.place = place.to_json()
                error.position = str(Position(place.server_uuid, place.file, place.offset))
                error.tables = error.tables or self._named()
            raise

    def _named(self) -> frozenset[TableName]:
        """The tables of the current statement, if there is one."""
        return frozenset() if self._query is None else self._ddl.named(self._query)

    def dispatch_run(self, run: TransactionRun) -> None:
        """The same for a run: at once, or where that is not possible, one after the other."""
        self._statement = self._injecting = self._query = None
        self._ddl.store_end()
        made = self._rows.changes_of_run(run)
        if made is not None and self._operators.passes(run.end):
            self._rows.place(made, self._completions.open_run(run, made.ends))
            run.release()
            return
        for transaction in run.apart():
            self.dispatch(transaction)

    def source_rests(self) -> None:
        """There is no transaction for now."""
        self._ddl.store_end()
        self._lanes.source_rests()

    def _place(self, transaction: SourceTransaction) -> EventPlace:
        """Where the current event begins; for rows, where their transaction begins."""
        end, begin = transaction.end, first_byte(transaction)
        if self._injecting is not None:
            statement = any(isinstance(item, StatementItem) for item in transaction.items)
            return EventPlace(end.server_uuid, end.file, self._injecting.offset, statement)
        start = self._statement
        if start is None:
            return EventPlace(end.server_uuid, end.file, begin)
        # The events of an XA transaction are elsewhere.
        return EventPlace(end.server_uuid, end.file, start if begin <= start < end.offset else begin, statement=True)

    def _prepare(self, operators: Sequence[Operator], transaction: SourceTransaction) -> Mapping[int, Operator]:
        """Execute the injects, which precede the transaction; returns the other operators by their items' numbers."""
        statements = {number: item for number, item in enumerate(transaction.items) if isinstance(item, StatementItem)}
        chosen: dict[int, Operator] = {}
        for operator in operators:
            if operator.action == "inject":
                continue
            exact = [number for number, item in statements.items() if item.start == operator.offset]
            if not exact and len(statements) != 1:
                there = f"one of {len(statements)} statements is meant" if statements else "there are only rows"
                task = self._operators.task
                raise DMError(
                    "operator-without-statement",
                    action=operator.action,
                    place=operator.place,
                    there=there,
                    task=task,
                    position=transaction.end,
                )
            chosen[exact[0] if exact else next(iter(statements))] = operator
        for operator in operators:
            if operator.action == "inject" and operator.to_come:
                self._injecting = operator
                self._ddl.inject(operator, transaction)
                self._injecting = None
        return chosen

    def _dispatch(self, transaction: SourceTransaction, operators: Mapping[int, Operator]) -> None:
        rows, items = self._rows, transaction.items
        ticket = self._completions.open(transaction.end, transaction.timestamp, transaction.begin, transaction.moment)
        ticket.brought = transaction.brought
        if isinstance(items, PlainItems):
            self._ddl.store_end()
            given = rows.take(items.rows, ticket, transaction) + rows.finish(0, len(items), ticket, transaction)
            self._completions.close(ticket, given)
            items.release()
            return
        given = 0
        first = 0  # number of the first item after the last DDL
        part: list[RowsItem] = []
        size = 0
        for number, item in enumerate(items):
            if isinstance(item, RowsItem):
                self._ddl.store_end()
                part.append(item)
                size += len(item.rows.data)
                if size >= PART_BYTES:
                    given += rows.take(part, ticket, transaction)
                    part, size = [], 0
                    if self._stopping():
                        raise Stopped
                continue
            self._statement, self._query = item.start, item.query
            planned = self._ddl.plan(StatementEvent(item.query, transaction, operators.get(number)))
            self._ddl.accept(planned)
            if planned.steps:
                given += rows.take(part, ticket, transaction) + rows.finish(first, number, ticket, transaction)
                part, size, first = [], 0, number + 1
                rows_follow = any(isinstance(later, RowsItem) for later in islice(items, first, None))
                self._ddl.run(planned, transaction.end, transaction.begin if rows_follow else transaction.end)
            self._statement = self._query = None
        given += rows.take(part, ticket, transaction) + rows.finish(first, len(items), ticket, transaction)
        self._completions.close(ticket, given)
        items.release()


_LOG = logging.getLogger(__name__)
_ITEMS: Final = 4
"""How many items of a transaction are looked at: in a longer one, the rows take the time."""


@dataclass(frozen=True, slots=True)
class StatementReading:
    """How a statement is parsed and routed."""

    context_of: Callable[[Query], SourceContext]
    followed: Callable[[TableName], bool]
    route: Callable[[TableName], TableName]
    singly: bool = False  # as in `dm.syncer.ddl.plan.SourceAnswers`
    replaces: bool = True


class ReadingAhead:
    """Parses ahead on demand; `following` returns the transaction that the dispatcher will take next, if any."""

    def __init__(self, following: Callable[[], SourceTransaction | None], reading: StatementReading) -> None:
        self._following = following
        self._reading = reading
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._present: Future[None] | None = None

    def begin(self) -> None:
        """Parse the next transaction's statements in the thread, unless it is busy."""
        if self._present is None or self._present.done():
            following = self._following()
            if following is not None and not following.empty:
                self._present = self._thread.submit(self.read, following)
                self._present.add_done_callback(_logged)

    def read(self, transaction: SourceTransaction) -> None:
        """Parse the statements of a transaction."""
        with suppress(DMError):  # a faulty statement is reported in its turn
            for query in _statements(transaction):
                self._read(query)

    def _read(self, query: Query) -> None:
        reading = self._reading
        context = reading.context_of(query)
        if kind_of(query.text, context) != "ddl":
            return
        text = without_ignored_references(query.text, context)
        for piece in split(text, context, singly=reading.singly, replaces=reading.replaces):
            if any(map(reading.followed, piece.tables)):
                piece.route(reading.route)

    def close(self) -> None:
        """End the thread after its current work."""
        self._thread.shutdown()


def _logged(reading: Future[None]) -> None:
    defect = reading.exception()
    if defect is not None:
        _LOG.error("a statement can't be read ahead of its turn", exc_info=defect)


def _statements(transaction: SourceTransaction) -> Sequence[Query]:
    items = transaction.items
    if not isinstance(items, MemoryItems) or isinstance(items, PlainItems):
        return ()  # only rows, or spooled to a file
    return [item.query for item in islice(items, _ITEMS) if isinstance(item, StatementItem)]
