"""The gate of the optimistic mode: a shard's DDL passes at once, or waits for all shards.

`optimistic_policy.py` decides. `dm.progress.shards.optimistic_structures` says how that survives a crash. What passes
is executed in the turn of the target's table, without intents. The turn ends when the shard's new structure is stored
with L.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from dm import faults
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.draft import OperationRefused, renamed
from dm.mysql.schema.merged_table import differing_values, keys_for_rows, other_values
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaState, interpret
from dm.mysql.sql.effect_on_rows import own_values
from dm.mysql.sql.operation import AddColumn, CreateTable
from dm.mysql.sql.piece import Piece
from dm.progress.intent import Intent
from dm.progress.shards.group import GroupDdl, Shard
from dm.progress.shards.optimistic_structures import GroupSurvey, ShardStructures
from dm.syncer.apply.lanes import Stopped
from dm.syncer.ddl.gate import Act, GateSides, GateVerdict
from dm.syncer.ddl.plan import CutOver, DdlPlan, Execute, Step, TrackOnly
from dm.syncer.shards.optimistic_policy import OtherShard, Surrounding, Verdict, admit, alone, decide, dismiss
from dm.syncer.shards.pessimistic_gate import ShardGate, ShardReading

WAIT_SECONDS: Final = 5.0  # until something can be decided about the group, before the table is held
_LOOK_SECONDS: Final = 0.2


class NoAnnouncements:
    """For statements that pass: they may be executed twice, since the next run decides anew."""

    def write_intent(self, intent: Intent) -> None:
        """Nothing is announced."""

    def write_refusal(self) -> None:
        """Nothing was announced."""


class OptimisticGate(ShardGate):
    """A statement passes at once, unless all shards have to arrive at it."""

    _enters = True

    def __init__(self, reading: ShardReading, structures: ShardStructures, sides: GateSides, *, strict: bool) -> None:
        super().__init__(reading, sides)
        self._structures = structures
        self._groups = reading.groups
        self._strict = strict  # nothing waits for other shards

    def _has_others(self, table: TableName) -> bool:
        """The target's structure need not be theirs."""
        return False

    def _created(self, made: list[Shard]) -> None:
        """The target accepts each as it is."""

    # -- A statement that alters a shard

    def _altered(self, ddl: GroupDdl, planned: DdlPlan) -> GateVerdict | None:
        """The verdict about a DDL that passes, with the turn taken; None if all shards have to arrive at it."""
        shard = ddl.shard
        before = self._before(planned, shard.table)
        if any(isinstance(step, Execute) and step.by_hand for step in planned.steps):
            # A person's statements are executed as they are; columns that the shard dropped stay at the target.
            self._session.take_turn(shard.target)
            return self._passing(planned, self._following(planned))
        if before is None and self._alone(shard):
            return None
        if before is None:
            raise DMError(
                "shard-structure-unknown",
                table=shard.table,
                task=self._groups.key.task,
                statement="; ".join(ddl.statements),
            )
        until = self._clock.monotonic() + WAIT_SECONDS
        while True:
            survey, verdict = self._decided(shard, ddl, planned, before)
            if survey.gated or survey.ready:
                break
            self._session.end_turn()
            if self._clock.monotonic() >= until:
                return GateVerdict.held(shard.table, planned)
            if self._session.pause(_LOOK_SECONDS):
                raise Stopped
        if survey.gated or verdict is None or verdict.gate:
            self._session.end_turn()
            why = "another shard waits for it" if verdict is None else verdict.gate
            if survey.others:
                self._demand_gate_allowed(ddl, planned, why, before)
            return None
        kept = frozenset(self._tracker.kept_columns(shard.table))
        return self._passing(
            self._rewritten(planned, verdict),
            lambda connection: self._store(connection, shard, survey, verdict),
            lambda: self._restore_kept(shard.table, kept),
        )

    def _passing(self, planned: DdlPlan, beside: Act, done: Callable[[], None] = lambda: None) -> GateVerdict:
        """The verdict to execute a plan in the turn of its table, which ends when everything is stored."""
        self._schemas.invalidate_all()

        def tell() -> None:
            faults.hit("shard.widened")
            done()

        stored = partial(faults.hit, "shard.structure_stored")
        return GateVerdict(planned, announcements=NoAnnouncements(), tell=tell, beside=beside, stored=stored)

    def _decided(
        self, shard: Shard, ddl: GroupDdl, planned: DdlPlan, before: TableSchema
    ) -> tuple[GroupSurvey, Verdict | None]:
        """Survey the group in its turn, and decide if that is possible."""
        self._session.take_turn(shard.target)
        target = self._schemas.read(shard.target)
        there = () if target is None else [column.name for column in target.columns]
        found = list[tuple[GroupSurvey, Verdict | None]]()

        def act(connection: TargetConnection) -> None:
            survey = self._surveyed(connection, shard, ddl.form, there)
            verdict = None
            if survey.ready and not survey.gated:
                pieces = [step.piece for step in planned.steps if isinstance(step, Execute)]
                around = self._around(survey, target, shard)
                verdict = decide(pieces, before, around, self._database)
                if verdict.gate:
                    verdict = alone(pieces, before, around, self._database) or verdict
                if verdict.loose_meanwhile != survey.loose and not verdict.gate:
                    self._loosen(connection, shard, verdict)
            found.append((survey, verdict))

        self._progress.beside(lambda connection: self.reading.claimed(connection, act))
        faults.hit("shard.decided")
        return found[0]

    def _loosen(self, connection: TargetConnection, shard: Shard, verdict: Verdict) -> None:
        """Store which columns get a default only for shards that lack them, before they get it."""
        self._structures.loosen(connection, shard.target, verdict.loose_meanwhile)
        faults.hit("shard.loosened")

    def _surveyed(self, connection: TargetConnection, shard: Shard, form: str, there: Sequence[str]) -> GroupSurvey:
        """Survey the group under the latch, and check the turn: it may have been lost to another session."""
        survey = self._structures.survey(connection, shard, form, there)
        if not self._session.has_turn(connection):
            raise DMError("shard-ddl-out-of-turn", target=shard.target, number=survey.revision)
        return survey

    def _around(self, survey: GroupSurvey, target: TableSchema | None, shard: Shard) -> Surrounding:
        others = tuple(
            OtherShard(other.name, other.schema, other.kept, other.early)
            for other in survey.others
            if other.schema is not None
        )
        left = frozenset(self._tracker.kept_columns(shard.table))
        return Surrounding(target, others, survey.loose, survey.kept, left, self._rules.filled(shard.table))

    def _database(self, schema: str) -> Collated:
        return self._tracker.database_charset(schema)

    def _alone(self, shard: Shard) -> bool:
        group = self._progress.ask(lambda connection: self._groups.group(connection, shard.target))
        return group.joined and all(each.table == shard.table for each in group.members) and len(group.members) <= 1

    def _demand_gate_allowed(self, ddl: GroupDdl, planned: DdlPlan, why: str, before: TableSchema) -> None:
        """Raise DMError if a statement must not wait for the others, or if waiting can't make it exact."""
        statement = "; ".join(ddl.statements)
        if self._strict:
            raise DMError("shard-ddl-strict", why=why, statement=statement)
        for step in planned.steps:
            if isinstance(step, Execute) and (differing := self._unequal(step.piece, before)):
                raise DMError("shard-ddl-unsupported", why=differing, statement=statement)

    def _unequal(self, piece: Piece, before: TableSchema) -> str:
        """How shards differ in a new column whose value depends on the moment, the session or the row; or empty."""
        after = self._structure_after(before, [piece])
        for one in piece.operations:
            column = after.column(one.column) if after is not None and isinstance(one, AddColumn) else None
            if column is None or before.column(column.name) is not None:
                continue
            of_each_row = any(not own.ordered for own in own_values(piece))
            if differing := other_values(column.name) if of_each_row else differing_values(column):
                return differing
        return ""

    def _before(self, planned: DdlPlan, table: TableName) -> TableSchema | None:
        """The shard's structure at a statement; None if it is not known."""
        moved = next((step.old for step in planned.steps if isinstance(step, CutOver)), table)
        schema = self._tracker.get(moved)
        return None if schema is None else renamed(schema, table)

    def _arrival(self, planned: DdlPlan, shard: Shard) -> tuple[TableSchema | None, TableSchema | None]:
        """The shard's structure after its statement, None if it is not known, and the target's with its keys."""
        before, target = self._before(planned, shard.table), self._schemas.read(shard.target)
        pieces = [step.piece for step in planned.steps if isinstance(step, Execute)]
        return (
            None if before is None else self._structure_after(before, pieces),
            None if target is None else keys_for_rows(target, self._rules.filled(shard.table)),
        )

    def _structure_after(self, before: TableSchema, pieces: list[Piece]) -> TableSchema | None:
        table = before.name
        schema: TableSchema | None = before
        for piece in pieces:
            if schema is None:
                return None
            around = SchemaState({table: schema}.get, self._tracker.database_charset, lenient=True)
            try:
                schema = interpret(piece, around).get(table, schema)
            except OperationRefused:
                return None
        return schema

    @staticmethod
    def _rewritten(planned: DdlPlan, verdict: Verdict) -> DdlPlan:
        """The plan with the target's statements in place of the shard's, which are only tracked."""
        steps, statements = list[Step](), iter(verdict.statements)
        last: Execute | None = None
        for step in planned.steps:
            if not isinstance(step, Execute):
                steps.append(step)
                continue
            last = replace(step, whole=None, whole_moved_away=None, track="not")
            steps += [replace(last, piece=Piece.of(text, step.piece.context)) for text in next(statements)]
            steps.append(TrackOnly(step.piece, step.track))
        if last is not None:
            steps += [replace(last, piece=Piece.of(text, last.piece.context)) for text in verdict.narrowing]
        return replace(planned, steps=tuple(steps))

    def _store(self, connection: TargetConnection, shard: Shard, survey: GroupSurvey, verdict: Verdict) -> None:
        schema = self._tracker.get(shard.table)
        assert schema is not None

        def act(one: TargetConnection) -> None:
            self._structures.store(one, shard, schema, survey, kept=verdict.kept, loose=verdict.loose)

        self.reading.claimed(connection, act)

    # -- Other statements

    def _of_one(self, planned: DdlPlan, original: DdlPlan) -> GateVerdict | None:
        """The verdict about a shard that is created or dropped, with the turn taken; None for any other event."""
        return self._creation(planned) or self._removal(planned, original)

    def _creation(self, planned: DdlPlan) -> GateVerdict | None:
        """A table that becomes a shard of an existing target table, or waits for others' statements."""
        made = [step for step in planned.steps if isinstance(step, Execute) and self._makes(step)]
        if len(made) != 1:
            return None
        (step,) = made
        shard = Shard(step.piece.table, self._rules.route(step.piece.table))
        self._progress.ask(lambda connection: self._groups.ensure(connection, [shard.target]))
        self._session.take_turn(shard.target)
        target = self._schemas.read(shard.target)
        if target is None:
            return None
        around = SchemaState(self._tracker.get, self._tracker.database_charset, lenient=True)
        created = interpret(step.piece, around).get(shard.table)
        if created is None:
            return None
        found = list[tuple[GroupSurvey, Verdict]]()

        def act(connection: TargetConnection) -> None:
            survey = self._surveyed(connection, shard, "", [column.name for column in target.columns])
            if self._groups.is_next_begun(connection, shard.target):  # a DDL is begun, and its executor has gone
                self._groups.waits(connection, shard, self.reading.held)
                self._structures.learn_early(connection, created)
                return
            try:
                verdict = admit(created, self._around(survey, target, shard))
            except DMError:
                if not self._groups.waits(connection, shard, self.reading.held):
                    raise
                self._structures.learn_early(connection, created)
                return
            if verdict.loose_meanwhile != survey.loose:
                self._loosen(connection, shard, verdict)
            found.append((survey, verdict))

        self._progress.beside(lambda connection: self.reading.claimed(connection, act))
        if not found:
            self._session.end_turn()
            faults.hit("shard.early")
            return GateVerdict.held(shard.table, planned)
        faults.hit("shard.decided")
        survey, verdict = found[0]

        def beside(connection: TargetConnection) -> None:
            def enter(one: TargetConnection) -> None:
                self._groups.enter(one, shard)
                schema = self._tracker.get(shard.table) or created
                self._structures.store(one, shard, schema, survey, kept=frozenset(), loose=verdict.loose)

            self.reading.claimed(connection, enter)

        only = replace(planned, steps=tuple(TrackOnly(each.piece) if each is step else each for each in planned.steps))
        first = [replace(step, piece=Piece.of(text, step.piece.context), track="not") for text in verdict.statements[0]]
        return self._passing(replace(only, steps=(*first, *only.steps)), beside)

    def _removal(self, planned: DdlPlan, original: DdlPlan) -> GateVerdict | None:
        """A shard that is dropped: the target need not accept its structure any more. None for any other event.

        `original` has the statement, which the plan only tracks. If several shards are dropped at once, the next
        statement of another shard narrows the target.
        """
        drops = (step for step in original.steps if isinstance(step, Execute) and step.piece.verb == "DROP TABLE")
        dropped = [step for step in drops if self._rules.wanted(step.piece.table)]
        if len(dropped) != 1:
            return None
        (step,) = dropped
        shard = Shard(step.piece.table, self._rules.route(step.piece.table))
        leaving = self._tracker.get(shard.table)
        self._session.take_turn(shard.target)
        target = self._schemas.read(shard.target)
        found = list[tuple[GroupSurvey, Verdict]]()

        def act(connection: TargetConnection) -> None:
            there = () if target is None else [column.name for column in target.columns]
            survey = self._surveyed(connection, shard, "", there)
            if survey.ready and leaving is not None and target is not None:
                around = self._around(survey, target, shard)
                found.append((survey, dismiss(leaving, around, step.piece.context, self._database)))

        self._progress.ask(lambda connection: self._groups.ensure(connection, [shard.target]))
        self._progress.beside(lambda connection: self.reading.claimed(connection, act))
        if not found:
            self._session.end_turn()
            return None
        faults.hit("shard.decided")
        survey, verdict = found[0]

        def beside(connection: TargetConnection) -> None:
            def leave(one: TargetConnection) -> None:
                self._structures.narrowed(one, shard.target, survey, verdict.loose)
                self._groups.leave(one, shard)
                faults.hit("shard.left")

            self.reading.claimed(connection, leave)

        first = [replace(step, piece=Piece.of(text, step.piece.context), track="not") for text in verdict.narrowing]
        return self._passing(replace(planned, steps=(*first, *planned.steps)), beside)

    def _makes(self, step: Execute) -> bool:
        operation = step.piece.operation
        return isinstance(operation, CreateTable) and not operation.or_replace and self._rules.wanted(
            operation.table
        )  # fmt: skip

    def _following(self, planned: DdlPlan) -> Act:
        """What commits with the L after an event that changed shards' structures without a decision."""

        def store(connection: TargetConnection) -> None:
            tables = [
                table
                for step in planned.steps
                if not isinstance(step, CutOver)
                for table in step.piece.tables
                if self._rules.wanted(table)
            ]
            schemas = [schema for table in tables if (schema := self._tracker.get(table)) is not None]
            self.reading.claimed(connection, lambda one: self._structures.learn(one, schemas))

        return store

    def _restore_kept(self, table: TableName, kept: frozenset[str]) -> None:
        """Reset the tracker's kept columns: the target has dropped the columns, or the group remembers them."""
        schema = self._tracker.get(table)
        if schema is not None:
            left = tuple(sorted(name for name in kept if schema.column(name) is None))
            self._tracker.set(replace(schema, kept=left))
