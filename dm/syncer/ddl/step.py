"""What a DDL event comes to: pieces, each with what is to be done with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dm.binlog.query import QuerySession
from dm.binlog.reader import Query
from dm.ident import TableName
from dm.sql.piece import Piece

_NO_QUERY = Query("", b"", QuerySession(), 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class CutOver:
    """A ghost table that takes a real one's place; before it does, `pieces` must have the same result."""

    ghost: TableName
    real: TableName
    old: TableName  # where the real one's structure is tracked
    pieces: tuple[Piece, ...]
    statement: str


@dataclass(slots=True)
class Step:
    """One piece and what is to be done with it.

    `track`: follow it; follow it or, where that is impossible, know its tables no more; know them no more; or leave
    what is known.
    """

    piece: Piece
    execute: bool  # False: only track it
    track: Literal["yes", "if possible", "forget", "no"] = "yes"
    query: Query = field(default_factory=lambda: _NO_QUERY)  # whose session it is executed in
    kept: frozenset[TableName] = frozenset()  # tables whose structure is known to be another already
    cut_over: CutOver | None = None  # to be proved first
    copied_to: TableName | None = None  # the ghost table whose rows those of this piece's table must equal
    whole: Piece | None = None  # the ALTER that this event's steps are all of, as the source executed it
    by_hand: bool = False  # a person's, who knows what it does to the rows

    def within(self, query: Query) -> Step:
        """The step in the session of an event, where it has none of its own."""
        if self.query is _NO_QUERY:
            self.query = query
        return self
