"""Tables of tools that change a table by a copy (gh-ost, pt-online-schema-change), recognised by their names.

Such a tool makes a table beside the real one, alters that, copies the rows, and gives it the real one's name in the
end. The copy is the *ghost* (`shadow-table-rules`), everything else that the tool makes is *trash*
(`trash-table-rules`): what the real table is called afterwards, journals, sentries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from dm.config.regex import compile_regex
from dm.ident import TableName

TableKind = Literal["real", "ghost", "trash"]


class OnlineTables:
    """What a table is to an online DDL, by DM's rules: the first expression that matches the whole name decides."""

    def __init__(self, shadow: Iterable[str] = (), trash: Iterable[str] = ()) -> None:
        self._rules: list[tuple[TableKind, str]] = [("ghost", rule) for rule in shadow]
        self._rules += [("trash", rule) for rule in trash]
        self._expressions = [(kind, compile_regex(rule)) for kind, rule in self._rules]

    def kind(self, table: TableName) -> TableKind:
        """What the table is; everything is real without rules."""
        return self._look(table)[0]

    def real(self, table: TableName) -> TableName:
        """The table that a ghost or trash table belongs to; a real one belongs to itself."""
        return self._look(table)[1]

    def rules_of(self, kind: TableKind) -> tuple[str, ...]:
        """The expressions of ghost or trash tables, as written."""
        return tuple(rule for of, rule in self._rules if of == kind)

    def _look(self, table: TableName) -> tuple[TableKind, TableName]:
        for kind, expression in self._expressions:
            found = expression.fullmatch(table.table)
            if found is not None and found[1]:
                return kind, TableName(table.schema, found[1])
        return "real", table
