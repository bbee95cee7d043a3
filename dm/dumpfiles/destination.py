"""Where the rows of a source table go: a table of the target, and what has to be known to write into it."""

from __future__ import annotations

from dataclasses import dataclass

from dm.ident import TableName
from dm.schema.table import Column


@dataclass(frozen=True, slots=True)
class Destination:
    """A table of the target, for the rows of one source table."""

    target: TableName
    columns: tuple[Column, ...]  # whose values the source sends, in order
    unique: bool  # the target admits some key once only
    constants: tuple[tuple[Column, bytes], ...] = ()  # what routes extract, as literals
    key: tuple[str, ...] = ()  # columns that name a row to a person
    typed: bool = False  # the types of values inside JSON documents count, where they are known
    local_data: bool = False  # the target takes LOAD DATA LOCAL for this table
    own: tuple[tuple[Column, bytes], ...] = ()  # of the target's, which depend on the time zone, as expressions
    computed: tuple[str, ...] = ()  # columns that the target generates of the others

    @property
    def same(self) -> tuple[tuple[Column, bytes], ...]:
        """The columns that all rows fill by the same text."""
        return (*self.constants, *self.own)
