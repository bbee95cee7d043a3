"""From a statement's event, and what is known before it, to a plan: a pure function.

Pieces are judged under the source's names: lists, event rules, points of tables that the dump read later. Their text
is routed when they are executed. A piece that a filter drops is not executed but tracked, because the rows after it
have the new structure. Planning writes nothing: what must be stored or remembered is part of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.inline_references import without_ignored_references
from dm.mysql.sql.operation import (
    AddColumn,
    AlterDefault,
    AlterVisibility,
    ChangeColumn,
    CreateTable,
    DropColumn,
    ModifyColumn,
    RenameColumn,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import column_kept, separate, split
from dm.mysql.sql.statement import classify, subjects
from dm.progress.operators import Operator, PieceNumber
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.ddl.filter_columns import refuse_filters_columns
from dm.syncer.ddl.online_ddl import OnlineDdl
from dm.syncer.ddl.plan import (
    CutOver,
    DdlPlan,
    Execute,
    Forget,
    PlanningState,
    PointsAhead,
    StatementEvent,
    Step,
    TrackOnly,
    pausing,
    tracked,
)
from dm.syncer.ddl.scattered import for_each_table
from dm.syncer.ddl.server_written import SourceNow, meant_text
from dm.syncer.ddl.temporary_tables import Share

_NOT_UNDERSTOOD = ("ddl-not-understood", "ddl-splice-mismatch", "column-type-unknown")
# 1051: some tables of a DROP TABLE were not there; those that were are gone, and pieces say IF EXISTS.
_HARMLESS = (0, 1051)
_WITH_TEMPORARY: Mapping[Share, str] = {
    "model": "it copies a temporary table",
    "some": "it renames a temporary table along with others",
}


def plan(event: StatementEvent, known: PlanningState) -> DdlPlan:
    """The plan of an event; raises DMError if it is unclear what the event demands."""
    query, transaction = event.query, event.transaction
    life = (transaction.end.server_uuid, transaction.starts)
    share, temporary = known.temporary.after(query, life, known.source.context_of)
    planning = _Planning(known, transaction)
    if event.operator is not None:
        found = _Found(planning.instead(event.operator, query, share))
    elif transaction.writer == "opposite":
        found = _Found(planning.followed(query, share))
    else:
        found = planning.as_it_stands(query, share)
    decided = event.operator is not None or transaction.writer == "opposite"
    if known.pauses and not decided and any(isinstance(step, Execute | CutOver) for step in found.steps):
        raise DMError("ddl-other-way", statement=query.readable)
    if found.steps and transaction.writer == "unclear" and event.operator is None:
        raise DMError("opposite-statement-unclear", statement=query.readable, session=query.thread_id)
    refuse_filters_columns(found.steps, known.rules, known.structures.get)
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
    """The plan of an inject before a transaction, and the pieces that it leaves to another reading.

    Pieces that other readings have executed are left out. Raises DMError.
    """
    planning = _Planning(known, transaction)
    steps = tuple(planning.stated(operator))
    planned = DdlPlan(known.temporary, steps, planning.points.found, planning.online.changes, views_may_change=True)
    return planned, frozenset(planning.left)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A text, the session in which it runs, and whose statement it is."""

    text: str
    query: Query
    by_hand: bool = False
    number: int = 0  # among those of an operator
    only: frozenset[PieceNumber] = frozenset()  # pieces that others have not executed yet; empty: all


@dataclass(frozen=True, slots=True)
class _Found:
    """What a statement demands."""

    steps: list[Step]
    views_may_change: bool = True
    passed_over: str = ""  # why it is not understood, though it does not matter


