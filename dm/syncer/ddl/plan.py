"""The plan of one statement, what it is made from, and its steps.

The planner writes nothing, and `PlanningState` is never changed: it is replaced as a whole once a plan was carried
out. So planning an event twice gives equal plans, and a plan that is thrown away has changed nothing.

A plan has four kinds of steps:

    Execute     run a piece at the target, then track it
    TrackOnly   track a piece that the target does not get: the rows after it have its structure
    Forget      forget the structure of a piece's tables
    CutOver     prove that a ghost table may replace a real one

Execution knows nothing else of a statement. Each step except a cut-over has a number, its place among those: intents
are stored under it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError, said
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.operation import ExchangePartition, RenameTable
from dm.mysql.sql.piece import Piece
from dm.position import Position
from dm.progress.intent import OnlineRecord
from dm.progress.operators import Operator
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.source_server import PresentTable
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply.lanes import Stopped
from dm.syncer.apply.structures import TargetNames
from dm.syncer.ddl.session import DdlSession
from dm.syncer.ddl.temporary_tables import TemporaryTables

Tracking = Literal["exactly", "if possible", "not"]
"""Track a piece; track it, or forget its tables where that is impossible; or leave what is known as it is."""


@dataclass(frozen=True, slots=True)
class MovedAway:
    """A table that an online DDL tool renamed to a trash name at the source; the target still has it."""

    real: TableName
    trash: TableName


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a piece at the target, in the session of its event."""

    piece: Piece
    query: Query
    track: Tracking = "exactly"
    copied_to: TableName | None = None  # the ghost table whose rows must equal those that this piece leaves
    by_hand: bool = False  # a person's statement, who answers for the rows
    kept: frozenset[TableName] = frozenset()  # tables whose structure is known from a later point
    moved_away: MovedAway | None = None  # whose name the piece gives to another table
    whole: Piece | None = None  # the source's ALTER, if this event's steps are exactly its pieces
    whole_moved_away: MovedAway | None = None
    into: TableName | None = None  # the one of the target's tables, where the rows of the piece's go to several

    def routing(self, rules: TableRules) -> Callable[[TableName], TableName]:
        """The target's name of each table that the piece names."""
        into = self.into
        return rules.route if into is None else lambda table: into if table == self.piece.table else rules.route(table)

    @property
    def as_a_whole(self) -> Execute | None:
        """The step for the whole ALTER; None unless the event's steps are exactly its pieces."""
        return None if self.whole is None else replace(self, piece=self.whole, moved_away=self.whole_moved_away)


@dataclass(frozen=True, slots=True)
class TrackOnly:
    """Track a piece that is not executed."""

    piece: Piece
    track: Tracking = "exactly"
    kept: frozenset[TableName] = frozenset()  # tables whose structure is known from a later point


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the structure of the tables that a piece changes; it is found again with their next rows."""

    piece: Piece
    kept: frozenset[TableName] = frozenset()


@dataclass(frozen=True, slots=True)
class CutOver:
    """A ghost table that replaces a real one; first, `pieces` must be proved to have the same result."""

    ghost: TableName
    real: TableName
    old: TableName  # the name under which the real table's structure is tracked
    pieces: tuple[Piece, ...]
    statement: str


PieceStep = Execute | TrackOnly | Forget
Step = PieceStep | CutOver


def tracked(steps: Iterable[Step], track: Tracking) -> list[Step]:
    """The steps, each tracked this way; with "not", steps that would only be tracked are dropped."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Execute):
            found.append(replace(step, track=track))
        elif isinstance(step, CutOver):
            found.append(step)
        elif track != "not":
            found.append(TrackOnly(step.piece, track, step.kept))
    return found


@dataclass(frozen=True, slots=True)
class DdlPlan:
    """Steps in order, and what is stored or remembered with them; no steps if the statement concerns nothing here."""

    temporary: TemporaryTables  # that exist after the statement
    steps: tuple[Step, ...] = ()
    # Of names that the dump never saw: stored before the steps.
    points: Mapping[TableName, Position] = field(default_factory=dict)
    # Changed records of online DDL, stored with the checkpoint after the steps. None: the record ends.
    online: Mapping[TableName, OnlineRecord | None] = field(default_factory=dict)
    views_may_change: bool = False  # ask the source about views again
    passed_over: str = ""  # for the log: why the statement is not understood, though it concerns nothing migrated

    @property
    def pieces(self) -> tuple[PieceStep, ...]:
        """The steps about a piece; a step's place here is its number."""
        return tuple(step for step in self.steps if not isinstance(step, CutOver))

    @property
    def after_executed(self) -> int:
        """The number after the last executed piece."""
        return max((number + 1 for number, step in enumerate(self.pieces) if isinstance(step, Execute)), default=0)

    @property
    def followed(self) -> set[TableName]:
        """The tables whose tracked structures change with the steps."""
        steps = (step for step in self.pieces if isinstance(step, Forget) or step.track != "not")
        return {table for step in steps for table in step.piece.tables}


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
    """A piece about to be executed, with all that a check may ask; no other session looks at its table or alters it."""

    step: Execute
    target_piece: Piece  # routed, in the words that mean at the target what they meant at the source
    now: Mapping[TableName, TableSchema | None]  # the target's tables that the piece names, and schemas
    effective: bool  # the target already has its effect, so nothing will be executed
    position: Position
    source: DdlSource
    target: DdlTarget

    @property
    def piece(self) -> Piece:
        """The piece under the source's names."""
        return self.step.piece

    @property
    def table_now(self) -> TableSchema | None:
        """The target's table that the piece is about; None if there is none."""
        return self.now.get(self.target_piece.table)


