"""Which temporary tables the sessions of the source have, and so which statements are about those.

A temporary table hides the one that has its name: a TRUNCATE or ALTER that its session writes means the temporary
table, and must not reach the target. The flag LOG_EVENT_THREAD_SPECIFIC_F of the event is not enough to tell. Servers
set it for all DDL of a top-level statement that has used a temporary table, or CONNECTION_ID(), anywhere: a procedure
that fills one and then empties a real table marks both. Nothing else in the event differs.

But a server writes DDL on a temporary table only where it wrote the CREATE TEMPORARY TABLE before, under the same
thread: in sessions with `binlog_format` STATEMENT, in MariaDB also MIXED. So what was created and not dropped since is
known from the binlog itself. A flagged statement is about a temporary table if its thread has one of that name, else
about the real one. What is more:

- DROP TABLE and CREATE TABLE never mean a temporary one: servers write DROP TEMPORARY TABLE, also for one of a DROP
  that names both kinds, and when a session ends. CREATE TABLE .. LIKE may have one as its model.
- RENAME TABLE passes over temporary tables in MySQL. MariaDB renames them, and its event has no flag.
- A server that has just started has no sessions, and another server has others: all is forgotten then.

Two things are not known. One is a temporary table made before the run began: DDL on it is taken for that of the table
which it hides. (Its rows are changed by statements, and the first of those pauses the task.) The other is the oldest
of more than KEPT temporary tables at once, which are forgotten: the same holds for it.
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
from dm.mysql.sql.lexeme import scan
from dm.mysql.sql.operation import CreateTable, RenameTable
from dm.mysql.sql.statement import read_temporary

KEPT: Final = 10_000
_VERBS: Final = ("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "SET")

Share = Literal["none", "all", "model", "some"]
"""What of a statement is about temporary tables; `model`: the one that CREATE TABLE .. LIKE copies."""


@dataclass(frozen=True, slots=True)
class TemporaryTables:
    """Those of one run as of an event. No statement changes it: `after` gives another one."""

    tables: Mapping[tuple[int, TableName], None] = field(default_factory=dict)  # by thread, the oldest first
    life: tuple[str, int] | None = None

    def after(
        self, query: Query, life: tuple[str, int], context_of: Callable[[Query], SourceContext]
    ) -> tuple[Share, TemporaryTables]:
        """What of a statement is about temporary tables, and which there are after it.

        `life` tells the server's lives apart.
        """
        found = self if life == self.life else TemporaryTables(life=life)
        if not query.uses_temporary and not found.tables:
            return "none", found
        draft = _Draft(dict(found.tables))
        try:
            share = draft.take(query, query.readable, context_of(query))
        except DMError:
            return "none", found  # whoever needs to understand it says so
        return share, TemporaryTables(draft.tables, life)


class _Draft:
    """The tables while one statement is read."""

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
        """Follow a new name; whether it is that of a temporary table."""
        if (thread, old) not in self.tables:
            return False
        del self.tables[thread, old]
        self._add(thread, new)
        return True

    def _add(self, thread: int, table: TableName) -> None:
        if len(self.tables) >= KEPT:
            del self.tables[next(iter(self.tables))]
        self.tables[thread, table] = None
