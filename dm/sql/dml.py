"""Which tables a statement that changes rows writes to, as far as its text tells.

The binlog has such a statement when a session does not write in row format. It can't be replicated exactly, so all that
matters is whether it concerns a replicated table. Only the tables it writes count. INSERT and LOAD name theirs at the
beginning; UPDATE and DELETE can name several, and all of them count. What the text does not say (triggers, stored
functions) is the caller's concern.
"""

from __future__ import annotations

from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dm.errors import DMError
from dm.ident import TableName
from dm.sql.context import SourceContext
from dm.sql.cursor import Cursor

_MODIFIERS: Final = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE")


def written_tables(text: str, context: SourceContext) -> tuple[TableName, ...] | None:
    """The tables of an INSERT, REPLACE, LOAD, UPDATE or DELETE; None if they are unknown."""
    try:
        cursor = Cursor.over(text, context)
        if cursor.accept("SET", "STATEMENT"):
            while not cursor.accept("FOR"):
                cursor.take()
        verb = cursor.accept_any("INSERT", "REPLACE", "LOAD", "UPDATE", "DELETE")
        if verb == "LOAD":
            while not cursor.accept("INTO", "TABLE"):
                cursor.take()
            return (cursor.table().name,)
        while cursor.accept_any(*_MODIFIERS):
            pass
        if verb in ("INSERT", "REPLACE"):
            cursor.accept("INTO")
            return (cursor.table().name,)
        rest = cursor.ahead.source
    except DMError:
        return None
    return _named(f"{verb} {rest}", context)


def _named(text: str, context: SourceContext) -> tuple[TableName, ...] | None:
    try:
        tree = sqlglot.parse_one(text, dialect="mysql")
    except (SqlglotError, RecursionError):
        return None
    if isinstance(tree, exp.Command):
        return None
    found = tuple(TableName(table.db or context.schema, table.name) for table in tree.find_all(exp.Table) if table.name)
    if context.lower_case_names:
        found = tuple(TableName(name.schema.lower(), name.table.lower()) for name in found)
    return found or None
