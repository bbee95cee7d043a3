"""The sync unit: follows one source's binlog into the target until it is stopped.

Threads, each with one owner and one stop signal: the reader (events to transactions), the dispatcher (this unit's own
thread: rules, decoding, placing), one per lane (batches to the target), the progress writer, the source monitor. The
first error of any of them ends the run: nothing is flushed beyond what is committed, the error is raised by `run`, and
the next run finds its place from what is stored (`dm.progress.protocol`).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from dm.binlog.event_source import EventSource
from dm.changes.plan import PlanOptions
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.downstream.weights import ServerWeights
from dm.errors import DMError
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, CheckpointWriter, TablePoint, write_new
from dm.progress.fence import Fence, lock_holder
from dm.progress.lane_rows import ATOMIC, CONTROL, DDL, KEYLESS, LaneClaim, worker_lane
from dm.progress.online import read_online
from dm.progress.operators import read_operators
from dm.progress.ordered_tables import OrderedRecord, read_ordered, store_begun
from dm.progress.tables import SubtaskKey, create_tables
from dm.progress.takeover import Takeover, store_bound, take_over
from dm.progress.undone import take_undone
from dm.relaylog.hold import Hold
from dm.rules.table_rules import TableRules
from dm.stop_signal import told
from dm.syncer.apply.apply_lane import ApplyLane
from dm.syncer.apply.completion import CompletionTracker, Ticket
from dm.syncer.apply.gate import Gate
from dm.syncer.apply.lane import ChangeQueue
from dm.syncer.apply.lanes import BatchSizes, Lanes, Stopped
from dm.syncer.apply.missing_rows import MissingRows
from dm.syncer.apply.ordered_tables import OrderedTables
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.apply.row_placing import RowPlacing
from dm.syncer.apply.safe_mode import SafeMode
from dm.syncer.apply.structures import Structures
from dm.syncer.apply.target_names import TargetNames
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.apply.undone_changes import undone_changes
from dm.syncer.ddl.barrier import DdlBarrier
from dm.syncer.ddl.online_ddl import OnlineDdl
from dm.syncer.ddl.session import DdlSession
from dm.syncer.dispatcher import Dispatcher
from dm.syncer.status import RunningParts, SyncStatus
from dm.syncer.stream.assembler import TransactionAssembler
from dm.syncer.stream.file_births import FileBirths
from dm.syncer.stream.memory_quota import MemoryQuota
from dm.syncer.stream.open_items import OpenItems
from dm.syncer.stream.operators import Change, Operators, Request, checked, report
from dm.syncer.stream.origin import Origin, open_origin
from dm.syncer.stream.prepared import PreparedTransactions
from dm.syncer.stream.prepared_watch import PreparedWatch
from dm.syncer.stream.reader import Reader
from dm.syncer.stream.source_monitor import SourceMonitor
from dm.syncer.stream.spool import Spool
from dm.syncer.stream.transaction_queue import TransactionQueue
from dm.unit import JSON, UnitName

STOP_SECONDS = 8.0  # of the 10 s a unit may take to come to rest


class SyncUnit:
    """One run of the sync unit of one subtask."""

    name: UnitName = "Sync"

    def __init__(
        self,
        subtask: SubtaskConfig,
        *,
        relay_directory: Path | None,
        work_directory: Path,
        hold: Hold | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._subtask = subtask
        self._relay_directory = relay_directory
        self._work_directory = work_directory  # `spool` in it is scratch, `prepared` outlives a run
        self._hold = hold
        self._clock = clock or SystemClock()
        self._spool = Spool(work_directory / "spool", self._clock)
        self._prepared = PreparedTransactions(work_directory / "prepared")
        self._status = SyncStatus(self._clock)
        self._failure: BaseException | None = None
        self._failed_ticket: Ticket | None = None  # the earliest transaction that a lane could not apply
        self._failing = threading.Lock()
        self._ending = threading.Event()  # something failed, it was asked for, or the run is over
        self._ended = threading.Event()  # the run is over
        # Half for what was read, a quarter for what is with the lanes, a quarter for the keys of that. One wait must
        # not depend on the other: the lanes need memory to free the reader's.
        self._memory = MemoryQuota(subtask.syncer.memory_quota // 2)
        self._changes = MemoryQuota(subtask.syncer.memory_quota // 4)
        self._queue = TransactionQueue(self._memory)
        self._lanes: Lanes | None = None
        self._missing = MissingRows()
        self._sessions = TargetSessions(subtask.target)
        self._claim: LaneClaim | None = None  # of the control lane, once it is ours
        self._change_operators: Callable[[Request], Change] | None = None

    # -- Unit

    def status(self) -> Mapping[str, JSON]:
        """DM's fields of the sync unit."""
        return self._status.report()

    def refresh(self, timeout: float) -> None:
        """Read the source's end now, so that the next status answers `synced` as of this call."""
        self._status.refresh(timeout)

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """`binlog`: change or list the operators of the run; raises DMError."""
        if question != "binlog" or self._change_operators is None:
            raise DMError("unit-not-there", question=question)
        request = Request.from_json(arguments)
        return report(self._change_operators(request), request.task)

    def run(self, stop: threading.Event) -> None:
        """Follow the binlog until stopped; raises DMError."""
        watcher = threading.Thread(target=self._watch, name="stop", daemon=True)
        watcher.start()
        try:
            with told(stop, self._ending.set):
                self._run(stop)
        except Stopped:
            pass  # a lane was closed under the dispatcher; why is in `_failure`, or it was asked for
        except DMError as error:
            if not stop.is_set():
                self._fail(error)
        finally:
            self._ended.set()
            self._ending.set()
            watcher.join()
        if self._failure is not None:
            raise self._replaced(self._failure) or self._failure

    def _replaced(self, failure: BaseException) -> DMError | None:
        """The error `fenced` where another run has ended our sessions, or is about to; another where none has.

        To us that looks like a lost connection, which is tried again: two daemons that have the same task would end
        each other's runs for ever. The one that was ended rests until a person says otherwise.

        A target that became an older copy of itself looks the same, with an epoch from before ours and nobody there
        who holds the lane. What a new run finds there is as true of it as the rows are.
        """
        if not isinstance(failure, DMError) or self._claim is None:
            return None
        fenced = failure.name == "fenced"
        if not (failure.retryable or fenced):
            return None
        try:
            with closing(TargetConnection(self._subtask.target)) as connection:
                holder = lock_holder(connection, self._claim.key, CONTROL)
                epoch, ours = self._claim.stored_epoch(connection), self._claim.epoch
        except DMError:
            return None
        if holder not in (None, *self._sessions.numbers) or (epoch is not None and epoch > ours):
            return self._claim.fenced()
        if epoch == ours and not fenced:
            return None
        found = {"task": self._claim.key.task, "target": self._subtask.target.address}
        if epoch is None:
            return DMError("progress-gone", **found)
        return DMError("target-went-back", epoch=epoch, ours=ours, **found)

    def _watch(self) -> None:
        """Bring the dispatcher to rest when the unit is told to stop or a part failed: gently, then by force.

        A session that is cut inside a transaction is rolled back by the server; one inside a DDL statement goes on
        there, and the next run waits for it.
        """
        self._ending.wait()
        self._queue.close()
        if not self._ended.wait(STOP_SECONDS):
            self._sessions.cut_off()

    def _lane_failed(self, error: BaseException, ticket: Ticket | None) -> None:
        """Come to rest; where one transaction is to blame, the earliest one of all lanes."""
        if ticket is None or self._lanes is None:
            self._fail(error)
            return
        with self._failing:
            earlier = self._failed_ticket
            if self._sessions.were_cut or (
                self._failure is not None and (earlier is None or earlier.number < ticket.number)
            ):
                return
            self._failure, self._failed_ticket = error, ticket
            self._lanes.end_before(ticket)
        self._ending.set()
        self._queue.close()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None and not self._sessions.were_cut:
            self._failure = error
        self._ending.set()
        self._queue.close()
        if self._lanes is not None:  # the dispatcher may be waiting for room in another one
            self._lanes.give_up()

    # -- The run

    def _run(self, stop: threading.Event) -> None:
        subtask = self._subtask
        key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source.source_id)
        origin = open_origin(subtask, self._relay_directory, self._clock)
        # Where the source logs what foreign keys do, the binlog says all there is to do. Its single rows need not stand
        # up to a check then: a REPLACE of a parent is a DELETE and an INSERT, with children and no parent in between.
        sessions = self._sessions
        sessions.foreign_key_checks = subtask.foreign_key_checks and not origin.facts.logs_cascades
        self._status.waiting(f"connecting to target {subtask.target.address}")
        try:
            control = sessions.open(CONTROL)
            lanes = sessions.open_all(self._lane_names(), lambda: create_tables(control, key))
            connections = {CONTROL: control, **lanes}
            self._status.target_session = connections[ATOMIC if ATOMIC in connections else KEYLESS].settings()
            fence = Fence(key, self._clock, stop, self._status.waiting)
            taken = take_over(connections, fence)
            self._claim = taken.claims[CONTROL]
            stored = None if taken.checkpoint is None else taken.checkpoint.position
            self._prepared.open(taken.claims[CONTROL].epoch, stored)
            checkpoint = taken.checkpoint or self._first_checkpoint(control, key, origin, stop)
            writer = CheckpointWriter(control, taken.claims[CONTROL])
            bound = origin.switch_bound(checkpoint.position, taken.bound(), taken.keyless_done()) or taken.bound()
            ordered = read_ordered(control, key)
            reached = taken.reached(ordered.reached) if ordered.kept else None
            checkpoint, taken = origin.continued(checkpoint, taken)
            origin.demand_same_file(checkpoint.position)
            store_bound(writer, checkpoint, bound)
            known = ordered.kept and reached == ordered.reached and (ordered.done is None or ordered.taken_again)
            ordered = replace(ordered, reached=reached)
            if not known:
                store_begun(control, writer.claim, ordered)
            self._stored(checkpoint.position)
            self._follow(stop, origin, connections, taken, replace(checkpoint, bound=bound), writer, ordered)
        finally:
            sessions.close()

    def _lane_names(self) -> Sequence[str]:
        settings = self._subtask.syncer
        if settings.atomic_transactions:
            return (DDL, ATOMIC)
        return (DDL, KEYLESS, *(worker_lane(number) for number in range(settings.worker_count)))

    def _first_checkpoint(
        self, control: TargetConnection, key: SubtaskKey, origin: Origin, stop: threading.Event
    ) -> Checkpoint:
        meta = self._subtask.meta
        if meta is not None:
            checkpoint = Checkpoint(origin.start_of(meta))
        else:
            present = origin.present(TableRules(self._subtask).wanted, stop)
            if present is None:
                raise Stopped
            end, structures = present
            checkpoint = Checkpoint(end, tables={table: TablePoint(schema) for table, schema in structures.items()})
        if self._hold is not None:  # at no time does a task that has a checkpoint hold files as one that begins
            self._hold.keep_from(checkpoint.position)
        write_new(control, key, checkpoint)
        return checkpoint

    def _follow(
        self,
        stop: threading.Event,
        origin: Origin,
        connections: Mapping[str, TargetConnection],
        taken: Takeover,
        checkpoint: Checkpoint,
        writer: CheckpointWriter,
        ordered: OrderedRecord,
    ) -> None:
        subtask = self._subtask
        settings = subtask.syncer
        start = checkpoint.position
        rules = TableRules(subtask)
        completions = CompletionTracker(start)
        safe_mode = SafeMode(
            checkpoint.bound,
            always=settings.safe_mode,
            seconds=settings.safe_mode_duration or 0.0,
            clock=self._clock,
        )
        operators = Operators(subtask.task, read_operators(connections[CONTROL], taken.claims[CONTROL].key), start)
        births = FileBirths(checkpoint.birth)
        progress = ProgressWriter(
            writer,
            completions,
            safe_mode,
            operators=operators,
            births=births,
            interval=settings.checkpoint_flush_interval,
            clock=self._clock,
            failed=self._fail,
            storing=self._prepared.settle,
            regularly=self._spool.passed,
            stored=self._stored,
        )
        self._lanes = lanes = self._open_lanes(connections, taken, completions, progress)
        targets = TargetSchemas(self._sessions.open, foreign_key_checks=self._sessions.foreign_key_checks)
        weights = ServerWeights(self._sessions.open)
        tracker = origin.tracker(point.schema for point in checkpoint.tables.values() if point.schema is not None)
        points = checkpoint.points_ahead()
        structures = Structures(
            tracker,
            origin.facts.flavor,
            origin.read_structure,
            lambda table: targets.read(rules.route(table)),
            lambda schema: progress.write_found(schema.name, TablePoint(schema, points.get(schema.name))),
            loaded=subtask.mode in ("all", "load&sync"),
        )
        undone = take_undone(writer.connection, writer.claim)
        names = TargetNames(tracker, rules, folded=connections[CONTROL].folds_names)
        rows = RowPlacing(
            rules,
            structures,
            targets,
            lanes,
            safe_mode,
            names,
            flavor=origin.facts.flavor,
            options=PlanOptions(
                flavor=connections[CONTROL].flavor,
                weights=weights,
                foreign_key_checks=self._sessions.foreign_key_checks,
                insert_mode=settings.insert_mode,
                multiple_rows=bool(settings.multiple_rows),
                compact=self._compacts(connections[CONTROL].flavor == origin.facts.flavor),
                missing_row=settings.missing_row,
                narrower_columns=settings.narrower_columns,
            ),
            points=points,
            keyless_done=taken.keyless_done(),
            ordered=OrderedTables(
                ordered,
                start,
                progress.write_ordered,
                replays=ordered.reached is not None or taken.keyless_done() is not None,
                whole=settings.atomic_transactions,
            ),
            atomic=settings.atomic_transactions,
            atomic_done=taken.atomic_done(),
            undone=undone,
            oracle=weights,
        )
        ddl = DdlBarrier(
            rules,
            tracker,
            targets,
            lanes,
            progress,
            DdlSession(connections[DDL], origin.facts, lambda seconds: self._clock.wait(stop, seconds)),
            OnlineDdl.of(rules.online, read_online(connections[CONTROL], taken.claims[CONTROL].key), tracker),
            names,
            context_of=origin.context_of,
            source_has=origin.has_table,
            source_views=origin.has_view,
            points=points,
            intent=taken.intent,
            dumped_until=taken.bound() if taken.checkpoint is not None else None,
            forget=rows.forget,
            strict_collations=subtask.collation_compatible == "strict",
            cascades_lost=not (self._sessions.foreign_key_checks or origin.facts.logs_cascades),
        )
        self._spool.wipe()
        source: EventSource = origin.event_source()
        assembler = TransactionAssembler(
            start,
            rules.wanted,
            self._prepared,
            OpenItems(self._memory, self._spool),
            gtids_ordered=origin.facts.gtid_ordered,
            births=births,
        )
        reader = Reader(source, assembler, self._queue, self._fail, progress.verify)
        watch = PreparedWatch(
            lambda: self._prepared.undecided,
            self._clock,
            read=lambda: reader.position,
            let_go=self._prepared.let_go,
        )
        monitor = SourceMonitor(
            origin.addresses,
            self._clock,
            watch.look,
            applied=lambda: completions.mark.position,
            # A relay notices for itself, and what it has stored may still be applied.
            reset=self._fail if self._relay_directory is None else lambda _: None,
        )
        self._status.attach(
            RunningParts(
                source,
                reader,
                completions,
                lanes,
                safe_mode,
                progress,
                monitor,
                ddl,
                rows,
                settings.memory_quota,
                self._memory,
                self._spool,
                watch,
                self._missing,
            )
        )

        def change_operators(request: Request) -> Change:
            statements = request.statements
            if request.verb in ("replace", "inject"):
                statements = checked(statements, origin.plain_context, subtask.task)
            return progress.change_operators(replace(request, statements=statements))

        self._change_operators = change_operators
        dispatcher = Dispatcher(rows, ddl, operators, completions, lambda: self._queue.closed)
        lanes.start()
        progress.start()
        monitor.start()
        reader.start()
        try:
            while (transaction := self._queue.take(lanes.source_rests)) is not None:
                dispatcher.dispatch(transaction)
            reader.stop()
            if self._failure is None:
                _settle(lanes, progress)
        except DMError as error:
            # A person may act at the target now, in place of the event that failed. What stands before it is to be
            # there then, and not to be done again over what they did.
            if not error.retryable and self._failure is None:
                reader.stop()
                with suppress(DMError, Stopped):
                    _settle(lanes, progress)
            raise
        finally:
            reader.stop()
            monitor.stop()
            lanes.close()
            progress.stop()
            if left := undone.left(progress.stored) | undone_changes(lanes.take_undone()):
                with suppress(DMError):  # the target is away: that is what ended the run
                    progress.write_undone(left)
            targets.close()
            weights.close()
            self._spool.close()

    def _stored(self, position: Position) -> None:
        """Let go of what is behind us: rows of decided XA transactions, files of the relay."""
        self._prepared.settled(position)
        if self._hold is not None:
            self._hold.keep_from(position)

    def _compacts(self, same_family: bool) -> bool:
        """Whether what a row held in between may be left out: not where only the target might have refused it."""
        return bool(self._subtask.syncer.compact) and same_family and "sql_mode" not in self._subtask.target.session

    def _open_lanes(
        self,
        connections: Mapping[str, TargetConnection],
        taken: Takeover,
        completions: CompletionTracker,
        progress: ProgressWriter,
    ) -> Lanes:
        settings = self._subtask.syncer
        batch, largest = settings.batches
        gate = Gate()

        def above_checkpoint(end: Position) -> Position:
            # The set up to `end` without what L holds: the two together are exact, and the row stays small.
            return replace(end, gtid_set=end.gtid_set - progress.stored.gtid_set)

        atomic = settings.atomic_transactions
        done = taken.atomic_done() if atomic else taken.keyless_done()

        def exact(end: Position) -> Position:
            # After a switch of servers the transactions done may still lie ahead, in another order.
            return above_checkpoint(end if done is None else replace(end, gtid_set=end.gtid_set | done.gtid_set))

        def lane(name: str, *, ordered: bool) -> ApplyLane:
            return ApplyLane(
                connections[name],
                taken.claims[name],
                ChangeQueue(max(settings.queue_size, largest)),
                completions,
                batch=largest,
                # Whole transactions may share one of the target; keyless rows of many have no gain from it.
                ordered=ordered and not atomic,
                gate=gate,
                memory=self._changes,
                missing=self._missing,
                clock=self._clock,
                chance=random.Random(name),
                position_of=exact if ordered else above_checkpoint,
                failed=self._lane_failed,
                ended=self._queue.rest.batch_ended,
            )

        count = 0 if atomic else settings.worker_count
        return Lanes(
            [lane(worker_lane(number), ordered=False) for number in range(count)],
            lane(ATOMIC if atomic else KEYLESS, ordered=True),
            self._queue.rest,
            sizes=BatchSizes(batch, largest, key_bytes=settings.memory_quota // 4),
            conflict_policy=settings.conflict_policy,
            memory=self._changes,
        )


def _settle(lanes: Lanes, progress: ProgressWriter) -> None:
    """Commit and store all that was given to the lanes."""
    lanes.drain_within(STOP_SECONDS)
    progress.stop()
    progress.write()
