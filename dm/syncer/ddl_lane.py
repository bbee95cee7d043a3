"""DDL: a barrier, then piece by piece, each announced before it is executed (invariant I6 of the progress protocol).

What a piece needs is decided on the source's names first (lists, event rules, points of tables that entered late), then
its text is routed. A piece that a filter drops is not executed but tracked, because the rows behind it have the new
structure. A piece whose effect the target already has counts as done: another upstream of a merged table, or the window
of a dump, brought it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dm import faults
from dm.binlog.reader import Query
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.schema import effect
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.sql.context import SourceContext
from dm.sql.operation import CreateTable, ExchangePartition, RenameTable
from dm.sql.piece import Piece, separate, split
from dm.sql.statement import classify
from dm.syncer.ddl_session import DdlSession
from dm.syncer.gathered import creates_shard, refuse_renaming
from dm.syncer.lanes import Lanes
from dm.syncer.progress_writer import ProgressWriter
from dm.syncer.transaction import SourceTransaction
from dm.target.progress.checkpoint import TablePoint
from dm.target.progress.intent import Intent, Outcome
from dm.target.target_schema import TargetSchemas

_REFUSED = ("statement-failed", "duplicate-key", "privilege-missing")
_SWAPS = (RenameTable, ExchangePartition)
_NOT_UNDERSTOOD = ("ddl-not-understood", "ddl-splice-mismatch")
# 1051: some tables of a DROP TABLE were not there; those that were are gone, and pieces say IF EXISTS.
_HARMLESS = (0, 1051)


@dataclass(slots=True)
class _Step:
    """One piece and what is to be done with it."""

    piece: Piece
    execute: bool  # False: only track it


class DdlLane:
    """Takes query events that are no transaction control."""

    def __init__(
        self,
        rules: TableRules,
        tracker: SchemaTracker,
        targets: TargetSchemas,
        lanes: Lanes,
        progress: ProgressWriter,
        session: DdlSession,
        *,
        context_of: Callable[[Query], SourceContext],
        points: dict[TableName, Position],
        intent: Intent | None,
        dumped_until: Position | None,
        forget: Callable[[], None],
    ) -> None:
        self._rules = rules
        self._tracker = tracker
        self._targets = targets
        self._lanes = lanes
        self._progress = progress
        self._session = session
        self._context_of = context_of
        self._points = points
        self._intent = intent
        # The end of the dump's window. After a crash the bound is no further than the last DDL, so it finds none.
        self._dumped_until = dumped_until
        self._forget = forget
        self.executed = 0
        self.already_effective = 0
        self.running: str | None = None  # the statement under way, for the status

    def steps(self, query: Query, transaction: SourceTransaction) -> list[_Step]:
        """What this event demands; empty when it concerns nobody. Raises DMError where that can't be told."""
        text = query.readable
        try:
            if query.undecodable is not None and not self._foreign_dml(query):
                raise query.undecodable
            return self._understood(query, text, transaction)
        except DMError as error:
            # The patterns are asked last: a statement that is understood is tracked even where a rule drops it.
            if error.name in _NOT_UNDERSTOOD and self._rules.sql_pattern_ignores(text):
                return []
            error.position = error.position or str(transaction.end)
            raise

    def _understood(self, query: Query, text: str, transaction: SourceTransaction) -> list[_Step]:
        context = self._context_of(query)
        statement = classify(text, context)
        if statement.kind == "dml" and self._concerns(query, statement.tables):
            raise DMError("statement-dml", statement=_shorten(text))
        if statement.kind != "ddl":
            return []
        steps = [step for piece in split(text, context) for step in self._steps_of(piece, text, transaction)]
        if steps and query.error_code not in _HARMLESS:
            raise DMError("statement-failed-at-source", statement=_shorten(text), code=query.error_code)
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
        return any(self._rules.wanted(TableName(schema, "")) for schema in others)

    def _steps_of(self, piece: Piece, text: str, transaction: SourceTransaction) -> list[_Step]:
        wanted = [self._rules.wanted(table) for table in piece.tables]
        if not any(wanted):
            return []
        if not all(wanted):
            raise DMError("ddl-partly-wanted", statement=_shorten(piece.text))
        changed = _changed(piece)
        behind = {table for table in changed if self._read_behind(table, transaction)}
        if changed and len(behind) == len(changed):
            return []
        if behind:
            return self._beside(piece, changed, behind)
        if any(isinstance(each, _SWAPS) for each in piece.operations) and self._in_dump(transaction.begin):
            # Tables that changed places look the same afterwards, so the dump could not notice: which rows it read
            # under which name is not known.
            raise DMError("ddl-within-dump", statement=_shorten(piece.text), tables=", ".join(map(str, changed)))
        if len({self._verdict(piece, event, text) for event in piece.events}) > 1:
            # Operations that belong together, and a filter that wants some of them: then each goes alone.
            return [_Step(part, self._executed(part, text)) for part in separate(piece)]
        return [_Step(piece, self._executed(piece, text))]

    def _beside(self, piece: Piece, changed: Sequence[TableName], behind: set[TableName]) -> list[_Step]:
        """What is left of a statement, some of whose tables the dump read behind it.

        A schema change by a copy (gh-ost, pt-online-schema-change) ends with RENAME t TO old, copy TO t. If that falls
        into the dump, t and old have points behind it, and the copy, which the dump never saw, only has to go.
        """
        left = [table for table in changed if table not in behind]
        pairs = [pair for each in piece.operations if isinstance(each, RenameTable) for pair in each.pairs]
        names = {new for _, new in pairs}
        if not pairs or any(table in names for table in left):
            raise DMError("ddl-within-dump", statement=_shorten(piece.text), tables=", ".join(map(str, behind)))
        return [_Step(Piece.of(f"DROP TABLE {table.sql}", piece.context), execute=True) for table in left]

    def _in_dump(self, begin: Position) -> bool:
        """Whether the dump was still reading tables when this transaction began."""
        return self._dumped_until is not None and not begin.covers(self._dumped_until)

    def _read_behind(self, table: TableName, transaction: SourceTransaction) -> bool:
        """Whether the dump read the table, or found it gone, behind this statement."""
        point = self._points.get(table)
        return point is not None and point.has_processed(transaction.gtid, transaction.end)

    def _executed(self, piece: Piece, text: str) -> bool:
        """Whether the event filter lets the piece be executed, under every name its operations have."""
        return all(self._verdict(piece, event, text) for event in piece.events)

    def _verdict(self, piece: Piece, event: str, text: str) -> bool:
        """Whether the event filter lets an operation of this name be executed; `text` is the original statement."""
        alters = piece.verb == "ALTER TABLE"
        return all(self._rules.ddl_event(table, event, text, alters=alters) == "do" for table in piece.tables)

    def run(self, query: Query, steps: list[_Step], end: Position, point: Position) -> None:
        """Execute and track the steps behind a barrier; ends with a checkpoint at `point`.

        `end` is the end of the event's transaction. The point is the same, but where rows follow in that transaction
        (CREATE TABLE .. SELECT), since they are not applied yet: there it is the transaction's begin.
        """
        self._lanes.drain()
        self._progress.write()
        intent = self._intent if self._intent is not None and _same_place(self._intent.position, end) else None
        self._intent = None
        before = set(self._tracker.tables())
        for number, step in enumerate(steps):
            if step.execute:
                self._execute(query, number, step.piece, end, intent)
            self._tracker.apply(step.piece)
            self._targets.invalidate_all()
        faults.hit("syncer.after_ddl_record")
        self._forget()
        touched = {table for step in steps for table in step.piece.tables}
        changed = {table: schema for table in touched if (schema := self._tracker.get(table)) is not None}
        gone = [table for table in before | touched if self._tracker.get(table) is None]
        for table in gone:
            self._points.pop(table, None)
        self._progress.write_structures(
            point, {table: TablePoint(schema, self._points.get(table)) for table, schema in changed.items()}, gone
        )

    def _execute(self, query: Query, number: int, piece: Piece, end: Position, intent: Intent | None) -> None:
        if intent is not None and number < intent.piece:
            return  # a later piece was announced, so this one is done
        refuse_renaming(piece, self._rules, end)
        target_piece = piece.route(self._rules.route)
        routed = target_piece.text
        now = self._structures_of(target_piece)
        if creates_shard(piece, self._rules, now, end):
            self.already_effective += 1
            return
        if intent is not None and number == intent.piece and not intent.refused:
            outcome = intent.outcome(now)
            if outcome is Outcome.DONE:
                return
            if outcome is Outcome.UNCLEAR or (not effect.visible(piece) and not effect.idempotent(piece)):
                raise DMError("ddl-outcome-unclear", statement=_shorten(routed), position=end)
        if effect.already_effective(now, target_piece):
            self.already_effective += 1
            return
        after = effect.expected_after(now, target_piece)
        self._progress.write_intent(Intent(end, number, routed, self._session.connection_id, now, after))
        faults.hit("syncer.before_ddl")
        self.running = routed
        try:
            self._session.execute(routed, query)
        except DMError as error:
            if error.name not in _REFUSED:
                raise
            # A clean refusal: a person may correct the target, and the structure is then neither before nor after.
            self._progress.write_refusal()
            if error.name == "privilege-missing":
                error.position = str(end)
                raise
            raise DMError("ddl-failed", statement=_shorten(routed), position=end, cause=error.cause) from error
        finally:
            self.running = None
        self.executed += 1
        faults.hit("syncer.after_ddl")

    def _structures_of(self, target_piece: Piece) -> dict[TableName, TableSchema | None]:
        """The tables that the piece names, and the schemas whose defaults they inherit."""
        tables = target_piece.tables
        now = {TableName(table.schema, ""): self._session.database(table.schema) for table in tables}
        now.update((table, self._targets.read(table)) for table in tables if table.table)
        return now


def _changed(piece: Piece) -> list[TableName]:
    """The tables that the statement changes; CREATE TABLE .. LIKE only looks at its model."""
    operation = piece.operations[0] if piece.operations else None
    model = operation.like if isinstance(operation, CreateTable) else None
    return [table for table in piece.tables if table != model]


def _same_place(left: Position, right: Position) -> bool:
    if left.server_uuid == right.server_uuid:
        return left.order == right.order
    return bool(left.gtid_set) and left.gtid_set == right.gtid_set


def _shorten(statement: str, limit: int = 500) -> str:
    return statement if len(statement) <= limit else statement[:limit] + " ..."
