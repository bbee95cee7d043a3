"""DDL: a plan, a barrier, then step by step, each announced before it is executed (invariant I6 of the protocol).

The planner decides what an event demands, and writes nothing (`planner.py`). Then the lanes are drained, and the gate
decides which steps are done now (`gate.py`). These steps are executed and tracked. Where they have led is stored with
the first intent of the next statement, if that follows at once, else before anything else is done
(`DdlBarrier.store_end`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from dm import faults
from dm.errors import DMError
from dm.errors.without_values import without_literals
from dm.ident import TableName
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.draft import OperationRefused, renamed
from dm.mysql.schema.normal import index_form, same_column
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaState, SchemaTracker, interpret
from dm.mysql.sql.inline_references import without_ignored_references
from dm.mysql.sql.split import split
from dm.mysql.sql.statement import kind_of
from dm.position import Position
from dm.progress.checkpoint import TablePoint
from dm.progress.intent import Intent
from dm.progress.operators import Operator
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.progress_writer import ProgressWriter, StatementEnd
from dm.syncer.ddl.execution import REFUSED_DDL, DdlExecution
from dm.syncer.ddl.gate import Act, DdlGate, GateVerdict
from dm.syncer.ddl.long_statements import LongStatements
from dm.syncer.ddl.plan import CutOver, DdlPlan, Execute, PlanningState, StatementEvent, pausing
from dm.syncer.ddl.planner import SourceViews, plan, plan_injection
from dm.syncer.ddl.tracking import StructureTracking

_DUPLICATE = 1062

Tracked = Mapping[TableName, TableSchema | None]


@dataclass(frozen=True, slots=True)
class AroundSteps:
    """The parts that are drained before the steps of a plan, and told after them."""

    lanes: Lanes
    progress: ProgressWriter
    views: SourceViews
    invalidate: Callable[[], None]  # forgets the target's structures
    forget: Callable[[], None]  # forgets everything derived from structures
    gate: DdlGate
    long: LongStatements | None = None


class DdlBarrier:
    """Takes query events other than transaction control; belongs to the unit's own thread."""

    def __init__(
        self,
        known: PlanningState,
        points: dict[TableName, Position],
        intent: Intent | None,
        execution: DdlExecution,
        tracking: StructureTracking,
        around: AroundSteps,
    ) -> None:
        self._known = known
        self._points = points  # those of `known`
        self._intent = intent
        self._tracking = tracking
        self._tracker = tracking.tracker
        self._around = around
        self._progress = around.progress
        self.execution = execution
        self._end_held = False  # the end of the last statement is held, and nothing was given to a lane since
        self._log = structlog.get_logger()

    def plan(self, event: StatementEvent) -> DdlPlan:
        """The plan of an event; raises DMError if that is unclear, `ddl-beside` if it leaves with its table."""
        with pausing(event.query.readable):
            planned = plan(event, self._known)
        long = self._around.long
        if long is not None and planned.steps and event.operator is None and (leaving := long.leaving(planned)):
            error = DMError("ddl-beside", statement=event.query.readable, position=event.transaction.end)
            error.tables = leaving
            raise error
        return planned

    def named(self, query: Query) -> frozenset[TableName]:
        """The tables here that a statement names; none where it is not understood, or is about a schema."""
        source = self._known.source
        context = source.context_of(query)
        try:
            if kind_of(query.text, context) != "ddl":
                return frozenset()
            text = without_ignored_references(query.text, context)
            pieces = split(text, context, singly=source.singly, replaces=source.replaces)
        except DMError:
            return frozenset()
        found = frozenset(table for piece in pieces for table in piece.tables if self._known.rules.followed(table))
        return found if all(table.table for table in found) else frozenset()

    def accept(self, planned: DdlPlan) -> None:
        """Store and remember what a plan contains beside its steps; they are run next."""
        self._known = replace(self._known, temporary=planned.temporary)
        if planned.passed_over:
            why = without_literals(planned.passed_over)
            self._log.warning("a statement on something not migrated is passed over", why=why)
        if planned.views_may_change:
            self._around.views.ask_again()
        for table, point in planned.points.items():
            self._points[table] = point
            self._progress.write_found(table, TablePoint(None, point))

    def forget_intent(self) -> None:
        """Forget an earlier run's intent: a person has changed its statements since."""
        self._intent = None

    def inject(self, operator: Operator, transaction: SourceTransaction) -> None:
        """Execute an operator's statements before a transaction.

        The target executes them, not the source. They are tracked only if the following rows prove that the known
        structure of the source's table is wrong without them, and right with them.
        """
        with pausing("; ".join(operator.statements)):
            planned, left = plan_injection(operator, transaction, self._known)
        self.accept(planned)
        self.store_end()
        intent = self._stand_still(transaction.end)
        with self._tracker.changing() as before:
            for number, step in enumerate(planned.pieces):
                if isinstance(step, Execute):
                    with pausing(step.piece.text):
                        self.execution.run(step, number, transaction.end, intent)
                self._around.invalidate()
            adopted = self._tracking.adopt([step.piece for step in planned.pieces], transaction)
            nothing = bool(left) and not planned.steps and not operator.done
            done = operator if nothing else replace(operator, done=True, left=left)
            self._go_on(planned, adopted, before, transaction.begin, done)
        self.store_end()

    def run(self, planned: DdlPlan, end: Position, point: Position) -> None:
        """Execute and track the steps after a barrier; ends with a checkpoint at `point`, which `store_end` stores.

        `end` is the end of the event's transaction, and so is `point`, unless rows follow in that transaction (CREATE
        TABLE .. SELECT). They are not applied yet, so then the point is the transaction's begin.
        """
        gate = self._around.gate
        if gate.singly:
            self.store_end()
        intent = self._stand_still(end)
        if gate.singly:
            self._progress.write()
        with self._tracker.changing() as before:
            verdict = gate.decide(planned, end, intent)
            with self.execution.announcing(verdict.announcements or self._progress):
                self._run_steps(verdict, end)
            waiting = verdict.waiting or verdict.tell()
            touched, beside = verdict.planned.followed, verdict.beside
            if waiting:
                touched, beside = {waiting}, gate.hold(waiting)
                self._points.pop(waiting, None)
            self._go_on(verdict.planned, touched, before, point, beside=beside)
            if gate.singly:
                self.store_end()
        if waiting:
            faults.hit("shard.held")
        else:
            verdict.stored()

    def _run_steps(self, verdict: GateVerdict, end: Position) -> None:
        """Run the steps one by one; a step that is only tracked is not executed."""
        planned = verdict.planned
        intent, done = (None, True) if verdict.at_target else self._executed_whole(planned, end, verdict.intent)
        number = 0
        for step in planned.steps:
            if isinstance(step, CutOver):
                with pausing(step.statement):
                    prove(step, self._tracker, end)
                continue
            with pausing(step.piece.text):
                if isinstance(step, Execute) and not done:
                    done = self._execute(step, number, planned, end, intent)
                self._tracking.follow(step)
            self._around.invalidate()
            number += 1

    def store_end(self) -> None:
        """Store the end of the last statement: rows follow it, or nothing for now."""
        if self._end_held:
            self._progress.store_held_end()
            self.execution.rest()
            self._end_held = False

    def _execute(self, step: Execute, number: int, planned: DdlPlan, end: Position, intent: Intent | None) -> bool:
        """Execute one step; if its piece is refused alone, execute the whole ALTER. True: nothing is left to do.

        The whole is announced under the number after the last piece. It is tried for the first piece only: once a piece
        is done, the whole is not what the source executed. It is not tried for duplicate rows, which it would also
        refuse.
        """
        try:
            self.execution.run(step, number, end, intent)
        except DMError as error:
            whole = step.as_a_whole
            if number > 0 or whole is None or error.name not in REFUSED_DDL or error.server_errno == _DUPLICATE:
                raise
            try:
                self.execution.run(whole, len(planned.pieces), end, None)
            except DMError as second:
                if second.name in REFUSED_DDL:
                    raise error from second
                raise
            return True
        return False

    def _executed_whole(self, planned: DdlPlan, end: Position, intent: Intent | None) -> tuple[Intent | None, bool]:
        """The intent of a piece, and whether the whole ALTER is done, if an earlier run had announced it.

        The event may be another one of the group, or a filter may have changed: these steps may have no whole.
        """
        steps = [step for step in planned.steps if isinstance(step, Execute)]
        if intent is None or not steps or intent.piece < self._around.gate.number_of_whole(planned):
            return intent, False
        if intent.refused:
            return None, False  # nothing was executed; a person may have removed the obstacle since
        whole = steps[0].as_a_whole
        if whole is None:
            with pausing(intent.statement):
                return None, self.execution.done(intent, [step.piece for step in steps])
        with pausing(whole.piece.text):
            self.execution.run(whole, intent.piece, end, intent)
        return intent, True

    def _stand_still(self, end: Position) -> Intent | None:
        """The barrier; returns what an earlier run announced at this place."""
        if not self._end_held:
            self._around.lanes.drain()
        intent = self._intent if self._intent is not None and _same_place(self._intent.position, end) else None
        self._intent = None
        return intent

    def _go_on(
        self,
        planned: DdlPlan,
        touched: set[TableName],
        before: Tracked,
        point: Position,
        injected: Operator | None = None,
        beside: Act | None = None,
    ) -> None:
        """Hand over the new position and structures to be stored."""
        faults.hit("syncer.after_ddl_record")
        self._around.forget()
        touched = touched.union(self._tracker.with_other_keys(before))
        changed = {table: schema for table in touched if (schema := self._tracker.get(table)) is not None}
        gone = {table for table in before.keys() | touched if self._tracker.get(table) is None}
        if all(point.at_or_after(other) for other in self._points.values()):
            gone.update(table for table in self._points if self._tracker.get(table) is None)
            self._points.clear()
        tables = {table: TablePoint(schema, self._points.get(table)) for table, schema in changed.items()}
        # While points are needed, those of vanished names are, too.
        tables |= {table: TablePoint(None, self._points[table]) for table in gone & self._points.keys()}
        # A second pass knows its tables by their checkpoint rows: the next run would leave out a table without one.
        tables |= {table: TablePoint(None, self._points.get(table)) for table in gone & self._around.gate.of_pass}
        gone = gone - tables.keys()
        self._progress.hold(StatementEnd(point, tables, frozenset(gone), injected, planned.online, beside))
        self._end_held = True
        online = {**self._known.online, **planned.online}
        self._known = replace(
            self._known, online={name: record for name, record in online.items() if record is not None}
        )


