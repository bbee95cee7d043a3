"""One piece of DDL at the target: look whether its effect is there, announce it, execute it.

A piece whose effect the target already has counts as done: another upstream of a merged table, or the window of a dump,
brought it there. Upstreams that alter their shards at the same moment must not both look first and execute then: of
two `ADD INDEX (a)` without a name neither is refused, and the table would have two indexes. So whoever looks at a table
holds its turn (`DdlSession.turn`) until the piece is executed. The turn is a lock at the target and is not needed for
what survives a crash: the announcement is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dm import faults
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.intent import Intent, Outcome
from dm.rules.table_rules import TableRules
from dm.schema import effect
from dm.schema.charset import Collated
from dm.schema.collation_text import with_collations
from dm.schema.inherited_charset import inherits_charset, with_inherited_charset
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.sql.operation import AddColumn, RenameTable
from dm.sql.piece import Piece
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.apply.target_names import TargetNames
from dm.syncer.ddl.checks.constraint_names import with_own_names
from dm.syncer.ddl.checks.copied_rows import refuse_other_copy
from dm.syncer.ddl.checks.dropped_schema import refuse_leaving_tables
from dm.syncer.ddl.checks.gathered import creates_shard, refuse_renaming
from dm.syncer.ddl.checks.rows_in_place import refuse_other_values
from dm.syncer.ddl.online_ddl import OnlineDdl, made
from dm.syncer.ddl.session import DdlSession
from dm.syncer.ddl.step import Step

_REFUSED = ("statement-failed", "duplicate-key", "privilege-missing")


class DdlExecution:
    """Executes pieces; the DDL lane has drained the other lanes before."""

    def __init__(
        self,
        rules: TableRules,
        tracker: SchemaTracker,
        targets: TargetSchemas,
        progress: ProgressWriter,
        session: DdlSession,
        online: OnlineDdl,
        names: TargetNames,
        *,
        source_has: Callable[[TableName], bool],
        strict_collations: bool,
    ) -> None:
        self._rules = rules
        self._tracker = tracker
        self._targets = targets
        self._progress = progress
        self._session = session
        self._online = online
        self._names = names
        self._source_has = source_has  # a table, now
        self._strict_collations = strict_collations
        self.executed = 0
        self.already_effective = 0
        self.running: str | None = None  # the statement under way, for the status

    def run(self, step: Step, number: int, end: Position, intent: Intent | None) -> None:
        """Execute one step of the event that ends at `end`, if its effect is not there; raises DMError or Stopped.

        `intent` is what an earlier run announced at this place; pieces before the announced one are done.
        """
        piece = step.piece
        if intent is not None and number < intent.piece:
            return  # a later piece was announced, so this one is done
        if self._renames_views(piece):
            return
        refuse_renaming(piece, self._rules, end)
        if not step.by_hand:
            refuse_leaving_tables(piece, self._tracker, self._rules, self._targets.read, end)
        self._names.demand_apart(piece.tables, made(piece), end)
        if self._names.only_respelt(piece):
            self.already_effective += 1
            return
        collated = with_collations(piece, self._session.context) if self._strict_collations else piece
        target_piece = self._with_inherited_charset(collated).route(self._rules.route)
        self.running = target_piece.text
        try:
            with self._session.turn(target_piece.table):
                self._in_turn(step, target_piece, number, end, intent)
        finally:
            self.running = None

    def _renames_views(self, piece: Piece) -> bool:
        """Whether a RENAME TABLE is about views, which are not replicated; no event says so.

        What it names is no table that is known or that the target has, and what comes of it is no table of the source
        now. If it was one, it never had rows that were replicated; where such rows come, the task pauses.
        """
        each = piece.operation
        if piece.verb != "RENAME TABLE" or not isinstance(each, RenameTable):
            return False
        left: set[TableName] = set()
        for old, new in each.pairs:
            if self._tracker.get(old) is not None or self._session.has_table(self._rules.route(old)):
                return False
            left.discard(old)
            left.add(new)
        return not any(map(self._source_has, left))

    def _in_turn(self, step: Step, target_piece: Piece, number: int, end: Position, intent: Intent | None) -> None:
        piece = step.piece
        now = self._structures_of(target_piece)
        if creates_shard(piece, self._rules, now, end):
            self.already_effective += 1
            return
        if intent is not None and number == intent.piece and not intent.refused:
            outcome = intent.outcome(now)
            if outcome is Outcome.DONE:
                return
            if outcome is Outcome.UNCLEAR or (not effect.visible(piece) and not effect.idempotent(piece)):
                raise DMError("ddl-outcome-unclear", statement=target_piece.text, position=end)
        try:
            target_piece = self._own_form(step, target_piece, now, end)
            if effect.already_effective(now, target_piece, self._tracker.get(piece.table)):
                self.already_effective += 1
                return
            if step.copied_to is not None:
                refuse_other_copy(piece, step.copied_to, now.get(target_piece.table), self._session, end)
            if not step.by_hand:
                self._refuse_other_values(piece, target_piece, now, end)
        except DMError:
            # The pieces before are done; told now, since a person may change the table that the last of them left.
            self._progress.write_intent(Intent(end, number, target_piece.text, self._session.connection_id, now, now))
            self._progress.write_refusal()
            raise
        routed = target_piece.text
        after = effect.expected_after(now, target_piece)
        self._progress.write_intent(Intent(end, number, routed, self._session.connection_id, now, after))
        faults.hit("syncer.before_ddl")
        try:
            self._session.execute(routed, step.query)
        except DMError as error:
            if error.name not in _REFUSED:
                raise
            # A clean refusal: a person may correct the target, and the structure is then neither before nor after.
            self._progress.write_refusal()
            if self._effective_meanwhile(piece, target_piece):
                self.already_effective += 1
                return
            if error.name == "privilege-missing":
                error.position = str(end)
                raise
            failed = DMError("ddl-failed", statement=routed, position=end, cause=error.cause)
            raise failed.numbered(error.server_errno) from error
        self.executed += 1
        faults.hit("syncer.after_ddl")

    def _with_inherited_charset(self, piece: Piece) -> Piece:
        if not inherits_charset(piece):
            return piece
        there = self._session.database(self._rules.route(piece.table).schema)
        if there is None or there.charset is None or there.collation is None:
            return piece
        return with_inherited_charset(
            piece,
            self._tracker.told_charset(piece.table.schema),
            Collated(there.charset, there.collation),
            self._session.context,
            strict=self._strict_collations,
        )

    def _effective_meanwhile(self, piece: Piece, target_piece: Piece) -> bool:
        """Whether somebody else has executed the same, between our look at the target and our statement."""
        self._targets.invalidate_all()
        now = self._structures_of(target_piece)
        return effect.already_effective(now, target_piece, self._tracker.get(piece.table))

    def _refuse_other_values(
        self, piece: Piece, target_piece: Piece, now: Mapping[TableName, TableSchema | None], end: Position
    ) -> None:
        refuse_other_values(
            piece, target_piece, now, tracker=self._tracker, rules=self._rules, session=self._session, position=end
        )

    def _own_form(
        self, step: Step, target_piece: Piece, now: Mapping[TableName, TableSchema | None], end: Position
    ) -> Piece:
        """The routed piece in the words that mean at the target what it meant at the source; raises DMError."""
        piece, target = step.piece, now.get(target_piece.table)
        self._refuse_successor(piece, now, end)
        if step.by_hand:
            return target_piece
        self._refuse_kept_columns(piece, target, end)
        return with_own_names(
            piece,
            target_piece,
            self._tracker.get(piece.table),
            target,
            route=self._rules.route,
            session=self._session,
            position=end,
        )

    def _refuse_kept_columns(self, piece: Piece, target: TableSchema | None, end: Position) -> None:
        """A new column whose namesake was dropped at the source only: the target's has the old values."""
        kept = self._tracker.kept_columns(piece.table)
        for each in piece.operations:
            if target is None or not isinstance(each, AddColumn) or each.column.lower() not in kept:
                continue
            if target.column(each.column) is not None and self._session.has_rows(target.name, 1):
                raise DMError(
                    "ddl-column-kept", column=each.column, target=target.name, statement=piece.text, position=end
                )

    def _refuse_successor(self, piece: Piece, now: Mapping[TableName, TableSchema | None], end: Position) -> None:
        """A table that an online DDL moved away at the source is still at the target, with its rows."""
        moved = self._online.moved_to(piece)
        if moved is None:
            return
        real, trash = moved
        target = self._rules.route(real)
        if now.get(target) is not None:
            raise DMError(
                "online-ddl-table-moved",
                position=end,
                real=real,
                trash=trash,
                target=target,
                target_sql=target.sql,
                statement=piece.text,
            )

    def _structures_of(self, target_piece: Piece) -> dict[TableName, TableSchema | None]:
        """The tables that the piece names, and the schemas whose defaults they inherit."""
        tables = target_piece.tables
        now = {TableName(table.schema, ""): self._session.database(table.schema) for table in tables}
        now.update((table, self._targets.read(table)) for table in tables if table.table)
        return now
