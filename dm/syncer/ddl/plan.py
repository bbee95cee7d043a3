"""What one statement demands, decided before anything is done. A plan that is thrown away has changed nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dm.ident import TableName
from dm.position import Position
from dm.progress.online import OnlineRecord
from dm.syncer.ddl.step import CutOver, Execute, Forget, PieceStep, Step
from dm.syncer.ddl.temporary_tables import TemporaryTables


@dataclass(frozen=True, slots=True)
class DdlPlan:
    """Steps in order, and what is to be known with them; no steps where the statement concerns nobody."""

    temporary: TemporaryTables  # which there are behind the statement
    steps: tuple[Step, ...] = ()
    # Of names that the dump never saw: stored before the steps.
    points: Mapping[TableName, Position] = field(default_factory=dict)
    # Changed records of online DDL: stored with the checkpoint behind the steps. None: there is no record any more.
    online: Mapping[TableName, OnlineRecord | None] = field(default_factory=dict)
    views_may_change: bool = False  # what the source said of them is to be asked again
    passed_over: str = ""  # for the log: why it is not understood, though it is about nothing that is migrated

    @property
    def pieces(self) -> tuple[PieceStep, ...]:
        """The steps that are about a piece; a step's place here is its number."""
        return tuple(step for step in self.steps if not isinstance(step, CutOver))

    @property
    def behind_executed(self) -> int:
        """The number behind the last piece that is executed."""
        return max((number + 1 for number, step in enumerate(self.pieces) if isinstance(step, Execute)), default=0)

    @property
    def followed(self) -> set[TableName]:
        """The tables whose structures follow the steps."""
        steps = (step for step in self.pieces if isinstance(step, Forget) or step.track != "not")
        return {table for step in steps for table in step.piece.tables}
