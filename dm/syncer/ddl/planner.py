"""What a statement demands: a pure function from the event and what is known to a plan.

What a piece needs is decided on the source's names first (lists, event rules, points of tables that entered late); its
text is routed when it is executed. A piece that a filter drops is not executed but tracked, because the rows after it
have the new structure. Nothing is written while planning: what is to be stored or remembered is a part of the plan.

Statements about a column of the target that holds parts of names: it is no column of the source.

Executed, they would take the parts away, or count as done and leave the source's rows without a place.

Which tables the dump read after a statement, or found gone, while the statement's pieces are planned.

Such a table has a point: what the source did to it before is in its structure and rows already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.grammar import without_ignored_references
from dm.mysql.sql.operation import (
    AddColumn,
    AlterDefault,
    AlterVisibility,
    ChangeColumn,
    CreateTable,
    DropColumn,
    ExchangePartition,
    ModifyColumn,
    RenameColumn,
    RenameTable,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import column_kept, separate, split
from dm.mysql.sql.statement import acts, classify, subjects
from dm.position import Position
from dm.progress.operators import Operator, PieceNumber
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.ddl.changed_rows import changes_rows
from dm.syncer.ddl.online_ddl import OnlineDdl
from dm.syncer.ddl.plan import DdlPlan, DumpWindow, KnownStructures, PlanningState, StatementEvent, pausing
from dm.syncer.ddl.server_written import SourceNow, settled
from dm.syncer.ddl.step import CutOver, Execute, Forget, Step, TrackOnly, tracked
from dm.syncer.ddl.temporary_tables import Share

_NOT_UNDERSTOOD = ("ddl-not-understood", "ddl-splice-mismatch")
# 1051: some tables of a DROP TABLE were not there; those that were are gone, and pieces say IF EXISTS.
_HARMLESS = (0, 1051)
_WITH_TEMPORARY: Mapping[Share, str] = {
    "model": "it copies a temporary table",
    "some": "it renames a temporary table along with others",
}


def plan(event: StatementEvent, known: PlanningState) -> DdlPlan:
    """The plan of an event; raises DMError where it can't be told what the event demands."""
    query, transaction = event.query, event.transaction
    life = (transaction.end.server_uuid, transaction.starts)
    share, temporary = known.temporary.after(query, life, known.source.context_of)
    planning = _Planning(known, transaction)
    if event.operator is not None:
        found = _Found(planning.instead(event.operator, query, share))
    else:
        found = planning.as_it_stands(query, share)
    return DdlPlan(
        temporary,
        tuple(found.steps),
        planning.points.found,
        planning.online.changes if found.steps else {},  # they are stored after the steps, or never
        found.views_may_change,
        found.passed_over,
    )


