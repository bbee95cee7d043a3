"""Whether a statement that changes rows, written to the binlog as text, changes rows that are replicated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm.ident import TableName
from dm.mysql.binlog.reader import Query

_NAMES_KEPT = 10_000


def changes_rows(
    query: Query,
    tables: Sequence[TableName] | None,
    wanted: Callable[[TableName], bool],
    is_view: Callable[[TableName], bool],
) -> bool:
    """Whether it may change some; `tables` are those that its text writes, where that can be told."""
    if not tables or any(wanted(table) for table in tables):
        return True
    # MySQL tells which schemas were used. One that the text does not write, a trigger may have written.
    named = {table.schema.lower() for table in tables}
    others = [name for name in query.session.updated_schemas or () if name.lower() not in named]
    if query.session.schemas_unlisted or any(wanted(TableName(schema, "")) for schema in others):
        return True
    return any(map(is_view, tables))  # through which other tables are written


class SourceViews:
    """Whether names are views at the source now; what it said is kept until a statement may have changed it."""

    def __init__(self, has_view: Callable[[TableName], bool]) -> None:
        self._has_view = has_view
        self._others: set[TableName] = set()

    def has(self, table: TableName) -> bool:
        """Whether it is a view."""
        if table in self._others:
            return False
        if self._has_view(table):
            return True
        if len(self._others) >= _NAMES_KEPT:
            self._others.clear()
        self._others.add(table)
        return False

    def ask_again(self) -> None:
        """A statement may have made a view, or given its name away."""
        self._others.clear()
