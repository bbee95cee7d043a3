"""DDL: a barrier, then piece by piece, each announced before it is executed (invariant I6 of the progress protocol).

What a piece needs is decided on the source's names first (lists, event rules, points of tables that entered late), then
its text is routed. A piece that a filter drops is not executed but tracked, because the rows behind it have the new
structure. How a piece is executed stands in `dm.syncer.ddl.execution`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dm import faults
from dm.binlog.check import mismatch
from dm.binlog.query import QuerySession
from dm.binlog.reader import Query, TableMap
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import TablePoint
from dm.progress.intent import Intent
from dm.progress.operators import Operator
from dm.rules.table_rules import TableRules
from dm.schema import effect
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.schema.wire import wire_columns
from dm.sql.context import SourceContext
from dm.sql.foreign_key import acts
from dm.sql.inline_references import without_ignored_references
from dm.sql.operation import CreateTable, DropColumn, ExchangePartition, RenameTable
from dm.sql.piece import Piece, separate, split
from dm.sql.statement import classify
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.apply.structures import alike
from dm.syncer.apply.target_names import TargetNames
from dm.syncer.ddl.execution import DdlExecution
from dm.syncer.ddl.online_ddl import OnlineDdl
from dm.syncer.ddl.session import DdlSession
from dm.syncer.ddl.step import Step
from dm.syncer.ddl.temporary_tables import Share, TemporaryTables
from dm.syncer.stream.transaction import RowsItem, SourceTransaction

_SWAPS = (RenameTable, ExchangePartition)
_NOT_UNDERSTOOD = ("ddl-not-understood", "ddl-splice-mismatch")
# 1051: some tables of a DROP TABLE were not there; those that were are gone, and pieces say IF EXISTS.
_HARMLESS = (0, 1051)
_DUPLICATE = 1062
_WITH_TEMPORARY = {"model": "it copies a temporary table", "some": "it renames a temporary table along with others"}
_NAMES_KEPT = 10_000


class DdlBarrier:
    """Takes query events that are no transaction control."""

    def __init__(
        self,
        rules: TableRules,
        tracker: SchemaTracker,
        targets: TargetSchemas,
        lanes: Lanes,
        progress: ProgressWriter,
        session: DdlSession,
        online: OnlineDdl,
        names: TargetNames,
        *,
        context_of: Callable[[Query], SourceContext],
        source_has: Callable[[TableName], bool],
        source_views: Callable[[TableName], bool],
        points: dict[TableName, Position],
        intent: Intent | None,
        dumped_until: Position | None,
        forget: Callable[[], None],
        strict_collations: bool = False,
        cascades_lost: bool = False,
    ) -> None:
        self._rules = rules
        self._tracker = tracker
        self._targets = targets
        self._lanes = lanes
        self._progress = progress
        self._online = online
        self._context_of = context_of
        self._temporary = TemporaryTables(context_of)
        self._source_views = source_views
        self._no_views: set[TableName] = set()  # what it said of them since the last statement that is no DML
        self._points = points
        self._intent = intent
        # The end of the dump's window. After a crash the bound is no further than the last DDL, so it finds none.
        self._dumped_until = dumped_until
        self._forget = forget
        self._cascades_lost = cascades_lost  # neither the source logs what foreign keys do nor will the target do it
        self.execution = DdlExecution(
            rules,
            tracker,
            targets,
            progress,
            session,
            online,
            names,
            source_has=source_has,
            strict_collations=strict_collations,
        )

    def steps(self, query: Query, transaction: SourceTransaction, operator: Operator | None = None) -> list[Step]:
        """What this event demands; empty when it concerns nobody. Raises DMError where that can't be told."""
        self._online.begin()
        temporary = self._temporary.take(query, (transaction.end.server_uuid, transaction.starts))
        if operator is not None:
            return self._instead(operator, query, transaction, temporary)
        text = query.readable
        try:
            if query.undecodable is not None and not self._foreign_dml(query):
                raise query.undecodable
            steps = self._understood(query, text, transaction, temporary)
            self._refuse_lost_cascades(steps, text)
            return steps
        except DMError as error:
            # The patterns are asked last: a statement that is understood is tracked even where a rule drops it.
            if error.name in _NOT_UNDERSTOOD and self._rules.sql_pattern_ignores(text):
                return []
            error.position = error.position or str(transaction.end)
            raise

    def _refuse_lost_cascades(self, steps: Sequence[Step], text: str) -> None:
        if self._cascades_lost and any(acts(step.piece) for step in steps):
            raise DMError("ddl-cascade-not-logged", statement=text)

    def _instead(
        self, operator: Operator, query: Query, transaction: SourceTransaction, temporary: Share
    ) -> list[Step]:
        """What an operator makes of an event: its own statements, or nothing, and the event is followed all the same.

        The rows behind it have the structure that the source gave them, whatever is executed at the target. Only where
        the event can't be followed, what replaces it is.
        """
        self._no_views.clear()
        followed = self._followed(query, transaction, temporary) if temporary != "all" else []
        if operator.action == "skip":
            return followed
        own = self.stated(operator, transaction)
        for step in own:
            step.track = "no" if followed else "if possible"
        return own + followed

    def _followed(self, query: Query, transaction: SourceTransaction, temporary: Share) -> list[Step]:
        try:
            text, context = query.text, self._context_of(query)
            pieces = split(text, context) if classify(text, context).kind == "ddl" else []
        except DMError:
            return []  # what can't be read can't be followed; rows that do not fit what is known then pause
        steps: list[Step] = []
        for piece in pieces:
            if not any(self._rules.followed(table) for table in piece.tables):
                continue
            self._pass_on_points(piece, transaction)
            behind = self._all_behind(_changed(piece), transaction)
            step = Step(piece, execute=False, track="if possible")
            if self._online.concerns(piece):
                step = self._online.dismissed(piece)
                step.kept = behind
            elif behind:
                continue
            if query.error_code not in _HARMLESS or temporary != "none":
                step.track = "forget"  # it may be done there in part only
            steps.append(step)
        return steps

    def stated(self, operator: Operator, transaction: SourceTransaction) -> list[Step]:
        """The statements of an operator, under the same rules and routes as those of the source."""
        steps: list[Step] = []
        for text in operator.statements:
            query = Query("", text.encode(), QuerySession(), transaction.timestamp, 0, 0, 0)
            steps += self._understood(query, text, transaction, by_hand=True)
        for step in steps:
            step.by_hand = True
        return steps

    def _understood(
        self,
        query: Query,
        text: str,
        transaction: SourceTransaction,
        temporary: Share = "none",
        *,
        by_hand: bool = False,
    ) -> list[Step]:
        context = self._context_of(query)
        statement = classify(text, context)
        if statement.kind == "dml":
            if self._concerns(query, statement.tables):
                raise DMError("statement-dml", statement=text)
            return []
        self._no_views.clear()  # it may have made one, or given its name away
        if statement.kind != "ddl" or temporary == "all":
            return []
        if not by_hand:
            text = without_ignored_references(text, context)
        pieces = split(text, context)
        if temporary != "none" and any(self._rules.followed(table) for piece in pieces for table in piece.tables):
            raise DMError("ddl-not-understood", statement=text, why=_WITH_TEMPORARY[temporary])
        steps = [
            step.within(query)
            for piece in pieces
            for step in self._steps_of(piece, text, query, transaction, by_hand=by_hand)
        ]
        if not by_hand and len(pieces) > 1 and _all_of(steps, pieces):
            whole = Piece.of(text, context)
            if whole.verb == "ALTER TABLE" and len(whole.tables) == 1:
                steps[0].whole = whole
        if steps and query.error_code not in _HARMLESS:
            raise DMError("statement-failed-at-source", statement=text, code=query.error_code)
        return steps

    def _foreign_dml(self, query: Query) -> bool:
        """Whether a statement with bytes that are no text (a BLOB's) changes rows of tables that nobody wants."""
        statement = classify(query.readable, self._context_of(query))
        return statement.kind == "dml" and not self._concerns(query, statement.tables)

    def _concerns(self, query: Query, tables: Sequence[TableName] | None) -> bool:
        """Whether a statement that changes rows may change some that are replicated."""
        if not tables or any(self._rules.wanted(table) for table in tables):
            return True
        # MySQL tells which schemas were used. One that the text does not write, a trigger may have written.
        named = {table.schema.lower() for table in tables}
        others = [name for name in query.session.updated_schemas or () if name.lower() not in named]
        if query.session.schemas_unlisted or any(self._rules.wanted(TableName(schema, "")) for schema in others):
            return True
        return any(map(self._is_view, tables))

    def _is_view(self, table: TableName) -> bool:
        """Whether it is a view at the source now, so that other tables are written."""
        if table in self._no_views:
            return False
        if self._source_views(table):
            return True
        if len(self._no_views) >= _NAMES_KEPT:
            self._no_views.clear()
        self._no_views.add(table)
        return False

    def _steps_of(
        self, piece: Piece, text: str, query: Query, transaction: SourceTransaction, *, by_hand: bool
    ) -> list[Step]:
        followed = [self._rules.followed(table) for table in piece.tables]
        if not any(followed):
            return []
        if not all(followed):
            self._refuse_swap(piece, piece.tables, transaction)
            raise DMError("ddl-partly-wanted", statement=piece.text)
        if self._online.concerns(piece):
            behind = self._all_behind(piece.tables, transaction)
            return self._online.steps(piece, query, lambda one: self._on_real(one, one.text, transaction), behind)
        if not by_hand:
            self._online.guard(piece)
        self._online.passed(piece)
        return self._on_real(piece, text, transaction)

    def _on_real(self, piece: Piece, text: str, transaction: SourceTransaction) -> list[Step]:
        self._pass_on_points(piece, transaction)
        changed = _changed(piece)
        behind = self._all_behind(changed, transaction)
        if changed and len(behind) == len(changed):
            return []
        if behind:
            return self._beside(piece, changed, behind)
        self._refuse_swap(piece, changed, transaction)
        if len({self._verdict(piece, event, text) for event in piece.events}) > 1:
            # Operations that belong together, and a filter that wants some of them: then each goes alone.
            return [Step(part, self._executed(part, text)) for part in separate(piece)]
        return [Step(piece, self._executed(piece, text))]

    def _refuse_swap(self, piece: Piece, tables: Sequence[TableName], transaction: SourceTransaction) -> None:
        """Tables that changed places look the same afterwards, so the dump could not notice.

        Which rows it read under which name is not known then.
        """
        if any(isinstance(each, _SWAPS) for each in piece.operations) and self._in_dump(transaction.begin):
            raise DMError("ddl-within-dump", statement=piece.text, tables=", ".join(map(str, tables)))

    def _pass_on_points(self, piece: Piece, transaction: SourceTransaction) -> None:
        """A table that got a name which the dump never saw keeps the point of its old one.

        The dump ended with a look at all tables behind every point, and read each that it did not know with a point of
        its own. So the new name was given up before that look, and its rows went with it or stand under a later name.
        A name that the plan had at P0 is known for ever (`write_handover`): which table the dump read under it is not.
        """
        for each in piece.operations:
            for old, new in each.pairs if isinstance(each, RenameTable) else ():
                if new not in self._points and self._tracker.get(new) is None and self._read_behind(old, transaction):
                    self._points[new] = self._points[old]
                    self._progress.write_found(new, TablePoint(None, self._points[old]))

    def _beside(self, piece: Piece, changed: Sequence[TableName], behind: frozenset[TableName]) -> list[Step]:
        """What is left of a statement, some of whose tables the dump read behind it.

        A schema change by a copy, under names that no rule tells, ends with RENAME t TO old, copy TO t. If that falls
        into the dump, t and old have points behind it, and the copy, which the dump never saw, only has to go.
        """
        left = [table for table in changed if table not in behind]
        pairs = [pair for each in piece.operations if isinstance(each, RenameTable) for pair in each.pairs]
        names = {new for _, new in pairs}
        if not pairs or any(table in names for table in left):
            raise DMError("ddl-within-dump", statement=piece.text, tables=", ".join(map(str, behind)))
        return [Step(Piece.of(f"DROP TABLE {table.sql}", piece.context), execute=True) for table in left]

    def _in_dump(self, begin: Position) -> bool:
        """Whether the dump was still reading tables when this transaction began."""
        return self._dumped_until is not None and not begin.covers(self._dumped_until)

    def _read_behind(self, table: TableName, transaction: SourceTransaction) -> bool:
        """Whether the dump read the table, or found it gone, behind this statement."""
        point = self._points.get(table)
        return point is not None and point.has_processed(transaction.gtid, transaction.end)

    def _all_behind(self, tables: Iterable[TableName], transaction: SourceTransaction) -> frozenset[TableName]:
        return frozenset(table for table in tables if self._read_behind(table, transaction))

    def _executed(self, piece: Piece, text: str) -> bool:
        """Whether the event filter lets the piece be executed, under every name its operations have."""
        return all(self._verdict(piece, event, text) for event in piece.events)

    def _verdict(self, piece: Piece, event: str, text: str) -> bool:
        """Whether the event filter lets an operation of this name be executed; `text` is the original statement."""
        alters = piece.verb == "ALTER TABLE"
        return all(self._rules.ddl_event(table, event, text, alters=alters) == "do" for table in piece.tables)

    def forget_intent(self) -> None:
        """What an earlier run announced was of statements that a person has changed since."""
        self._intent = None

    def inject(self, operator: Operator, transaction: SourceTransaction) -> None:
        """Execute an operator's statements before a transaction.

        They happen at the target, not at the source; they are tracked only where the rows that follow prove that what
        is known of the source's table is wrong, and right with them.
        """
        self._online.begin()
        steps = self.stated(operator, transaction)
        intent = self._stand_still(transaction.end)
        before = set(self._tracker.tables())
        for number, step in enumerate(steps):
            if step.execute:
                self.execution.run(step, number, transaction.end, intent)
            self._targets.invalidate_all()
        adopted = self._adopt([step.piece for step in steps], transaction)
        self._go_on(adopted, before, transaction.begin, operator)

    def run(self, steps: list[Step], end: Position, point: Position) -> None:
        """Execute and track the steps behind a barrier; ends with a checkpoint at `point`.

        `end` is the end of the event's transaction. The point is the same, but where rows follow in that transaction
        (CREATE TABLE .. SELECT), since they are not applied yet: there it is the transaction's begin.
        """
        intent = self._stand_still(end)
        before = set(self._tracker.tables())
        intent, done = self._executed_whole(steps, end, intent)
        for number, step in enumerate(steps):
            if step.cut_over is not None:
                self._online.prove(step.cut_over, end)
            if step.execute and not done:
                done = self._execute(step, number, len(steps), end, intent)
            self._track(step)
            self._targets.invalidate_all()
        self._go_on({table for step in steps if step.track != "no" for table in step.piece.tables}, before, point)

    def _execute(self, step: Step, number: int, count: int, end: Position, intent: Intent | None) -> bool:
        """Execute one step; where its piece is refused alone, all of the ALTER. True: there is nothing left to do.

        The whole is announced under the number behind the last piece. Only the first piece is tried so: with one of
        them done, the whole is not what the source executed. A key that rows have twice they have in the whole, too.
        """
        try:
            self.execution.run(step, number, end, intent)
        except DMError as error:
            alone = error.name == "ddl-failed" and error.server_errno != _DUPLICATE
            if number > 0 or step.whole is None or not alone:
                raise
            try:
                self.execution.run(replace(step, piece=step.whole), count, end, None)
            except DMError as second:
                if second.name == "ddl-failed":
                    raise error from second
                raise
            return True
        return False

    def _executed_whole(
        self, steps: Sequence[Step], end: Position, intent: Intent | None
    ) -> tuple[Intent | None, bool]:
        """Whether an earlier run came to the whole, and now it is done; and what it announced of the pieces."""
        if intent is None or not steps or steps[0].whole is None or intent.piece != len(steps):
            return intent, False
        if intent.refused:
            return None, False  # nothing was executed, and a person may have corrected what stood against a piece
        self.execution.run(replace(steps[0], piece=steps[0].whole), len(steps), end, intent)
        return intent, True

    def _stand_still(self, end: Position) -> Intent | None:
        """The barrier; gives what an earlier run announced at this place."""
        self._lanes.drain()
        self._progress.write()
        intent = self._intent if self._intent is not None and _same_place(self._intent.position, end) else None
        self._intent = None
        return intent

    def _track(self, step: Step) -> None:
        if step.track == "no":
            return
        kept = [schema for table in step.kept if (schema := self._tracker.get(table)) is not None]
        self._follow(step)
        for schema in kept:
            self._tracker.set(schema)
        dropped = [each.column for each in step.piece.operations if isinstance(each, DropColumn)]
        if dropped and not step.execute and self._rules.wanted(step.piece.table):
            self._tracker.keep_dropped(step.piece.table, dropped)

    def _follow(self, step: Step) -> None:
        untold = self._untold(step.piece)
        try:
            if step.track != "forget":
                self._tracker.apply(step.piece)
        except DMError:
            if self._read_again(step.piece):
                return
            if step.track == "yes":
                raise
        else:
            if step.track != "forget" and (untold is None or self._as_at_target(untold)):
                return
        for table in _changed(step.piece):
            self._tracker.forget(table)  # it is found again when its next rows come

    def _untold(self, piece: Piece) -> TableName | None:
        """The table of a CREATE TABLE IF NOT EXISTS that nothing is known of: whether it made it, nobody tells."""
        operation = piece.operations[0] if piece.operations else None
        if not isinstance(operation, CreateTable) or not operation.if_not_exists:
            return None
        return operation.table if self._tracker.get(operation.table) is None else None

    def _as_at_target(self, table: TableName) -> bool:
        """Whether the target has the columns that a table is said to have; it has them from the source."""
        schema, target = self._tracker.get(table), self._targets.read(self._rules.route(table))
        return schema is None or (target is not None and alike(schema, target))

    def _read_again(self, piece: Piece) -> bool:
        """Whether this creates just the table that is known already.

        The point behind a CREATE TABLE .. SELECT is the begin of its transaction, since its rows are not applied then
        (`run`); a run that starts there reads the statement once more.
        """
        if not isinstance(piece.operations[0], CreateTable):
            return False
        known = self._tracker.get(piece.operations[0].table)
        if known is None:
            return False
        self._tracker.forget(known.name)
        try:
            self._tracker.apply(piece)
        except DMError:
            created = None
        else:
            created = self._tracker.get(known.name)
        self._tracker.set(known)
        return created is not None and effect.same_structure(created, known)

    def _adopt(self, pieces: Sequence[Piece], transaction: SourceTransaction) -> set[TableName]:
        """Track what was injected, of the tables whose rows prove that the source has it; gives those tables."""
        maps = {
            TableName(item.table_map.schema, item.table_map.table): item.table_map
            for item in transaction.items
            if isinstance(item, RowsItem)
        }
        known = {table: self._tracker.get(table) for piece in pieces for table in piece.tables}
        for piece in pieces:
            self._track(Step(piece, execute=False, track="if possible"))
        adopted: set[TableName] = set()
        for table, before in known.items():
            after = self._tracker.get(table)
            if table in maps and not _fits(before, maps[table]) and _fits(after, maps[table]):
                adopted.add(table)
            elif before is not None:
                self._tracker.set(before)
            else:
                self._tracker.forget(table)
        return adopted

    def _go_on(
        self, touched: set[TableName], before: set[TableName], point: Position, injected: Operator | None = None
    ) -> None:
        """Store where we are and what the tables are like from here on."""
        faults.hit("syncer.after_ddl_record")
        self._forget()
        changed = {table: schema for table in touched if (schema := self._tracker.get(table)) is not None}
        gone = {table for table in before | touched if self._tracker.get(table) is None}
        if all(point.is_behind(other) for other in self._points.values()):
            gone.update(table for table in self._points if self._tracker.get(table) is None)
            self._points.clear()
        tables = {table: TablePoint(schema, self._points.get(table)) for table, schema in changed.items()}
        # As long as points are asked about, also those of names that are no longer there.
        tables |= {table: TablePoint(None, self._points[table]) for table in gone & self._points.keys()}
        self._progress.write_structures(
            point,
            tables,
            gone - tables.keys(),
            injected,
            self._online.changes,
        )
        self._online.stored()


