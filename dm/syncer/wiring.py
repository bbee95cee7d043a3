"""Builds the parts of a run, and connects them. Nothing is started here.

    reader --- transactions ---> dispatcher --- rows ---> row placing ---> lanes ---> target
                                     '-------- DDL ----> DDL barrier ---> its session

Completions return from the lanes to the progress writer. During the build only the DDL session queries the target;
everything else was read before (`dm.syncer.state_found`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from dm.changes.plan import PlanOptions
from dm.config.rules import BlockAllowList
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import FilterSession, ServerWeights, SourceSession
from dm.downstream.source_session_settings import filter_zone
from dm.downstream.target_schema import TargetSchemas
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.progress.checkpoint import TablePoint
from dm.progress.lane_rows import ATOMIC, CONTROL, DDL, KEYLESS, worker_lane
from dm.progress.opposite import announce, marks_with_statements
from dm.progress.prepared_places import store_prepared
from dm.progress.replication_loop import asking
from dm.rules.block_allow import entries_taken_in
from dm.rules.row_filter import Judges
from dm.sourcelog.stream.file_births import FileBirths
from dm.sourcelog.stream.prepared_watch import PreparedWatch
from dm.sourcelog.stream.reader import Reader
from dm.sourcelog.stream.source_log import SourceLog
from dm.sourcelog.stream.source_monitor import (
    INTERVAL_SECONDS,
    WATERMARK_SECONDS,
    ListWatch,
    RetentionWatch,
    SourceMonitor,
    Watermark,
)
from dm.sourcelog.stream.source_server import SourceServer
from dm.sourcelog.stream.spool import OpenItems
from dm.sourcelog.stream.until import Until
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end
from dm.syncer.apply.apply_lane import ApplyLane, LaneContext, LaneSession
from dm.syncer.apply.completion import CompletionTracker, Ticket
from dm.syncer.apply.lane import ChangeQueue, SharedLock
from dm.syncer.apply.lanes import BatchSizes, Lanes
from dm.syncer.apply.learned_tables import LearnedTables, SourceSide, TargetSide, plan_options
from dm.syncer.apply.ordered_lane import OrderedTables
from dm.syncer.apply.progress_writer import AroundCheckpoints, CheckpointSources, ProgressWriter
from dm.syncer.apply.row_placing import RowPlacing
from dm.syncer.apply.safe_mode_window import SafeModeWindow, WindowReplay
from dm.syncer.apply.structures import TargetLook, TargetNames, TrackedStructures
from dm.syncer.apply.table_counters import RowForms
from dm.syncer.apply.target_sessions import FILTERS, ResumedSession
from dm.syncer.ddl.barrier import AroundSteps, DdlBarrier
from dm.syncer.ddl.execution import DdlExecution
from dm.syncer.ddl.gate import GateSides
from dm.syncer.ddl.long_statements import LongStatements
from dm.syncer.ddl.plan import DdlSource, DdlTarget, DumpWindow, PlanningState, SourceAnswers
from dm.syncer.ddl.planner import SourceViews
from dm.syncer.ddl.session import DdlSession
from dm.syncer.ddl.temporary_tables import TemporaryTables
from dm.syncer.ddl.tracking import StructureTracking
from dm.syncer.dispatcher import Dispatcher, ReadingAhead, StatementReading
from dm.syncer.merge_order import MergeTurn, OrderRows, OwnSide
from dm.syncer.operators import Change, Operators, Request, checked
from dm.syncer.resolving import Resolving, ResolvingContext, begin_resolving
from dm.syncer.resources import Resources, RunParts
from dm.syncer.state_found import StateFound
from dm.syncer.stream_role import Beside


@dataclass(frozen=True, slots=True)
class Sides:
    """Source and target, and their stored state."""

    server: SourceServer
    connections: Mapping[str, TargetConnection]  # by lane
    state: StateFound


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run is told to end, and callbacks for errors of its parts."""

    stop: threading.Event
    failed: Callable[[BaseException], None]
    lane_failed: Callable[[BaseException, Ticket | None], None]
    over: threading.Event  # set when the run has to end, for any reason


