"""Transactions of a task's source that its opposite has not written, from a place to the present end.

During a cut-over nobody but the two tasks may write. At the fenced server this finds writes of others once the way back
writes there. At the other server it finds what others have written since the fence. The rule is that of the marks
(`dm.sourcelog.stream.marks`): a transaction with rows that the task wants, before which no mark stands. Statements
outside of transactions count as well where that is asked, except on the progress itself: they commit alone, so they
can't be told from those of the opposite.

A statement is on the progress if each table that it is about stands there, or in a schema in which a check tries
something out. That is asked of the statement as it is parsed. A name in a comment, the session's default schema, or
another schema whose name begins like that of the progress are no signs of the opposite. What is not understood counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dm.config import SubtaskConfig
from dm.downstream.target_schema import scratch_number
from dm.ident import TableName
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.header import EventType
from dm.mysql.binlog.query import Query
from dm.mysql.binlog.reader import EventParser, TableMapEvent
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.effect_on_rows import effect_of
from dm.mysql.sql.statement import read_temporary
from dm.position import Position
from dm.progress.opposite import opposite_of
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.marks import MarkTables
from dm.sourcelog.stream.statement_context import query_context
from dm.task.precheck.context import Context, open_server
from dm.task.precheck.way_back import BETWEEN, events_after, unpacked

_READ: Final = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.TABLE_MAP,
        EventType.TRANSACTION_PAYLOAD,
        EventType.QUERY,
        EventType.MARIADB_QUERY_COMPRESSED,
    }
)
_OF_TRANSACTIONS: Final = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA ", "START TRANSACTION")


@dataclass(slots=True)
class Strangers:
    """Counts them, event by event."""

    marks: MarkTables
    wanted: Callable[[TableName], bool]
    statements: bool  # count, too
    room: int  # bytes of a compressed transaction
    of_opposite: Callable[[Query], bool]  # whether a statement is on its progress alone
    found: int = 0
    first: str = ""
    parser: EventParser = field(init=False)
    _marked: bool = False  # the open transaction
    _counted: bool = False

    def __post_init__(self) -> None:
        self.parser = EventParser(largest_unpacked=self.room)

    def see(self, raw: RawEvent) -> None:
        """The next event."""
        kind = raw.header.type
        if kind in BETWEEN:
            self._marked = self._counted = False
        if kind not in _READ:
            return
        for event in unpacked(self.parser, raw, self.room):
            if isinstance(event, TableMapEvent):
                self._table(TableName(event.table_map.schema, event.table_map.table))
            elif isinstance(event, Query):
                self._statement(event)

    def _table(self, name: TableName) -> None:
        if self.marks.kind(name) == "row":
            self._marked = True
        elif not self._marked and not self._counted and self.wanted(name):
            self._count(f"rows of {name}")

    def _statement(self, query: Query) -> None:
        text = query.readable.lstrip()
        if text.upper().startswith(_OF_TRANSACTIONS):
            self._marked = self._counted = False
        elif self.statements and not self.of_opposite(query):
            self._count(text[:100])

    def _count(self, what: str) -> None:
        self._counted = True
        self.found += 1
        self.first = self.first or what


def on_progress(text: str, context: SourceContext, marks: MarkTables, meta_schema: str) -> bool:
    """Whether a statement is about tables of the opposite's progress alone, or about what a check tries out."""
    temporary = read_temporary(text, context)
    named = effect_of(text, context, lambda table: True).named if temporary is None else temporary.tables
    return bool(named) and all(
        marks.is_progress(table) or scratch_number(table.schema, meta_schema) is not None for table in named
    )


def foreign_transactions(config: SubtaskConfig, start: Position, *, statements: bool) -> tuple[int, str]:
    """How many there are after a place of the task's source, and what the first one is; raises DMError."""
    opposite = opposite_of(config)
    assert opposite is not None
    with open_server(config.source.endpoint, f"source {config.source_id}") as source:
        context = Context(config, source, source)
        marks = opposite.tables(folded=source.facts.lower_case_table_names != 0)

        def of_opposite(query: Query) -> bool:
            # No collation matters for names.
            return on_progress(query.readable, query_context(source.facts, query, {}), marks, opposite.meta_schema)

        judge = Strangers(marks, TableRules(config).wanted, statements, config.syncer.reading_quota, of_opposite)
        for raw, _, _ in events_after(context, start):
            judge.see(raw)
    return judge.found, judge.first
