"""CREATE and DROP of temporary tables: which tables they name.

Nothing else matters: a temporary table has no rows in the binlog. MariaDB's temporary sequences share their names with
tables, and the DROP at the end of a session names both as tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.errors import DMError
from dm.ident import TableName
from dm.sql.context import SourceContext
from dm.sql.cursor import Cursor
from dm.sql.grammar import skip_set_statement


@dataclass(frozen=True, slots=True)
class TemporaryTableChange:
    """Temporary tables that a statement creates or drops."""

    created: bool
    tables: tuple[TableName, ...]


def read_temporary(text: str, context: SourceContext) -> TemporaryTableChange | None:
    """The content of a CREATE or DROP TEMPORARY TABLE; None for any other statement."""
    try:
        cursor = Cursor.over(text, context)
        skip_set_statement(cursor)
        created = cursor.accept("CREATE")
        if created:
            cursor.accept("OR", "REPLACE")
        else:
            cursor.expect("DROP")
        cursor.expect("TEMPORARY")
        if not cursor.accept_any("TABLE", "TABLES", "SEQUENCE"):
            return None
        cursor.accept("IF", "NOT", "EXISTS") if created else cursor.accept("IF", "EXISTS")
        tables = [cursor.table().name]
        while not created and cursor.accept(","):
            tables.append(cursor.table().name)
    except DMError:
        return None
    return TemporaryTableChange(created, tuple(tables))
