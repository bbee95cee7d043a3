"""A piece that is about to be executed, and all that a check may ask about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.sql.piece import Piece
from dm.syncer.apply.target_names import TargetNames
from dm.syncer.ddl.session import DdlSession
from dm.syncer.ddl.step import Execute


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