Check = Callable[[CheckedStep], None]
"""Raises DMError if the piece must not be executed, or must not count as done."""


class KnownStructures(Protocol):
    """The source's structures at the event; read only."""

    def get(self, table: TableName) -> TableSchema | None:
        """The structure of a table; None if it is not known."""
        ...

    def told_charset(self, schema: str) -> Collated | None:
        """The default of a schema; None if it is not known."""
        ...


@dataclass(frozen=True, slots=True)
class SourceAnswers:
    """Questions to the source's server, and the session of a statement."""

    context_of: Callable[[Query], SourceContext]
    is_view: Callable[[TableName], bool]  # now
    present: Callable[[TableName], PresentTable | None]  # now
    cascades_lost: bool = False  # the source does not log foreign keys' actions, and the target won't do them
    singly: bool = False  # the target takes few operations of one statement together (`dm.mysql.sql.split`)
    replaces: bool = True  # the target has CREATE OR REPLACE (`dm.mysql.sql.split`)


@dataclass(frozen=True, slots=True)
class DumpWindow:
    """What is known of the dump: which tables it read after L, and where it ended."""

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
    pauses: bool = False  # at every statement that the target would get (`ddl: pause`)


@dataclass(frozen=True, slots=True)
class StatementEvent:
    """A query event other than transaction control, its transaction, and a person's operator for it."""

    query: Query
    transaction: SourceTransaction
    operator: Operator | None = None


@contextmanager
def pausing(statement: str) -> Iterator[None]:
    """Turn any exception that is not in the catalogue into `ddl-defect`, which names the statement.

    In the binlog, only statements can be written in ways that nobody foresaw. An exception on the way is a defect of
    dm. The task still has to say at which statement and where it stopped, and every way out of a pause has to work.
    """
    try:
        yield
    except (DMError, Stopped):
        raise
    except Exception as defect:
        raise DMError("ddl-defect", statement=statement, what=f"{type(defect).__name__}: {said(defect)}") from defect


_SWAPS = (RenameTable, ExchangePartition)


class PointsAhead:
    """Which tables the dump read after a statement, or found gone, while the statement's pieces are planned.

    Such a table has a point: earlier changes of the source are in its structure and rows already. `found` are the
    points that this event's pieces add.
    """

    def __init__(self, window: DumpWindow, structures: KnownStructures, transaction: SourceTransaction) -> None:
        self._window = window
        self._structures = structures
        self._transaction = transaction
        self.found: dict[TableName, Position] = {}

    def pass_on(self, piece: Piece) -> None:
        """Give a renamed table's point to its new name, if the dump never saw that name.

        The dump ended with a look at all tables after every point, and read each table that it did not know, with a
        point of its own. So the new name was given up before that look, and its rows went with it or exist under a
        later name. The names that the plan had at P0 all have points (`write_handover`): for them it is not known
        which table the dump read.
        """
        for old, new in piece.renames:
            point = self._point(old)
            if point is None or self._point(new) is not None or self._structures.get(new) is not None:
                continue
            if self._passed(point):
                self.found[new] = point

    def dumped_after(self, tables: Iterable[TableName]) -> frozenset[TableName]:
        """Those of the tables that the dump read after the statement."""
        return frozenset(table for table in tables if (point := self._point(table)) is not None and self._passed(point))

    def refuse_swap(self, piece: Piece, tables: Sequence[TableName]) -> None:
        """Raise DMError for tables that change places while the dump reads.

        They look the same afterwards, so the dump could not notice. Which rows it read under which name is not known.
        """
        if any(isinstance(each, _SWAPS) for each in piece.operations) and self._dump_reads():
            raise DMError("ddl-within-dump", statement=piece.text, tables=", ".join(map(str, tables)))

    def left_beside(self, piece: Piece, dumped_after: frozenset[TableName]) -> list[Piece]:
        """What remains of a statement if the dump read some of its tables after it; raises DMError.

        A schema change by a copy, under names that no rule knows, ends with RENAME t TO old, copy TO t. If that falls
        into the dump, t and old have points after it. The copy, which the dump never saw, only has to be dropped.
        """
        left = [table for table in piece.changed if table not in dumped_after]
        names = {new for _, new in piece.renames}
        if not names or any(table in names for table in left):
            raise DMError("ddl-within-dump", statement=piece.text, tables=", ".join(map(str, dumped_after)))
        return [Piece.of(f"DROP TABLE {table.sql}", piece.context) for table in left]

    def _point(self, table: TableName) -> Position | None:
        return self.found.get(table) or self._window.points.get(table)

    def _passed(self, point: Position) -> bool:
        return point.has_processed(self._transaction.gtid, self._transaction.end)

    def _dump_reads(self) -> bool:
        """Whether the dump was still reading tables when the transaction began."""
        until = self._window.until
        return until is not None and not self._transaction.begin.covers(until)
