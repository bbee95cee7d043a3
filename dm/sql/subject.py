"""What a statement is about if the rest is not understood: the tables and sequences that its head names.

That is enough for a statement on an unwanted object: it does nothing to the followed tables. A statement that could
move a table into or out of the task's scope has no subjects here.
"""

from __future__ import annotations

from dm.errors import DMError
from dm.ident import TableName
from dm.sql.context import SourceContext
from dm.sql.cursor import Cursor
from dm.sql.grammar import skip_set_statement

_OF_A_TABLE = ("COLUMN", "INDEX", "KEY")


def subjects(text: str, context: SourceContext) -> tuple[TableName, ...]:
    """The tables and sequences that a CREATE, ALTER or DROP can change; empty if its head does not tell."""
    try:
        cursor = Cursor.over(text, context)
        skip_set_statement(cursor)
        verb = cursor.accept_any("CREATE", "ALTER", "DROP")
        cursor.accept("OR", "REPLACE")
        while cursor.accept_any("ONLINE", "OFFLINE", "IGNORE"):
            pass
        kind = cursor.accept_any("TABLE", "SEQUENCE")
        if not verb or not kind:
            return ()
        cursor.accept("IF", "NOT", "EXISTS") or cursor.accept("IF", "EXISTS")
        names = [cursor.table().name]
        while verb == "DROP" and cursor.accept(","):
            names.append(cursor.table().name)
        return () if verb == "ALTER" and _moves(cursor) else tuple(names)
    except DMError:
        return ()


def _moves(cursor: Cursor) -> bool:
    """Whether an ALTER may give a table another name, or exchange its rows with another one's."""
    while not cursor.done:
        word = cursor.take().upper
        if word == "EXCHANGE" or (word == "RENAME" and cursor.word() not in _OF_A_TABLE):
            return True
        if word == "CONVERT" and not (cursor.sees("TO", "CHARACTER") or cursor.sees("TO", "CHARSET")):
            return True
    return False