def plan_injection(
    operator: Operator, transaction: SourceTransaction, known: PlanningState
) -> tuple[DdlPlan, frozenset[PieceNumber]]:
    """The plan of an operator's statements that stand before a transaction, and what it leaves to another reading.

    What other readings have executed is not in it. Raises DMError.
    """
    planning = _Planning(known, transaction)
    steps = tuple(planning.stated(operator))
    planned = DdlPlan(known.temporary, steps, planning.points.found, planning.online.changes, views_may_change=True)
    return planned, frozenset(planning.left)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A text, the session that it runs in, and whose it is."""

    text: str
    query: Query
    by_hand: bool = False
    number: int = 0  # among those of an operator
    only: frozenset[PieceNumber] = frozenset()  # pieces that others have not executed yet; empty: all


@dataclass(frozen=True, slots=True)
class _Found:
    """What a statement comes to."""

    steps: list[Step]
    views_may_change: bool = True
    passed_over: str = ""  # why it is not understood, where that does not matter


class _Planning:
    """One event while it is planned; its drafts are dropped, or become a part of the plan."""

    def __init__(self, known: PlanningState, transaction: SourceTransaction) -> None:
        self._known = known
        self._rules = known.rules
        self._transaction = transaction
        self.points = PointsAhead(known.dump, known.structures, transaction)
        self.online = OnlineDdl(known.rules.online, known.online, known.structures)
        self.left: set[PieceNumber] = set()  # pieces about tables that another reading of the binlog has

    # -- The source's statement

    def as_it_stands(self, query: Query, share: Share) -> _Found:
        """What a statement of the source comes to; raises DMError."""
        text = query.readable
        try:
            if query.undecodable is not None:
                if self._not_ours(query):
                    return _Found([])
                raise query.undecodable
            text = self._settled(query)
            found = self._understood(_Statement(text, query), share)
            self._refuse_lost_cascades(found.steps, text)
        except DMError as error:
            error.position = error.position or str(self._transaction.end)
            # The patterns are asked last: a statement that is understood is tracked even where a rule drops it.
            if error.name in _NOT_UNDERSTOOD:
                if self._rules.sql_pattern_ignores(text):
                    return _Found([])
                if self._about_others(query, text):
                    return _Found([], passed_over=error.message)
            raise
        return found

    def _about_others(self, query: Query, text: str) -> bool:
        """Whether a statement that is not understood is about tables or sequences that nobody wants."""
        tables = subjects(text, self._known.source.context_of(query))
        if not tables or any(self._rules.followed(table) for table in tables):
            return False
        return not self._changes_rows(query, tables)

    def _not_ours(self, query: Query) -> bool:
        """Whether a statement with bytes that are no text matters to nobody.

        It may change rows of tables that nobody wants (a BLOB's), or create a view: MySQL writes its name in UTF-8
        before text of the client.
        """
        statement = classify(query.readable, self._known.source.context_of(query))
        if statement.kind == "dml":
            return not self._changes_rows(query, statement.tables)
        return statement.kind != "ddl"

    def _settled(self, query: Query) -> str:
        known = self._known
        structures = known.structures
        now = SourceNow(known.source.present, structures.get, structures.told_charset, self._matters)
        return settled(query, known.source.context_of(query), now)

    def _matters(self, table: TableName) -> bool:
        """Whether a statement on it counts here, and the dump has not read the table as the statement leaves it."""
        return self._rules.followed(table) and not self.points.dumped_after((table,))

    def _changes_rows(self, query: Query, tables: Sequence[TableName] | None) -> bool:
        return changes_rows(query, tables, self._rules.wanted, self._known.source.is_view)

    def _refuse_lost_cascades(self, steps: Sequence[Step], text: str) -> None:
        if self._known.source.cascades_lost and any(
            acts(step.piece) for step in steps if not isinstance(step, CutOver)
        ):
            raise DMError("ddl-cascade-not-logged", statement=text)

    def _understood(self, stated: _Statement, share: Share = "none") -> _Found:
        text, query = stated.text, stated.query
        context = self._known.source.context_of(query)
        statement = classify(text, context)
        if statement.kind == "dml":
            if self._changes_rows(query, statement.tables):
                raise DMError("statement-dml", statement=text)
            return _Found([], views_may_change=False)
        if statement.kind != "ddl" or share == "all":
            return _Found([])
        if not stated.by_hand:
            stated = replace(stated, text=without_ignored_references(text, context))
        pieces = self._split(stated.text, context)
        if share != "none" and any(self._rules.followed(table) for piece in pieces for table in piece.tables):
            raise DMError("ddl-not-understood", statement=stated.text, why=_WITH_TEMPORARY[share])
        steps = [step for number, piece in enumerate(pieces) for step in self._share(number, piece, stated)]
        if not stated.by_hand and len(pieces) > 1 and _just(steps, pieces):
            steps = self._as_a_whole(steps, Piece.of(stated.text, context))
        if steps and query.error_code not in _HARMLESS:
            raise DMError("statement-failed-at-source", statement=stated.text, code=query.error_code)
        return _Found(steps)

    def _split(self, text: str, context: SourceContext) -> list[Piece]:
        source = self._known.source
        return split(text, context, singly=source.singly, replaces=source.replaces)

    def _as_a_whole(self, steps: list[Step], whole: Piece) -> list[Step]:
        """The steps of an ALTER, the first with all of it, as the source executed it."""
        first = steps[0]
        if not isinstance(first, Execute) or whole.verb != "ALTER TABLE" or len(whole.tables) != 1:
            return steps
        return [replace(first, whole=whole, whole_moved_away=self.online.moved_away(whole)), *steps[1:]]

    # -- What a person wants instead

    def instead(self, operator: Operator, query: Query, share: Share) -> list[Step]:
        """What an operator makes of an event: its own statements, or nothing, and the event is followed all the same.

        The rows after it have the structure that the source gave them, whatever is executed at the target. Only where
        the event can't be followed, what replaces it is.
        """
        followed = self._followed(query, share) if share != "all" else []
        if operator.action == "skip":
            return followed
        return tracked(self.stated(operator), "not" if followed else "if possible") + followed

    def stated(self, operator: Operator) -> list[Step]:
        """The statements of an operator, under the same rules and routes as those of the source."""
        steps: list[Step] = []
        only = operator.left if operator.done else frozenset[PieceNumber]()
        for number, text in enumerate(operator.statements):
            query = Query("", text.encode(), QuerySession(), self._transaction.timestamp, 0, 0, 0)
            steps += self._understood(_Statement(text, query, by_hand=True, number=number, only=only)).steps
        return steps

    def _followed(self, query: Query, share: Share) -> list[Step]:
        try:
            with pausing(query.readable):
                text, context = self._settled(query), self._known.source.context_of(query)
                understood = classify(text, context).kind == "ddl"
                pieces = self._split(text, context) if understood else []
        except DMError:
            return []  # what can't be read can't be followed; rows that do not fit what is known then pause
        in_part = query.error_code not in _HARMLESS or share != "none"  # it may be done there in part only
        steps: list[Step] = []
        for piece in pieces:
            if not any(self._follows(piece, table) for table in piece.tables):
                continue
            self.points.pass_on(piece)
            dumped_after = self.points.dumped_after(piece.changed)
            kept = self._made_later(piece)
            if self.online.concerns(piece):
                self.online.dismiss(piece)
                kept = dumped_after
            elif dumped_after:
                continue
            steps.append(Forget(piece, kept) if in_part else TrackOnly(piece, "if possible", kept))
        return steps

    # -- A piece

    def _follows(self, piece: Piece, table: TableName) -> bool:
        """Whether a piece counts here for a table that it names; a second pass sees its tables go with their schema."""
        own = self._of_schema(piece)
        return bool(own - self.points.dumped_after(own)) or self._rules.followed(table)

    def _of_schema(self, piece: Piece) -> frozenset[TableName]:
        """The tables of a second pass that have the name of a schema that is dropped."""
        if piece.verb != "DROP DATABASE":
            return frozenset()
        return frozenset(table for table in self._rules.of_pass if table.schema == piece.table.schema)

    def _made_later(self, piece: Piece) -> frozenset[TableName]:
        """Those that are held from a place after the statement on: they were created anew."""
        return self.points.dumped_after(self._of_schema(piece))

    def _share(self, number: int, piece: Piece, stated: _Statement) -> list[Step]:
        """The steps of a statement's piece, unless another reading has executed it."""
        place = (stated.number, number)
        if stated.only and place not in stated.only:
            return []
        steps = self._steps_of(piece, stated)
        if not steps and any(map(self._rules.elsewhere, piece.tables)):
            self.left.add(place)
        return steps

    def _steps_of(self, piece: Piece, stated: _Statement) -> list[Step]:
        followed = [self._follows(piece, table) for table in piece.tables]
        if not any(followed):
            if piece.renames and not self.online.concerns(piece):
                self._refuse_names_that_wait(piece)
            return []
        if piece.verb == "DROP DATABASE" and any(self._rules.keeps_schema(table.schema) for table in piece.tables):
            raise DMError("ddl-while-joining", statement=piece.text)
        if not all(followed):
            operation = piece.operation
            if piece.renames and self._in_another_reading(piece):
                return []
            if isinstance(operation, CreateTable) and operation.like and self._rules.elsewhere(operation.like):
                # A shard with the structure of one that is held (`ShardGate.like_held`).
                return self._on_real(piece, stated) if self._rules.followed(operation.table) else []
            if isinstance(operation, CreateTable) and self._rules.elsewhere(operation.table):
                return []
            self.points.refuse_swap(piece, piece.tables)
            raise DMError("ddl-partly-wanted", statement=piece.text)
        if self.online.concerns(piece):
            if self._before_the_hold(piece):
                return []

            def on_real(one: Piece, query: Query) -> Sequence[Step]:
                return self._on_real(one, _Statement(one.text, query, stated.by_hand))

            return self.online.steps(piece, stated.query, on_real, self.points.dumped_after(piece.tables))
        if not stated.by_hand:
            self.online.guard(piece)
        self.online.passed(piece)
        return self._on_real(piece, stated)

    def _in_another_reading(self, piece: Piece) -> bool:
        """In a second pass: whether the stream has renamed the tables before they were held; raises DMError in main."""
        self._refuse_names_that_wait(piece)
        followed = {table for table in piece.tables if self._rules.followed(table)}
        return self._rules.second and self.points.dumped_after(followed) == followed

    def _refuse_names_that_wait(self, piece: Piece) -> None:
        if any(self._rules.elsewhere(table) for one in piece.renames for table in one) and not self._rules.second:
            why = "a shard whose rows wait gets another name, or another shard gets its name"
            raise DMError("shard-ddl-unsupported", why=why, statement=piece.text)

    def _before_the_hold(self, piece: Piece) -> bool:
        """In a second pass: whether all of an online DDL's piece is known, since its table was held after it."""
        real = {self._rules.online.real(table) for table in piece.tables}
        return self._rules.second and self.points.dumped_after(real) == real

    def _on_real(self, piece: Piece, stated: _Statement) -> list[Step]:
        self.points.pass_on(piece)
        changed = piece.changed
        dumped_after = self.points.dumped_after(changed)
        if changed and len(dumped_after) == len(changed):
            return []
        if dumped_after:
            return [self._execute(one, stated) for one in self.points.left_beside(piece, dumped_after)]
        if not stated.by_hand:  # a person may know that the dump read none of them
            self.points.refuse_swap(piece, changed)
        if len({self._wanted(piece, event, stated.text) for event in piece.events}) > 1:
            # Operations that belong together, and a filter that wants some of them: then each goes alone.
            steps = [self._filtered(part, stated) for part in separate(piece)]
            out, executed = ([one.piece for one in steps if isinstance(one, kind)] for kind in (TrackOnly, Execute))
            if not stated.by_hand and (column := column_kept(out, executed)):
                raise DMError("ddl-filter-cuts", column=column, statement=piece.text)
            return [*steps]
        return [self._filtered(piece, stated)]

    def _filtered(self, piece: Piece, stated: _Statement) -> Execute | TrackOnly:
        wanted = all(self._wanted(piece, event, stated.text) for event in piece.events)
        return self._execute(piece, stated) if wanted else TrackOnly(piece, kept=self._made_later(piece))

    def _execute(self, piece: Piece, stated: _Statement) -> Execute:
        if not stated.by_hand:  # a person may prepare the target's table so
            refuse_extracted(piece, self._rules)
        moved_away, kept = self.online.moved_away(piece), self._made_later(piece)
        return Execute(piece, stated.query, by_hand=stated.by_hand, kept=kept, moved_away=moved_away)

    def _wanted(self, piece: Piece, event: str, text: str) -> bool:
        """Whether the event filter lets an operation of this name be executed; `text` is the original statement."""
        alters = piece.verb == "ALTER TABLE"
        return all(self._rules.ddl_event(table, event, text, alters=alters) == "do" for table in piece.tables)


def _just(steps: Sequence[Step], pieces: Sequence[Piece]) -> bool:
    """Whether the steps execute these pieces, and do nothing else."""
    return len(steps) == len(pieces) and all(
        isinstance(step, Execute) and step.piece is piece and step.copied_to is None
        for step, piece in zip(steps, pieces, strict=True)
    )


_OF_A_COLUMN = AddColumn | AlterDefault | AlterVisibility | ChangeColumn | DropColumn | ModifyColumn | RenameColumn


def refuse_extracted(piece: Piece, rules: TableRules) -> None:
    """Raise DMError `extract-column-altered` where a source's statement names such a column."""
    named = {name.lower() for name in _named(piece)}
    if not named or not rules.wanted(piece.table):
        return
    for each in rules.extracted(piece.table):
        if each.column.lower() in named:
            raise DMError(
                "extract-column-altered",
                column=each.column,
                table=piece.table,
                target=rules.route(piece.table),
                statement=piece.text,
            )


def _named(piece: Piece) -> Iterator[str]:
    for operation in piece.operations:
        if isinstance(operation, _OF_A_COLUMN):
            yield operation.column
        if isinstance(operation, ChangeColumn | RenameColumn):
            yield operation.name


_SWAPS = (RenameTable, ExchangePartition)


class PointsAhead:
    """The points as of one event; `found` are those that its pieces add."""

    def __init__(self, window: DumpWindow, structures: KnownStructures, transaction: SourceTransaction) -> None:
        self._window = window
        self._structures = structures
        self._transaction = transaction
        self.found: dict[TableName, Position] = {}

    def pass_on(self, piece: Piece) -> None:
        """A table that got a name which the dump never saw keeps the point of its old one.

        The dump ended with a look at all tables after every point, and read each that it did not know with a point of
        its own. So the new name was given up before that look, and its rows went with it or stand under a later name.
        A name that the plan had at P0 is known for ever (`write_handover`): which table the dump read under it is not.
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

        They look the same afterwards, so the dump could not notice, and which rows it read under which name is not
        known.
        """
        if any(isinstance(each, _SWAPS) for each in piece.operations) and self._dump_reads():
            raise DMError("ddl-within-dump", statement=piece.text, tables=", ".join(map(str, tables)))

    def left_beside(self, piece: Piece, dumped_after: frozenset[TableName]) -> list[Piece]:
        """What is left of a statement, some of whose tables the dump read after it; raises DMError.

        A schema change by a copy, under names that no rule tells, ends with RENAME t TO old, copy TO t. If that falls
        into the dump, t and old have points after it, and the copy, which the dump never saw, only has to go.
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