def _same_place(left: Position, right: Position) -> bool:
    if left.server_uuid == right.server_uuid:
        return left.order == right.order
    return bool(left.gtid_set) and left.gtid_set == right.gtid_set


def prove(step: CutOver, tracker: SchemaTracker, position: Position) -> None:
    """Prove that a ghost table may replace a real one: the kept statements make the real table equal to the ghost.

    Raises DMError.
    """
    ghost, real = step.ghost, step.real
    now, aim = tracker.get(step.old), tracker.get(ghost)
    if now is None or aim is None:
        return  # the next rows will show the structure, which is then compared with the target's
    tables = {real: renamed(now, real)}
    try:
        for piece in step.pieces:
            changes = interpret(piece, SchemaState(tables.get, tracker.database_charset, lenient=True))
            tables.update((name, schema) for name, schema in changes.items() if schema is not None)
        why = _difference(tables[real], renamed(aim, real))
    except OperationRefused as refusal:
        why = str(refusal)
    if why:
        raise DMError(
            "online-ddl-different", position=position, ghost=ghost, real=real, why=why, statement=step.statement
        )


def _difference(one: TableSchema, other: TableSchema) -> str:
    """How two structures differ, as far as it matters for statements; empty if they don't."""
    if [column.name.lower() for column in one.columns] != [column.name.lower() for column in other.columns]:
        return "other columns: " + " and ".join(
            ", ".join(column.name for column in schema.columns) for schema in (one, other)
        )
    for left, right in zip(one.columns, other.columns, strict=True):
        if not same_column(left, right):
            return f"another column {left.name}"
    foreign = [sorted(key.name.lower() for key in schema.foreign_keys) for schema in (one, other)]
    if foreign[0] != foreign[1]:
        return "other foreign keys: " + " and ".join(", ".join(names) or "none" for names in foreign)
    indexes = [
        {index.name.lower(): index_form(index, schema) for index in schema.indexes if not one.foreign_keys}
        for schema in (one, other)
    ]
    if indexes[0] != indexes[1]:
        names = {name for name in indexes[0] | indexes[1] if indexes[0].get(name) != indexes[1].get(name)}
        return f"other indexes: {', '.join(sorted(names))}"
    return ""
