"""Identifiers on their way into SQL text: the only way there.

A name that came from a server, a file or a user becomes part of a statement only as an `Ident`, which quotes it.
Quoting with backticks is right under every sql_mode, ANSI_QUOTES included (MySQL Reference Manual, "Schema Object
Names").
"""

from __future__ import annotations

from typing import NamedTuple


class Ident(str):
    """One name; its SQL form is quoted, its string form is the name itself."""

    __slots__ = ()

    @property
    def sql(self) -> str:
        """The name in backticks, with backticks inside doubled."""
        return "`" + self.replace("`", "``") + "`"


class TableName(NamedTuple):
    """A schema and a table in it, as the server spells them; an empty table stands for the schema as a whole."""

    schema: str
    table: str

    @property
    def sql(self) -> str:
        """The quoted, schema-qualified form."""
        if not self.table:
            return Ident(self.schema).sql
        return f"{Ident(self.schema).sql}.{Ident(self.table).sql}"

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.table else self.schema