class _Planning:
    """One event while it is planned; its drafts become part of the plan, or are dropped."""

    def __init__(self, known: PlanningState, transaction: SourceTransaction) -> None:
        self._known = known
        self._rules = known.rules
        self._transaction = transaction
        self.points = PointsAhead(known.dump, known.structures, transaction)
        self.online = OnlineDdl(known.rules.online, known.online, known.structures)
        self.left: set[PieceNumber] = set()  # pieces about tables that another reading of the binlog has

    # -- The source's statement

    def as_it_stands(self, query: Query, share: Share) -> _Found:
        """What a statement of the source demands; raises DMError."""
        text = query.readable
        try:
            if query.undecodable is not None:
                if self._not_ours(query):
                    return _Found([])
                raise query.undecodable
            text = self._text_of(query)
            found = self._understood(_Statement(text, query), share)
            self._refuse_lost_cascades(found.steps, text)
        except DMError as error:
            error.position = error.position or str(self._transaction.end)
            # SQL patterns come last: a statement that is understood is tracked even if a rule drops it.
            if error.name in _NOT_UNDERSTOOD:
                if self._rules.sql_pattern_ignores(text):
                    return _Found([])
                if self._about_others(query, text):
                    return _Found([], passed_over=error.message)
            raise
        return found

    def _about_others(self, query: Query, text: str) -> bool:
        """Whether a statement that is not understood is about tables or sequences that are not migrated."""
        tables = subjects(text, self._known.source.context_of(query))
        if not tables or any(self._rules.followed(table) for table in tables):
            return False
        return not self._changes_rows(query, tables)

    def _not_ours(self, query: Query) -> bool:
        """Whether a statement with undecodable bytes concerns nothing that is migrated.

        It may change rows of tables that are not migrated (a BLOB's), or create a view: MySQL writes the view's name in
        UTF-8 before the client's text.
        """
        statement = classify(query.readable, self._known.source.context_of(query))
        if statement.kind == "dml":
            return not self._changes_rows(query, statement.tables)
        return statement.kind != "ddl"

    def _text_of(self, query: Query) -> str:
        known = self._known
        structures = known.structures
        now = SourceNow(known.source.present, structures.get, structures.told_charset, self._matters)
        return meant_text(query, known.source.context_of(query), now)

    def _matters(self, table: TableName) -> bool:
        """Whether a statement on the table counts here, and the dump did not read the table after it."""
        return self._rules.followed(table) and not self.points.dumped_after((table,))

    def _changes_rows(self, query: Query, tables: Sequence[TableName] | None) -> bool:
        return changes_rows(query, tables, self._rules.wanted, self._known.source.is_view)

    def _refuse_lost_cascades(self, steps: Sequence[Step], text: str) -> None:
        if self._known.source.cascades_lost and any(
            step.piece.adds_acting_foreign_key for step in steps if not isinstance(step, CutOver)
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
        """The steps of an ALTER, the first with the whole of it, as the source executed it."""
        first = steps[0]
        if not isinstance(first, Execute) or whole.verb != "ALTER TABLE" or len(whole.tables) != 1:
            return steps
        return [replace(first, whole=whole, whole_moved_away=self.online.moved_away(whole)), *steps[1:]]

    # -- What a person wants instead

    def instead(self, operator: Operator, query: Query, share: Share) -> list[Step]:
        """The steps of an event that an operator skips or replaces; the event itself is still tracked.

        The following rows have the structure that the source gave them, whatever the target executes. Only if the event
        can't be tracked, its replacement is.
        """
        followed = self.followed(query, share)
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

    def followed(self, query: Query, share: Share) -> list[Step]:
        """The steps of a statement that is not executed, since the target has what it does, or is not to have it."""
        if share == "all":
            return []
        try:
            with pausing(query.readable):
                text, context = self._text_of(query), self._known.source.context_of(query)
                understood = classify(text, context).kind == "ddl"
                pieces = self._split(text, context) if understood else []
        except DMError:
            return []  # it can't be tracked; rows that don't match the known structure will pause
        in_part = query.error_code not in _HARMLESS or share != "none"  # the source may have done only a part of it
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
        """Whether a piece counts for a table that it names; DROP DATABASE counts for a second pass's tables."""
        own = self._of_schema(piece)
        return bool(own - self.points.dumped_after(own)) or self._rules.followed(table)

    def _of_schema(self, piece: Piece) -> frozenset[TableName]:
        """The tables of a second pass in a dropped schema."""
        if piece.verb != "DROP DATABASE":
            return frozenset()
        return frozenset(table for table in self._rules.of_pass if table.schema == piece.table.schema)

    def _made_later(self, piece: Piece) -> frozenset[TableName]:
        """The tables that are held from a place after the statement: they were created anew."""
        return self.points.dumped_after(self._of_schema(piece))

    def _share(self, number: int, piece: Piece, stated: _Statement) -> list[Step]:
        """A piece's steps; none if another reading executes it."""
        place = (stated.number, number)
        if stated.only and place not in stated.only:
            return []
        steps = for_each_table(self._steps_of(piece, stated), self._rules)
        if not steps and any(map(self._rules.in_another_stream, piece.tables)):
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
                # A shard that copies the structure of a held one (`ShardGate._like_held`).
                return self._on_real(piece, stated) if self._rules.followed(operation.table) else []
            if isinstance(operation, CreateTable) and self._rules.elsewhere(operation.table):
                return []
            if isinstance(operation, CreateTable) and not (stated.by_hand or self._rules.followed(operation.table)):
                return []  # only what it makes is changed: the model, which is followed, stays as it is
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
        """In a second pass: whether main renamed the tables before they were held. Raises DMError in main."""
        self._refuse_names_that_wait(piece)
        followed = {table for table in piece.tables if self._rules.followed(table)}
        return self._rules.second and self.points.dumped_after(followed) == followed

    def _refuse_names_that_wait(self, piece: Piece) -> None:
        if any(self._rules.elsewhere(table) for one in piece.renames for table in one) and not self._rules.second:
            why = "a shard whose rows wait gets another name, or another shard gets its name"
            raise DMError("shard-ddl-unsupported", why=why, statement=piece.text)

    def _before_the_hold(self, piece: Piece) -> bool:
        """In a second pass: whether main has read the online DDL's piece, since the table was held after it."""
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
        if not stated.by_hand:  # a person may know that the dump did not read them
            self.points.refuse_swap(piece, changed)
        if len({self._wanted(piece, event, stated.text) for event in piece.events}) > 1:
            # A filter wants only some of the operations that belong together: each is executed alone.
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
        if not stated.by_hand:  # a person may alter these columns of the target
            refuse_extracted(piece, self._rules)
        moved_away, kept = self.online.moved_away(piece), self._made_later(piece)
        return Execute(piece, stated.query, by_hand=stated.by_hand, kept=kept, moved_away=moved_away)

    def _wanted(self, piece: Piece, event: str, text: str) -> bool:
        """Whether the event filter lets this operation be executed; `text` is the original statement."""
        alters = piece.verb == "ALTER TABLE"
        return all(self._rules.ddl_event(table, event, text, alters=alters) == "do" for table in piece.tables)


def _just(steps: Sequence[Step], pieces: Sequence[Piece]) -> bool:
    """Whether the steps execute exactly these pieces."""
    return len(steps) == len(pieces) and all(
        isinstance(step, Execute) and step.piece is piece and step.copied_to is None
        for step, piece in zip(steps, pieces, strict=True)
    )


_OF_A_COLUMN = AddColumn | AlterDefault | AlterVisibility | ChangeColumn | DropColumn | ModifyColumn | RenameColumn


def refuse_extracted(piece: Piece, rules: TableRules) -> None:
    """Raise DMError `extract-column-altered` if a source's statement names a column that holds parts of names.

    The source has no such column. Executed, the statement would change or remove the parts, or count as done and leave
    the source's column without a place.
    """
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


_NAMES_KEPT = 10_000


def changes_rows(
    query: Query,
    tables: Sequence[TableName] | None,
    wanted: Callable[[TableName], bool],
    is_view: Callable[[TableName], bool],
) -> bool:
    """Whether a statement in the binlog's text form may change replicated rows.

    `tables` are those that its text writes; None if that is unclear.
    """
    if not tables or any(wanted(table) for table in tables):
        return True
    # MySQL logs the used schemas. A trigger may have written to one that the text does not name.
    named = {table.schema.lower() for table in tables}
    others = [name for name in query.session.updated_schemas or () if name.lower() not in named]
    if query.session.schemas_unlisted or any(wanted(TableName(schema, "")) for schema in others):
        return True
    return any(map(is_view, tables))  # a view, through which other tables are written


class SourceViews:
    """Whether names are views at the source now; answers are kept until a statement may have changed them."""

    def __init__(self, has_view: Callable[[TableName], bool]) -> None:
        self._has_view = has_view
        self._others: set[TableName] = set()

    def has(self, table: TableName) -> bool:
        """Whether it is a view."""
        if table in self._others:
            return False
        if self._has_view(table):
            return True
        if len(self._others) >= _NAMES_KEPT:
            self._others.clear()
        self._others.add(table)
        return False

    def ask_again(self) -> None:
        """Forget the answers: a statement may have created or dropped a view."""
        self._others.clear()