class Wiring:
    """Builds the parts of one run."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        beside: Beside,
        resources: Resources,
        sides: Sides,
        ending: Ending,
        until: Until | None = None,
    ) -> None:
        self._subtask = subtask
        self._settings = subtask.syncer
        self._beside = beside
        self._rules = rules = beside.rules
        self._resources = resources
        self._server = sides.server
        self._connections = sides.connections
        self._state = state = sides.state
        self._ending = ending
        self._until = until
        bound = beside.bound(state.checkpoint.bound)
        if until is not None:
            until.demand_ahead(state.start, bound)
        self._completions = CompletionTracker(state.start)
        self._safe_mode = SafeModeWindow(
            bound,
            always=self._settings.safe_mode,
            seconds=self._settings.safe_mode_duration or 0.0,
            clock=resources.clock,
        )
        # Held shards are read again, so operators for their events are still needed.
        self._operators = Operators(subtask.task, state.operators, state.start, beside.floor)
        birth, facts = state.checkpoint.birth, sides.server.facts
        self._marks = marks_with_statements(subtask, facts, self._open_source, birth)
        self._births = FileBirths(birth, self._marks)
        self._progress = self._progress_writer()
        sessions = resources.sessions
        self._schemas = TargetSchemas(sessions.open, foreign_key_checks=sessions.foreign_key_checks)
        self._weights = ServerWeights(sessions.open)
        self._filters = FilterSession(
            lambda: sessions.open(FILTERS), subtask.meta_schema, SourceSession(facts.flavor, facts.sql_mode)
        )
        self._names = TargetNames(state.tracker, rules, folded=sides.connections[CONTROL].folds_names)
        self._points = state.checkpoint.points_ahead()
        self._forms = RowForms()
        self._watermark = Watermark(resources.clock, resources.queue.rest.ask)
        self._turn: MergeTurn | None = None
        self._resolving: Resolving | None = None
        singly, replaces = _forms_of(sides.connections[DDL])
        self._reading_ahead = ReadingAhead(
            lambda: resources.queue.following,
            StatementReading(sides.server.context_of, rules.followed, rules.route, singly=singly, replaces=replaces),
        )

    def parts(self) -> RunParts:
        """All of them; raises DMError, also where a losing task can't tell how far its opposite had come."""
        self._resolving = self._begin_resolving()
        lanes = self._lanes()
        rows = self._row_placing(lanes)
        ddl = self._ddl_barrier(lanes, rows)
        reader = self._reader()
        self._turn = self._merge_turn(lanes, reader)
        watch = PreparedWatch(
            lambda: self._resources.prepared.undecided,
            self._resources.clock,
            read=lambda: reader.position,
            let_go=self._resources.prepared.let_go,
        )
        retention = RetentionWatch(self._resources.clock)
        lists = ListWatch(
            entries_taken_in(self._subtask.block_allow_list or BlockAllowList()),
            self._resources.clock,
            case_sensitive=self._subtask.case_sensitive,
        )
        return RunParts(
            source=self._server.event_source(),
            reader=reader,
            dispatcher=Dispatcher(rows, ddl, self._operators, self._completions, lanes, lambda: reader.queue.closed),
            ddl=ddl,
            lanes=lanes,
            completions=self._completions,
            safe_mode=self._safe_mode,
            progress=self._progress,
            undone=self._state.undone,
            monitor=self._source_monitor(reader, watch, lists, retention),
            prepared=watch,
            lists=lists,
            retention=retention,
            schemas=self._schemas,
            weights=self._weights,
            filters=self._filters,
            memory_quota=self._settings.memory_quota,
            reading=self._resources.reading,
            spool=self._resources.spool,
            missing=self._resources.missing,
            writers=self._resources.writers,
            marks=self._marks,
            resolving=self._resolving,
            forms=self._forms,
            turn=self._turn,
            ahead=self._reading_ahead,
            change_operators=self._change_operators,
        )

    def _begin_resolving(self) -> Resolving | None:
        resources = self._resources
        context = ResolvingContext(
            resources.sessions.open,
            resources.directory / "conflicts",
            resources.clock,
            self._ending.over,
            self._ending.failed,
        )
        state = self._state
        return begin_resolving(self._subtask, self._server, state.writer.claim.key, state.start, self._marks, context)

    def _progress_writer(self) -> ProgressWriter:
        resources = self._resources
        return ProgressWriter(
            self._state.writer,
            CheckpointSources(self._completions, self._safe_mode, self._operators, self._births),
            AroundCheckpoints(
                storing=self._storing, stored=resources.stored, regularly=self._regularly, worth=self._worth
            ),
            interval=self._settings.checkpoint_flush_interval,
            clock=resources.clock,
            failed=self._ending.failed,
        )

    def _storing(self, position: Position) -> Callable[[TargetConnection], None] | None:
        """What the checkpoint at a position stores besides: the XA transactions that are undecided there."""
        prepared = self._resources.prepared
        listed, text = prepared.listed, prepared.make_durable(position)
        prepared.listed = bool(text)
        if not (text or listed):
            return None
        return partial(store_prepared, key=self._state.writer.claim.key, text=text)

    def _worth(self, stored: Position) -> bool:
        return self._marks is None or self._marks.others_after(stored)

    def _regularly(self, stored: Position) -> None:
        self._resources.spool.passed(stored)
        if self._turn is not None:
            self._turn.beat()

    def _merge_turn(self, lanes: Lanes, reader: Reader) -> MergeTurn | None:
        order, hint, completions = self._subtask.order, self._resources.hint, self._completions
        if order is None or hint is None:
            return None

        def applied() -> Position | None:
            return None if completions.under_way else completions.mark.position

        own = OwnSide(
            self._subtask.source_id,
            lanes.drain,
            OrderRows(self._progress, self._state.writer.claim.key),
            self._watermark,
            applied,
            working=lambda: not reader.queue.empty_handed,
            read=lambda: reader.bytes,
            hint=hint,
        )
        return MergeTurn(order, own, self._resources.clock, self._ending.over)

    # -- To the target

    def _lanes(self) -> Lanes:
        settings, resources = self._settings, self._resources
        batch, largest = settings.batches
        context = LaneContext(
            self._completions,
            SharedLock(),
            resources.changes,
            resources.missing,
            resources.writers,
            resources.clock,
            resources.pace,
            looks=settings.conflicts == "pause",
            resolution=None if self._resolving is None else self._resolving.resolution,
            failed=self._ending.lane_failed,
            ended=resources.queue.rest.batch_ended,
        )
        atomic = settings.atomic_transactions
        done = self._state.done.atomic if atomic else self._state.done.ordered

        def above_checkpoint(end: Position) -> Position:
            # The set up to `end` without L's set: together the two are exact, and the row stays small.
            return replace(end, gtid_set=end.gtid_set - self._progress.stored.gtid_set)

        def exact(end: Position) -> Position:
            # After a switch of servers, transactions that are done may come later, in another order.
            return above_checkpoint(end if done is None else replace(end, gtid_set=end.gtid_set | done.gtid_set))

        def lane(name: str, *, ordered: bool) -> ApplyLane:
            position_of, claim = exact if ordered else above_checkpoint, self._state.claims[name]
            # What comes now and then goes to the first worker, and needs no login.
            closes = not ordered and name != worker_lane(0)
            at_rest = ResumedSession(resources.sessions, claim) if closes else None
            return ApplyLane(
                LaneSession(self._connections[name], claim, position_of, at_rest),
                ChangeQueue(max(settings.queue_size, largest)),
                context,
                batch=largest,
                # Whole transactions may share one at the target; keyless rows gain nothing from that.
                ordered=ordered and not atomic,
            )

        count = 0 if atomic else settings.worker_count
        return Lanes(
            [lane(worker_lane(number), ordered=False) for number in range(count)],
            lane(ATOMIC if atomic else KEYLESS, ordered=True),
            resources.queue.rest,
            sizes=BatchSizes(batch, largest, resources.key_bytes),
            memory=resources.changes,
            reads_all=settings.conflicts != "ignore",
        )

    def _row_placing(self, lanes: Lanes) -> RowPlacing:
        state, atomic = self._state, self._settings.atomic_transactions
        ordered = OrderedTables(
            state.ordered,
            state.start,
            self._progress.write_ordered,
            self._rules.destinations,
            replays=state.replays_in_order,
            whole=atomic,
        )
        source = SourceSide(self._rules, self._structures(), self._points)
        zone = filter_zone(self._connections[CONTROL]) if self._subtask.expression_filters else ""
        judges = Judges(self._weights, self._filters, zone)
        others_have = partial(self._beside.others_have, self._progress)
        target = TargetSide(self._schemas, self._names, self._plan_options(), judges, others_have)
        tables = LearnedTables(source, target, ordered, self._safe_mode, lanes, self._forms)
        return RowPlacing(
            tables, ordered, WindowReplay(self._safe_mode, state.undone), state.done, lanes, atomic=atomic
        )

    def _structures(self) -> TrackedStructures:
        return TrackedStructures(
            self._state.tracker,
            self._server.facts.flavor,
            self._server.read_structure,
            TargetLook(self._at_target, self._rules.scattered_columns),
            self._found,
            loaded=self._subtask.mode in ("all", "load&sync"),
        )

    def _at_target(self, table: TableName) -> TableSchema | None:
        """One of the target's tables that its rows go to."""
        found = (self._schemas.read(name) for name in self._rules.destinations(table))
        return next((schema for schema in found if schema is not None), None)

    def _found(self, schema: TableSchema) -> None:
        """Store a structure before the rows that showed it are applied."""
        self._progress.write_found(schema.name, TablePoint(schema, self._points.get(schema.name)))
        self._beside.structure_found(self._progress, schema)

    def _plan_options(self) -> PlanOptions:
        sessions = self._resources.sessions
        return plan_options(
            self._subtask,
            self._server.facts,
            self._connections[CONTROL],
            self._weights,
            foreign_key_checks=sessions.foreign_key_checks,
            no_events=sessions.no_row_events,
            source=self._server.settings,
        )

    def _ddl_barrier(self, lanes: Lanes, rows: RowPlacing) -> DdlBarrier:
        state, server, stop, clock = self._state, self._server, self._ending.stop, self._resources.clock
        checks = self._resources.sessions.foreign_key_checks
        views = SourceViews(server.has_view)
        cascades_lost = not (checks or server.facts.logs_cascades)
        singly, replaces = _forms_of(self._connections[DDL])
        known = PlanningState(
            self._rules,
            state.tracker,
            SourceAnswers(
                server.context_of, views.has, server.present_table, cascades_lost, singly=singly, replaces=replaces
            ),
            DumpWindow(self._points, state.dumped_until),
            state.online,
            TemporaryTables(),
            pauses=self._settings.ddl == "pause",
        )
        key = self._state.writer.claim.key
        session = DdlSession(
            self._connections[DDL],
            server.facts,
            lambda seconds: clock.wait(stop, seconds),
            lambda connection: announce(connection, key),
        )
        strict = self._subtask.collation_compatible == "strict"
        execution = DdlExecution(
            DdlSource(self._rules, state.tracker, server.has_table),
            DdlTarget(self._schemas, session, self._names, strict),
            self._progress,
            clock,
            self._reading_ahead.begin,
        )
        gate = self._beside.gate(GateSides(state.tracker, self._schemas, self._progress, session, clock))
        return DdlBarrier(
            known,
            self._points,
            state.intent,
            execution,
            StructureTracking(state.tracker, self._rules, self._schemas),
            AroundSteps(lanes, self._progress, views, self._schemas.invalidate_all, rows.forget, gate, self._long()),
        )

    def _long(self) -> LongStatements | None:
        rows = self._beside.rows_beside
        if rows is None:
            return None
        return LongStatements(rows, self._resources.sessions.open, self._rules.route, self._subtask.meta_schema)

    # -- From the source

    def _open_source(self) -> Connection:
        return self._server.addresses.open()[0]

    def _reader(self) -> Reader:
        resources, facts = self._resources, self._server.facts
        log = SourceLog(
            self._server.event_source(),
            self._rules.wanted,
            resources.prepared,
            self._until,
            facts.gtid_ordered,
            asking(self._open_source, self._subtask.target),
            self._births,
            self._marks,
            timed=self._subtask.order is not None,
        ).open(self._state.start, OpenItems(resources.reading, resources.spool))
        return Reader(log, resources.queue, self._ending.failed, self._progress.verify)

    def _source_monitor(
        self, reader: Reader, watch: PreparedWatch, lists: ListWatch, retention: RetentionWatch
    ) -> SourceMonitor:
        ordered = self._subtask.order is not None

        def look(connection: Connection, facts: ServerFacts, source_time: float) -> None:
            if ordered:
                self._watermark.look(connection, facts, source_time)
            watch.look(connection, facts, source_time)
            reader.look(source_time, lambda: binlog_end(connection, facts))
            lists.look(connection, facts, source_time)
            if not self._server.relayed:  # a relay keeps what its tasks need
                retention.look(connection)

        return SourceMonitor(
            self._server.addresses,
            self._resources.clock,
            look,
            applied=lambda: self._completions.mark.position,
            # A relay notices this itself, and its stored files may still be applied.
            reset=(lambda _: None) if self._server.relayed else self._ending.failed,
            interval=WATERMARK_SECONDS if ordered else INTERVAL_SECONDS,
        )

    def _change_operators(self, request: Request) -> Change:
        """Carry out a person's request; raises DMError."""
        statements = request.statements
        if request.verb in ("replace", "inject"):
            statements = checked(statements, self._server.plain_context, self._subtask.task)
        return self._progress.change_operators(replace(request, statements=statements), self._beside.main_key)


def _forms_of(target: TargetConnection) -> tuple[bool, bool]:
    """Whether the target takes few operations of one statement together, and whether it has CREATE OR REPLACE."""
    return target.dialect.takes_few_operations, target.dialect.replaces_objects
