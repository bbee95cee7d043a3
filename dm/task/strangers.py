"""Transactions of a task's source that its opposite has not written, from a place to the present end.

During a cut-over nobody but the two tasks may write. The one that is closed is watched by this, once the way back
writes to it; at the other one it tells what others have done since the fence. The rule is that of the marks
(`dm.sourcelog.stream.marks`): a transaction with rows that the task wants, before which no mark stands. Statements
outside of transactions count as well where that is asked, except on the progress itself: they commit alone, so they
can't be told from those of the opposite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from dm.config import SubtaskConfig
from dm.ident import TableName
from dm.mysql.binlog.event import RawEvent
from dm.mysql.binlog.header import EventType
from dm.mysql.binlog.query import Query
from dm.mysql.binlog.reader import EventParser, TableMapEvent
from dm.position import Position
from dm.progress.opposite import opposite_of
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.marks import MarkTables
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
        elif self.statements and not self._of_progress(query.schema, text):
            self._count(text[:100])

    def _of_progress(self, schema: str, text: str) -> bool:
        """Also in a schema beside it, in which a check tries something out."""
        own = {table.schema.lower() for table in self.marks.rows}
        return schema.lower() in own or any(f"`{each}" in text.lower() for each in own)

    def _count(self, what: str) -> None:
        self._counted = True
        self.found += 1
        self.first = self.first or what


def strangers(config: SubtaskConfig, start: Position, *, statements: bool) -> tuple[int, str]:
    """How many there are after a place of the task's source, and what the first one is; raises DMError."""
    opposite = opposite_of(config)
    assert opposite is not None
    with open_server(config.source.endpoint, f"source {config.source_id}") as source:
        context = Context(config, source, source)
        marks = opposite.tables(folded=source.facts.lower_case_table_names != 0)
        judge = Strangers(marks, TableRules(config).wanted, statements, config.syncer.reading_quota)
        for raw, _, _ in events_after(context, start):
            judge.see(raw)
    return judge.found, judge.first
