"""The steps of a plan. Four kinds, all frozen: execution knows nothing else of a statement.

    Execute     run a piece at the target, then follow it
    TrackOnly   follow a piece that the target does not get, because the rows after it have its structure
    Forget      know the structure of a piece's tables no more
    CutOver     prove that a ghost table may take a real one's place

Each step but a cut-over has a number, its place among those: intents are stored under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.piece import Piece
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.syncer.apply.structures import TargetNames
from dm.syncer.ddl.session import DdlSession

Tracking = Literal["exactly", "if possible", "not"]
"""Follow it; follow it or, where that is impossible, know its tables no more; or leave what is known."""


@dataclass(frozen=True, slots=True)
class MovedAway:
    """A table that an online DDL moved to a trash name at the source; the target has it still."""

    real: TableName
    trash: TableName


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a piece at the target, in the session of its event."""

    piece: Piece
    query: Query
    track: Tracking = "exactly"
    copied_to: TableName | None = None  # the ghost table whose rows those of this piece's table must equal
    by_hand: bool = False  # a person's, who knows what it does to the rows
    kept: frozenset[TableName] = frozenset()  # tables whose structure is known to be another already
    moved_away: MovedAway | None = None  # whose name the piece gives to another table
    whole: Piece | None = None  # the ALTER that this event's steps are all of, as the source executed it
    whole_moved_away: MovedAway | None = None

    @property
    def as_a_whole(self) -> Execute | None:
        """The step for the whole ALTER; None where the event's steps are not all of one."""
        return None if self.whole is None else replace(self, piece=self.whole, moved_away=self.whole_moved_away)


@dataclass(frozen=True, slots=True)
class TrackOnly:
    """Follow a piece that is not executed."""

    piece: Piece
    track: Tracking = "exactly"
    kept: frozenset[TableName] = frozenset()  # tables whose structure is known to be another already


@dataclass(frozen=True, slots=True)
class Forget:
    """Know the structure of the tables that a piece changes no more; it is found again when their next rows come."""

    piece: Piece
    kept: frozenset[TableName] = frozenset()


@dataclass(frozen=True, slots=True)
class CutOver:
    """A ghost table that takes a real one's place; before it does, `pieces` must have the same result."""

    ghost: TableName
    real: TableName
    old: TableName  # where the real one's structure is tracked
    pieces: tuple[Piece, ...]
    statement: str


PieceStep = Execute | TrackOnly | Forget
Step = PieceStep | CutOver


def tracked(steps: Iterable[Step], track: Tracking) -> list[Step]:
    """The steps, each followed in this way; what would only be followed goes where nothing is."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Execute):
            found.append(replace(step, track=track))
        elif isinstance(step, CutOver):
            found.append(step)
        elif track != "not":
            found.append(TrackOnly(step.piece, track, step.kept))
    return found


# A piece that is about to be executed, and all that a check may ask about it.


@dataclass(frozen=True, slots=True)
class DdlSource:
    """The source's side of a step."""

    rules: TableRules
    tracker: SchemaTracker  # its structures before the piece
    has_table: Callable[[TableName], bool]  # now


@dataclass(frozen=True, slots=True)
class DdlTarget:
    """The target's side of a step."""

    schemas: TargetSchemas
    session: DdlSession
    names: TargetNames
    strict_collations: bool = False


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """One step at the moment of the checks; nobody else looks at its table or alters it."""

    step: Execute
    target_piece: Piece  # routed, in the words that mean at the target what it meant at the source
    now: Mapping[TableName, TableSchema | None]  # the target's tables that the piece names, and schemas
    effective: bool  # the target has its effect already, so nothing will be executed
    position: Position
    source: DdlSource
    target: DdlTarget

    @property
    def piece(self) -> Piece:
        """The piece under the source's names."""
        return self.step.piece

    @property
    def table_now(self) -> TableSchema | None:
        """The target's table that the piece is about; None where there is none."""
        return self.now.get(self.target_piece.table)


Check = Callable[[CheckedStep], None]
"""Raises DMError where the piece must not be executed, or must not count as done."""
