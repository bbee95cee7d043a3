"""Which temporary tables the source's sessions have, and so which statements are about them.

A temporary table hides the table with its name: its session's TRUNCATE or ALTER means the temporary table, and must not
reach the target. The event's flag LOG_EVENT_THREAD_SPECIFIC_F does not decide. Servers set it for all DDL of a
top-level statement that has used a temporary table, or CONNECTION_ID(), anywhere: a procedure that fills a temporary
table and then empties a real one marks both. Nothing else in the event differs.

But a server logs DDL on a temporary table only if it logged its CREATE TEMPORARY TABLE before, under the same thread:
in sessions with `binlog_format` STATEMENT, in MariaDB also MIXED. So the binlog itself tells which temporary tables
exist. A flagged statement is about a temporary table if its thread has one of that name, else about the real one.
Besides:

- DROP TABLE and CREATE TABLE never mean a temporary table: servers write DROP TEMPORARY TABLE, also for the temporary
  ones of a mixed DROP, and at the end of a session. CREATE TABLE .. LIKE may copy a temporary table.
- RENAME TABLE ignores temporary tables in MySQL. MariaDB renames them, without a flag in the event.
- After a restart of the server, or on another server, all temporary tables are forgotten.

Two kinds stay unknown: temporary tables from before the run began, and the oldest ones beyond KEPT. DDL on such a table
is taken for DDL on the table that it hides. (Statements change its rows, and the first of those pauses the task.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import Query
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.grammar import Parsed, parse
from dm.mysql.sql.operation import CreateTable, RenameTable
from dm.mysql.sql.statement import read_temporary
from dm.mysql.sql.token import scan

KEPT: Final = 10_000
_VERBS: Final = ("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "SET")

Share = Literal["none", "all", "model", "some"]
"""How much of a statement is about temporary tables; `model`: CREATE TABLE .. LIKE copies one."""


@dataclass(frozen=True, slots=True)
class TemporaryTables:
    """A run's temporary tables as of an event; immutable."""

    tables: Mapping[tuple[int, TableName], None] = field(default_factory=dict)  # by thread, the oldest first
    life: tuple[str, int] | None = None

    def after(
        self, query: Query, life: tuple[str, int], context_of: Callable[[Query], SourceContext]
    ) -> tuple[Share, TemporaryTables]:
        """How much of a statement is about temporary tables, and which exist after it.

        `life` identifies the server and its uptime.
        """
        found = self if life == self.life else TemporaryTables(life=life)
        if not query.uses_temporary and not found.tables:
            return "none", found
        draft = _Draft(dict(found.tables))
        try:
            share = draft.take(query, query.readable, context_of(query))
        except DMError:
            return "none", found  # the planner reports what it can't read
        return share, TemporaryTables(draft.tables, life)


class _Draft:
    """The tables while one statement is parsed."""

    def __init__(self, tables: dict[tuple[int, TableName], None]) -> None:
        self.tables = tables

    def take(self, query: Query, text: str, context: SourceContext) -> Share:
        head = scan(text, context, 1).lexemes[:1]
        if not head or text[head[0].start : head[0].end].upper() not in _VERBS:
            return "none"
        change = read_temporary(text, context)
        if change is None:
            return self._share(parse(text, context), query, context)
        for table in change.tables:
            self.tables.pop((query.thread_id, table), None)
            if change.created and not query.error_code:
                self._add(query.thread_id, table)
        return "none"

    def _share(self, parsed: Parsed, query: Query, context: SourceContext) -> Share:
        thread = query.thread_id
        operation = parsed.operations[0] if parsed.operations else None
        if isinstance(operation, CreateTable):
            return "model" if operation.like is not None and (thread, operation.like) in self.tables else "none"
        pairs = [pair for each in parsed.operations if isinstance(each, RenameTable) for pair in each.pairs]
        if parsed.verb == "RENAME TABLE":
            if not context.dialect.renames_temporaries:
                return "none"
            moved = {self._rename(thread, old, new) for old, new in pairs}
            return "some" if len(moved) > 1 else "all" if True in moved else "none"
        temporary = query.uses_temporary and (thread, parsed.names[0].name) in self.tables
        if parsed.verb == "DROP TABLE" or not temporary:
            return "none"
        for old, new in pairs:
            self._rename(thread, old, new)
        return "all"

    def _rename(self, thread: int, old: TableName, new: TableName) -> bool:
        """Follow a rename; whether it is a temporary table."""
        if (thread, old) not in self.tables:
            return False
        del self.tables[thread, old]
        self._add(thread, new)
        return True

    def _add(self, thread: int, table: TableName) -> None:
        if len(self.tables) >= KEPT:
            del self.tables[next(iter(self.tables))]
        self.tables[thread, table] = None