def _all_of(steps: Sequence[Step], pieces: Sequence[Piece]) -> bool:
    """Whether each piece is to be executed, and nothing else."""
    return len(steps) == len(pieces) and all(
        step.piece is piece and step.execute and step.cut_over is None and step.copied_to is None
        for step, piece in zip(steps, pieces, strict=True)
    )


def _changed(piece: Piece) -> list[TableName]:
    """The tables that the statement changes.

    CREATE TABLE .. LIKE only looks at its model, and a name that tables only change places through belongs to none of
    them, neither before nor afterwards.
    """
    operation = piece.operations[0] if piece.operations else None
    unchanged = {operation.like} if isinstance(operation, CreateTable) else _between(piece)
    return [table for table in piece.tables if table not in unchanged]


def _between(piece: Piece) -> set[TableName | None]:
    """The names that only exist inside a RENAME TABLE: `x` of `a TO x, b TO a, x TO b`."""
    made: set[TableName] = set()
    found: set[TableName | None] = set()
    taken: set[TableName] = set()
    for each in piece.operations:
        for old, new in each.pairs if isinstance(each, RenameTable) else ():
            (found if old in made else taken).add(old)
            made.discard(old)
            made.add(new)
    return found - taken - made


def _fits(schema: TableSchema | None, table_map: TableMap) -> bool:
    return schema is not None and mismatch(table_map, wire_columns(schema, table_map.flavor)) is None


def _same_place(left: Position, right: Position) -> bool:
    if left.server_uuid == right.server_uuid:
        return left.order == right.order
    return bool(left.gtid_set) and left.gtid_set == right.gtid_set
