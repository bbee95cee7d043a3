"""What one statement demands, decided before anything is done. A plan that is thrown away has changed nothing.

What a plan is made from: the event, and all that is known when it is read.

Nothing here writes. `PlanningState` is never changed. It is replaced as a whole after a plan was carried out, so
planning an event twice gives equal plans.

An error that nobody foresaw, on the way of a statement: a pause that names the statement, never more than that.

A statement is the one thing in the binlog that anybody may write in a new way. What breaks over it is a defect of ours,
but the task must say which statement it is and where, and the ways out of every other pause must be open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from dm.errors import DMError, said
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.position import Position
from dm.progress.online import OnlineRecord
from dm.progress.operators import Operator
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.origin import PresentTable
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply.lanes import Stopped
from dm.syncer.ddl.step import CutOver, Execute, Forget, PieceStep, Step
from dm.syncer.ddl.temporary_tables import TemporaryTables


@dataclass(frozen=True, slots=True)
class DdlPlan:
    """Steps in order, and what is to be known with them; no steps where the statement concerns nobody."""

    temporary: TemporaryTables  # that exist after the statement
    steps: tuple[Step, ...] = ()
    # Of names that the dump never saw: stored before the steps.
    points: Mapping[TableName, Position] = field(default_factory=dict)
    # Changed records of online DDL: stored with the checkpoint after the steps. None: there is no record any more.
    online: Mapping[TableName, OnlineRecord | None] = field(default_factory=dict)
    views_may_change: bool = False  # what the source said of them is to be asked again
    passed_over: str = ""  # for the log: why it is not understood, though it is about nothing that is migrated

    @property
    def pieces(self) -> tuple[PieceStep, ...]:
        """The steps that are about a piece; a step's place here is its number."""
        return tuple(step for step in self.steps if not isinstance(step, CutOver))

    @property
    def after_executed(self) -> int:
        """The number after the last piece that is executed."""
        return max((number + 1 for number, step in enumerate(self.pieces) if isinstance(step, Execute)), default=0)

    @property
    def followed(self) -> set[TableName]:
        """The tables whose structures follow the steps."""
        steps = (step for step in self.pieces if isinstance(step, Forget) or step.track != "not")
        return {table for step in steps for table in step.piece.tables}


class KnownStructures(Protocol):
    """The source's structures at the event; read only."""

    def get(self, table: TableName) -> TableSchema | None:
        """The structure of a table; None when it is not known."""
        ...

    def told_charset(self, schema: str) -> Collated | None:
        """The default of a schema; None when it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class SourceAnswers:
    """What is asked of the source's server and its session."""

    context_of: Callable[[Query], SourceContext]
    is_view: Callable[[TableName], bool]  # now
    present: Callable[[TableName], PresentTable | None]  # now
    cascades_lost: bool = False  # neither the source logs what foreign keys do nor will the target do it
    singly: bool = False  # the target takes few operations of one statement together (`dm.mysql.sql.split`)
    replaces: bool = True  # the target has CREATE OR REPLACE (`dm.mysql.sql.split`)


@dataclass(frozen=True, slots=True)
class DumpWindow:
    """What the dump leaves to be known: which tables it read after L, and where it ended."""

    points: Mapping[TableName, Position]
    # After a crash the bound is no further than the last DDL, so it finds none.
    until: Position | None = None


@dataclass(frozen=True, slots=True)
class PlanningState:
    """What is known of both sides before an event."""

    rules: TableRules
    structures: KnownStructures
    source: SourceAnswers
    dump: DumpWindow
    online: Mapping[TableName, OnlineRecord]
    temporary: TemporaryTables


@dataclass(frozen=True, slots=True)
class StatementEvent:
    """A query event that is no transaction control, where it stands, and what a person says of it."""

    query: Query
    transaction: SourceTransaction
    operator: Operator | None = None


@contextmanager
def pausing(statement: str) -> Iterator[None]:
    """Whatever is raised inside, and is no error of the catalogue, becomes one."""
    try:
        yield
    except (DMError, Stopped):
        raise
    except Exception as defect:
        raise DMError("ddl-defect", statement=statement, what=f"{type(defect).__name__}: {said(defect)}") from defect
