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

from collections.abc import Callable
from typing import Final, Literal

from dm.binlog.query import Query
from dm.errors import DMError
from dm.ident import TableName
from dm.sql.context import SourceContext
from dm.sql.grammar import Parsed, parse
from dm.sql.lexeme import scan
from dm.sql.operation import CreateTable, RenameTable
from dm.sql.temporary import read_temporary

KEPT: Final = 10_000
_VERBS: Final = ("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE", "SET")

Share = Literal["none", "all", "model", "some"]
"""What of a statement is about temporary tables; `model`: the one that CREATE TABLE .. LIKE copies."""


class TemporaryTables:
    """Follows the statements of one run, in order."""

    def __init__(self, context_of: Callable[[Query], SourceContext]) -> None:
        self._context_of = context_of
        self._tables: dict[tuple[int, TableName], None] = {}  # by thread, the oldest first
        self._life: tuple[str, int] | None = None

    def take(self, query: Query, life: tuple[str, int]) -> Share:
        """What of a statement is about temporary tables, as it finds them; `life` tells the server's lives apart."""
        if life != self._life:
            self._life = life
            self._tables.clear()
        if not query.uses_temporary and not self._tables:
            return "none"
        try:
            return self._take(query, query.readable, self._context_of(query))
        except DMError:
            return "none"  # whoever needs to understand it says so

    def _take(self, query: Query, text: str, context: SourceContext) -> Share:
        head = scan(text, context, 1).lexemes[:1]
        if not head or text[head[0].start : head[0].end].upper() not in _VERBS:
            return "none"
        change = read_temporary(text, context)
        if change is None:
            return self._share(parse(text, context), query, context)
        for table in change.tables:
            self._tables.pop((query.thread_id, table), None)
            if change.created and not query.error_code:
                self._add(query.thread_id, table)
        return "none"

    def _share(self, parsed: Parsed, query: Query, context: SourceContext) -> Share:
        thread = query.thread_id
        operation = parsed.operations[0] if parsed.operations else None
        if isinstance(operation, CreateTable):
            return "model" if operation.like is not None and (thread, operation.like) in self._tables else "none"
        pairs = [pair for each in parsed.operations if isinstance(each, RenameTable) for pair in each.pairs]
        if parsed.verb == "RENAME TABLE":
            if context.flavor != "mariadb":
                return "none"
            moved = {self._rename(thread, old, new) for old, new in pairs}
            return "some" if len(moved) > 1 else "all" if True in moved else "none"
        temporary = query.uses_temporary and (thread, parsed.names[0].name) in self._tables
        if parsed.verb == "DROP TABLE" or not temporary:
            return "none"
        for old, new in pairs:
            self._rename(thread, old, new)
        return "all"

    def _rename(self, thread: int, old: TableName, new: TableName) -> bool:
        """Follow a new name; whether it is that of a temporary table."""
        if (thread, old) not in self._tables:
            return False
        del self._tables[thread, old]
        self._add(thread, new)
        return True

    def _add(self, thread: int, table: TableName) -> None:
        if len(self._tables) >= KEPT:
            del self._tables[next(iter(self._tables))]
        self._tables[thread, table] = None
