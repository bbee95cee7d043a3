"""A piece: one statement for the target, with one operation if possible. `split.py` makes pieces of a statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dm.errors import DMError
from dm.ident import TableName
from dm.sql.context import SourceContext
from dm.sql.cursor import NameRef
from dm.sql.event import events_of
from dm.sql.grammar import parse
from dm.sql.operation import CreateTable, Operation, RenameTable
from dm.sql.splice import Mapping, splice
from dm.sql.token import tokenize


@dataclass(frozen=True)
class Piece:
    """A statement with one operation, or with several that are invalid alone."""

    text: str
    verb: str
    operations: tuple[Operation, ...]
    names: tuple[NameRef, ...]
    context: SourceContext
    # DM's event names of the statement that it is a part of, where a filter takes all of that or nothing.
    whole_events: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, context: SourceContext) -> Piece:
        """The piece that is a whole statement."""
        parsed = parse(text, context)
        return cls(parsed.text, parsed.verb, parsed.operations, parsed.names, context)

    @property
    def operation(self) -> Operation | None:
        """The operation, or the first one; None for an ALTER TABLE without operations."""
        return self.operations[0] if self.operations else None

    @property
    def table(self) -> TableName:
        """The table (or schema) the statement is about."""
        return self.names[0].name

    @cached_property
    def tables(self) -> tuple[TableName, ...]:
        """All tables that the statement names and may change, as the source names them."""
        return tuple(dict.fromkeys(ref.name for ref in self.names if not ref.foreign))

    @cached_property
    def references(self) -> tuple[TableName, ...]:
        """Parent tables of foreign keys that it names."""
        return tuple(dict.fromkeys(ref.name for ref in self.names if ref.foreign))

    @cached_property
    def renames(self) -> tuple[tuple[TableName, TableName], ...]:
        """Old and new names of the tables that it renames, in order."""
        return tuple(pair for one in self.operations if isinstance(one, RenameTable) for pair in one.pairs)

    @cached_property
    def passes_through(self) -> bool:
        """Whether it gives a table a name that it takes away again, as `x` of `a TO x, b TO a, x TO b`."""
        return bool(_between(self.renames))

    @cached_property
    def made(self) -> frozenset[TableName]:
        """The tables that it creates."""
        if isinstance(self.operation, CreateTable):
            return frozenset({self.operation.table})
        return frozenset(new for _, new in self.renames)

    @cached_property
    def changed(self) -> tuple[TableName, ...]:
        """The tables that it changes.

        CREATE TABLE .. LIKE only reads its model. A name used only to swap tables belongs to no table, before or after.
        """
        first = self.operation
        unchanged = {first.like} if isinstance(first, CreateTable) else _between(self.renames)
        return tuple(table for table in self.tables if table not in unchanged)

    @cached_property
    def events(self) -> tuple[str, ...]:
        """DM's event names of the operations, for filters; one operation may have several."""
        if self.whole_events:
            return self.whole_events
        found = dict.fromkeys(event for operation in self.operations for event in events_of(operation, self.verb))
        return tuple(found) or ("alter table",)

    @property
    def event(self) -> str:
        """DM's event name of the first operation."""
        return self.events[0]

    def routed(self, mapping: Mapping) -> str:
        """The text with the target's names, each qualified with its schema."""
        return self.route(mapping).text

    def route(self, mapping: Mapping) -> Piece:
        """The piece with the target's names; fails if anything but the names differs."""
        tokens = tokenize(self.text, self.context)
        target_context = replace(
            self.context, schema="", ansi_quotes=False, no_backslash_escapes=False, lower_case_names=False
        )
        text, expected = splice(self.text, tokens, self.names, mapping, self.context)
        found = [token.meaning for token in tokenize(text, target_context)]
        if found != expected:
            raise DMError("ddl-splice-mismatch", statement=self.text, why="the new text reads differently")
        piece = Piece.of(text, target_context)
        wanted = [mapping(ref.name) for ref in self.names]
        if [ref.name for ref in piece.names] != wanted or len(piece.operations) != len(self.operations):
            raise DMError("ddl-splice-mismatch", statement=self.text, why="the new text names other tables")
        return piece


def _between(renames: Sequence[tuple[TableName, TableName]]) -> set[TableName | None]:
    """The names that exist only inside a RENAME TABLE: `x` of `a TO x, b TO a, x TO b`."""
    made: set[TableName] = set()
    found: set[TableName | None] = set()
    taken: set[TableName] = set()
    for old, new in renames:
        (found if old in made else taken).add(old)
        made.discard(old)
        made.add(new)
    return found - taken - made
