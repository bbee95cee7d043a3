"""The validator of a subtask: reads the binlog after the syncer, and looks at the target for each changed row.

Two threads: this one reads, as far as the syncer's checkpoint; the other one goes its rounds of looks, with as many
sessions as `worker-count`, and stores how far the validator is. The reader waits when the quota of rows is used up;
nothing is dropped. The validator takes what the syncer leaves: the host gives its process the lowest priority, and it
gives way to a syncer that is behind (`dm.tools.validator.throttle`).

What is stored is one position, the rows that were pending there, and the source's structures there. A run begins with
them, so a kill costs reading again what was read since.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from dm.changes.plan import PlanOptions
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.effect_on_rows import effect_of
from dm.pace.governor import Governor
from dm.position import Position
from dm.progress.checkpoint import read_checkpoint, read_position_of, read_structure_of
from dm.progress.intent import read_online
from dm.progress.opposite import marks_of
from dm.progress.tables import SubtaskKey, existing_tables, reading
from dm.progress.validator import (
    Processed,
    StoredStructures,
    ValidatorProgress,
    ValidatorTables,
    create_validator_tables,
)
from dm.progress.validator_errors import (
    RowError,
    TableStatus,
    count_errors,
    read_table_status,
    write_errors,
    write_table_status,
)
from dm.rules.table_rules import TableRules
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.source_server import SourceServer, open_source_server
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction, StatementItem
from dm.sourcelog.upstream.snapshot import upper_bound
from dm.tools.validator.judge import Judge
from dm.tools.validator.pending import PendingRows, Shape, restored
from dm.tools.validator.rounds import Places, RoundContext, Rounds
from dm.tools.validator.source_tables import SourceTables, ValidatorSource, ValidatorTarget
from dm.tools.validator.statements import Statements
from dm.tools.validator.throttle import CheckpointGate, CutoverPlace, Throttle
from dm.tools.validator.validator_status import ValidatorStatus
from dm.unit import JSON, StopSignal, UnitName, told

_MANY: Final = 100_000  # rows that are read since the last round: then the next one does not wait (DM's number)
_STOP_SECONDS: Final = 8.0
_READS_SECONDS: Final = 0.02  # of a processor, from one rest to the next


@dataclass(frozen=True, slots=True)
class Start:
    """Where a validator that has stored nothing begins; without a place, at the task's first one, if it was kept
    (`dm.progress.validator`), else at the syncer's checkpoint.
    """

    position: Position | None = None


@dataclass
class _ValidatorRun:
    """What one run has, once it is in place."""

    progress: ValidatorProgress
    gate: CheckpointGate
    server: SourceServer
    tables: SourceTables
    statements: Statements
    prepared: PreparedTransactions
    position: Position
    ahead: Position | None  # until here statements are known already (`--start-time`)
    processed: Processed  # all that was read
    settled: Processed  # of it, what is in transactions up to the position: the others are read again after a kill
    pace: Throttle
    next_end: Position | None = None  # of a transaction that waits at the gate; everything before it is read
    moving: threading.RLock = field(default_factory=threading.RLock)  # of position, counts and structures


class ValidatorUnit:
    """One run of the validator of one subtask."""

    name: UnitName = "Validator"

    def __init__(
        self,
        subtask: SubtaskConfig,
        *,
        relay_directory: Path | None,
        work_directory: Path,
        hold: Hold | None = None,
        start: Start | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._subtask = subtask
        self._settings = subtask.validator
        self._relay = relay_directory
        self._work = work_directory
        self._hold = hold
        self._start = start or Start()
        self._clock = clock or SystemClock()
        self._key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
        self._pending = PendingRows(self._settings.max_pending_row_count, self._settings.max_pending_row_size)
        self._status = ValidatorStatus(subtask, self._pending, self._clock)
        self._pace: Governor | None = None
        self._ending = StopSignal()
        self._wake = threading.Event()
        self._failure: BaseException | None = None
        self._unsaid: list[TableStatus] = []
        self._read_since = 0  # rows, since the last round began
        self._log = structlog.get_logger()

    def keep_pace(self, pace: Governor) -> ValidatorUnit:
        """Be as fast as this allows; it ends with the run."""
        self._pace = pace
        return self

    def status(self) -> Mapping[str, JSON]:
        """DM's fields."""
        return {**self._status.report(), **({} if self._pace is None else self._pace.status())}

    def run(self, stop: threading.Event) -> None:
        """Validate until stopped; raises DMError."""
        if self._subtask.shard_mode:
            raise DMError("validator-with-shards", task=self._subtask.task)
        with told(stop, self._end), ExitStack() as stack:
            if self._pace is not None:
                stack.callback(self._pace.close)
            run = self._in_place(stack)
            looker = threading.Thread(target=self._look_regularly, args=(run,), name="rounds", daemon=True)
            looker.start()
            try:
                self._read(run)
            except DMError:
                if not self._ending.is_set():
                    raise
            finally:
                self._end()
                looker.join(_STOP_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _end(self) -> None:
        self._ending.set()
        self._pending.close()
        self._wake.set()

    # -- The beginning

    def _in_place(self, stack: ExitStack) -> _ValidatorRun:
        subtask, key = self._subtask, self._key

        def session() -> TargetConnection:
            connection = TargetConnection(subtask.target)
            stack.callback(connection.close)
            return connection

        store, control = session(), session()
        if key.checkpoint not in existing_tables(control, key) or (found := read_checkpoint(control, key)) is None:
            raise DMError("validator-without-checkpoint", task=subtask.task, source=subtask.source_id)
        create_validator_tables(store, key)
        progress = ValidatorProgress(store, key, subtask.run_by)
        stored = progress.claim()
        # Two readers with one identity would end each other's streams.
        reader = subtask.model_copy(update={"task": f"{subtask.task} (validator)"})
        server = open_source_server(reader, self._relay, self._clock)
        rules = TableRules(subtask)
        schemas = TargetSchemas(lambda: TargetConnection(subtask.target))
        stack.callback(schemas.close)
        gate = CheckpointGate(control, key, self._clock, self._settings.check_interval, found.position)
        known = {name: point.schema for name, point in found.tables.items() if point.schema is not None}
        ahead: Position | None = None
        processed = Processed() if stored is None else stored.processed
        begun = stored is not None and stored.revision > 0
        if stored is not None and (begun or self._start.position is None):
            position, structures = stored.position, stored.structures
            with reading(ValidatorTables.of(key).pending, key.source_id):
                rows = restored(progress.rows())
            for row in rows:
                self._pending.put(row)
        else:
            position = self._start.position or found.position
            points = dict(found.points_ahead())
            if self._start.position is not None:
                ahead = found.position
                points.update(self._altered_since(server, rules, position, found.position, known))
            structures = StoredStructures(known, read_online(control, key), points)
        prepared = PreparedTransactions(self._work / "prepared", ignores_earlier=True)
        prepared.open(progress.epoch, position if begun else None)
        lookups = session()
        # The syncer has applied the rows, so nothing is refused here.
        options = PlanOptions(flavor=control.flavor, narrower_columns="accept")
        tables = SourceTables(
            ValidatorSource(
                rules, server.tracker(structures.tables.values()), server.facts.flavor, subtask.sole_source
            ),
            ValidatorTarget(schemas, options, lambda table: read_structure_of(lookups, key, table)),
            self._tell,
            lambda source: self._pending.forget(lambda shape: shape.source == source),
            dict(structures.points),
        )
        tables.statuses(read_table_status(control, key))
        statements = Statements.of(server, rules, tables, self._pending, schemas, online=structures.online)
        pace = Throttle(partial(_source_end, server), self._clock, self._pace)
        self._ending.add(pace.end)
        run = _ValidatorRun(
            progress, gate, server, tables, statements, prepared, position, ahead, processed, processed, pace
        )
        self._count_errors(run)
        self._status.attach(lambda: run.position, lambda: run.processed, gate)
        self._cutover(run)
        if not begun:
            self._store(run)  # a kill from here on must not move the beginning
        return run

    def _altered_since(
        self, server: SourceServer, rules: TableRules, start: Position, end: Position, known: Mapping[TableName, object]
    ) -> dict[TableName, Position]:
        """Tables whose structure is not what it was at the start: their rows are looked at from the end on."""
        found: dict[TableName, Position] = {}
        prepared = PreparedTransactions(self._work / "survey-prepared", ignores_earlier=True)
        prepared.open(0, None)
        log = SourceLog(server.event_source(), lambda _: False, prepared, gtids_ordered=server.facts.gtid_ordered)
        for transaction in log.follow(start, self._space("survey"), self._ending):
            if transaction is None:
                continue
            for item in transaction.items:
                if isinstance(item, StatementItem):
                    effect = effect_of(item.query.readable, server.context_of(item.query), rules.wanted)
                    found.update(dict.fromkeys(effect.stands_before(known), end))
            if transaction.end.covers(end):
                break
        return found

    def _space(self, name: str) -> Space:
        return Space(self._subtask.syncer.reading_quota, self._work / name, self._clock)

    # -- Reading

    def _read(self, run: _ValidatorRun) -> None:
        server, wanted = run.server, run.statements.rules.wanted
        marks = marks_of(self._subtask, server.facts, lambda: server.addresses.open()[0])
        log = SourceLog(
            server.event_source(), wanted, run.prepared, gtids_ordered=server.facts.gtid_ordered, marks=marks
        )
        run.gate.moved = lambda: self._checkpoint_moved(run)
        if not self._room():  # for what waits since an earlier run
            return
        rested_at = time.thread_time()
        for transaction in log.follow(run.position, self._space("spool"), self._ending):
            if time.thread_time() - rested_at >= _READS_SECONDS:
                run.pace.rest(time.thread_time() - rested_at)
                rested_at = time.thread_time()
            if self._ending.is_set():
                return
            if transaction is None:
                self._status.behind_at = None
                continue
            if not run.gate.open_to(transaction.end):
                self._status.waits, run.next_end = True, transaction.end
                passed = run.gate.passes(transaction.end, self._ending)
                self._status.waits, run.next_end = False, None
                if not passed:
                    return
            self._status.behind_at = float(transaction.timestamp)
            if not self._take(run, transaction):
                return

    def _checkpoint_moved(self, run: _ValidatorRun) -> None:
        if run.tables.unknown:
            run.tables.forget()

    def _take(self, run: _ValidatorRun, transaction: SourceTransaction) -> bool:
        """Have the rows of a transaction wait; False when stopped."""
        items = transaction.items
        if len(items) == 1:  # a statement, whose structures must never be stored without its end
            with run.moving:
                for item in items:
                    self._item(run, transaction, item)
                run.position, run.settled = transaction.end, run.processed
        else:
            for item in items:
                if not self._room():
                    return False
                with run.moving:
                    self._item(run, transaction, item)
            with run.moving:
                run.position, run.settled = transaction.end, run.processed
        if self._read_since >= _MANY:
            self._wake.set()
        return self._room()

    def _room(self) -> bool:
        if not self._pending.full:
            return True
        self._status.full = True
        self._wake.set()
        there = self._pending.wait_for_room()
        self._status.full = False
        return there

    def _item(self, run: _ValidatorRun, transaction: SourceTransaction, item: RowsItem | StatementItem) -> None:
        if isinstance(item, StatementItem):
            if run.ahead is None or not run.ahead.covers(transaction.end):
                run.statements.follow(item, transaction)
            return
        counts = {"insert": 0, "update": 0, "delete": 0}
        for row in run.tables.rows(item, transaction.gtid, transaction.end):
            self._pending.put(row)
            counts[row.kind] += 1
        before = run.processed
        run.processed = Processed(
            before.inserts + counts["insert"], before.updates + counts["update"], before.deletes + counts["delete"]
        )
        self._read_since += sum(counts.values())

    def _tell(self, status: TableStatus) -> None:
        self._unsaid.append(status)
        self._wake.set()

    # -- Rounds

    def _look_regularly(self, run: _ValidatorRun) -> None:
        try:
            self._rounds(run)
        except BaseException as error:
            if self._failure is None:
                self._failure = error
        finally:
            self._end()

    def _rounds(self, run: _ValidatorRun) -> None:
        subtask, settings = self._subtask, self._settings
        assert settings.mode != "none"
        exact = subtask.spark.json_types != "text"
        judges = [
            Judge(subtask.target, subtask.meta_schema, settings.mode, exact) for _ in range(settings.worker_count)
        ]
        around = RoundContext(
            self._pending,
            run.statements.schemas,
            Places(lambda: run.position, lambda: self._applied(run), partial(_source_end, run.server)),
            lambda errors: self._found(run, errors),
            lambda shape, why: self._unfit(run, shape, why),
        )
        rounds = Rounds(around, judges, run.pace, self._clock, settings.batch_query_size, settings.row_error_delay)
        stored_at = self._clock.monotonic()
        try:
            while not self._ending.is_set():
                self._clock.wait(self._wake, settings.validate_interval)
                self._wake.clear()
                if self._ending.is_set():
                    break
                self._read_since = 0
                self._say(run)
                cutover = self._cutover(run)
                self._give_way(run)
                found = rounds.look(final=cutover)
                if rounds.more:
                    self._wake.set()
                self._count_errors(run)  # a person may have decided about some
                if found or self._clock.monotonic() - stored_at >= settings.meta_flush_interval:
                    self._store(run)
                    stored_at = self._clock.monotonic()
            self._say(run)
            self._store(run)
        finally:
            rounds.close()

    def _applied(self, run: _ValidatorRun) -> Position | None:
        return read_position_of(run.progress.connection, self._key)

    def _give_way(self, run: _ValidatorRun) -> None:
        pace = run.pace
        if run.gate.until is not None:  # business is about to move: somebody waits for the validator
            pace.follow(None)
        elif len(self._pending) and pace.due():
            pace.follow(self._applied(run))
        self._status.gives_way = pace.gives_way

    def _cutover(self, run: _ValidatorRun) -> bool:
        """Whether the place where business moves to the target is set, and read."""
        place = CutoverPlace(run.progress.cutover())
        run.gate.until = place.position(run.gate.place)
        self._status.cutover = place.told
        until, next_end = run.gate.until, run.next_end
        if until is None:
            return False
        # The place need not be the end of a transaction: a file ends after its last one.
        return run.position.covers(until) or (next_end is not None and not until.covers(next_end))

    def _found(self, run: _ValidatorRun, errors: Sequence[RowError]) -> None:
        for error in errors:
            self._log.warning("row is wrong", table=str(error.source), kind=error.kind)
        write_errors(run.progress.connection, self._key, run.progress.own, errors)
        self._count_errors(run)  # before the rows wait no more: at no moment is a wrong row neither

    def _count_errors(self, run: _ValidatorRun) -> None:
        self._status.errors = count_errors(run.progress.connection, self._key)

    def _unfit(self, run: _ValidatorRun, shape: Shape, why: str) -> None:
        with run.moving:
            run.tables.stop(shape.source, shape.target, why)

    def _say(self, run: _ValidatorRun) -> None:
        while self._unsaid:
            write_table_status(run.progress.connection, self._key, self._unsaid[0])
            del self._unsaid[0]

    def _store(self, run: _ValidatorRun) -> None:
        with run.moving:
            position, processed, rows = run.position, run.settled, self._pending.all()
            tracker, known = run.tables.tracker, run.statements.known
            structures = StoredStructures(tracker.structures(), dict(known.online), dict(run.tables.points))
        run.prepared.make_durable(position)
        shapes: dict[Shape, int] = {}
        run.progress.write(position, processed, structures, (row.stored(shapes) for row in rows))
        run.prepared.delete_decided(position)
        if self._hold is not None:
            self._hold.keep_from(position)


def _source_end(server: SourceServer) -> Position:
    """The end of the source's binlog; raises DMError."""
    connection, facts = server.addresses.open()
    with closing(connection):
        return upper_bound(connection, facts)
