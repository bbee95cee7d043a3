"""Writing the checkpoint: L from completions, often, without stopping a lane.

The worker rows already make every batch safe; a checkpoint only decides how much is looked at again after a crash. So
it is written each second while the mark moves (`checkpoint-flush-interval` caps the interval), after every DDL and at
the end.

The end of a DDL statement is held until something else has to be stored, at the latest until rows follow, the source
rests or the timer comes. The intent of the next statement is stored in the same transaction. So statements in a row
cost one commit each, and nothing else of the run can tell: a run that dies before finds the statement's own intent.

Where nothing is to be written the timer asks the target for the lane's epoch now and then. A target that is gone is
noticed then, also by a run whose source rests, and nobody is told that it is synced with a server that does not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from dm import faults
from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import CheckpointWriter, TablePoint
from dm.progress.intent import Intent, write_intent, write_refusal
from dm.progress.lane_rows import claimed
from dm.progress.online import OnlineRecord
from dm.progress.operators import Operator, change_operators
from dm.progress.ordered_tables import OrderedSince, store_ordered
from dm.progress.tables import SubtaskKey
from dm.progress.undone import TransactionKey, UndoneKeys, store_undone
from dm.sourcelog.stream.file_births import FileBirths
from dm.syncer.apply.completion import CommittedPoint, CompletionTracker
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.apply.table_counters import TableCounters
from dm.syncer.operators import Change, Operators, Request

T = TypeVar("T")
INTERVAL_SECONDS = 1.0
LONGEST_SECONDS = 600.0  # where what came is not worth it: a source may purge the binlog before L
ASK_SECONDS = 3.0  # without a word from the target, until it is asked for one
FRESH_SECONDS = 3 * ASK_SECONDS  # a word that is older proves nothing about now


@dataclass(frozen=True, slots=True)
class CheckpointSources:
    """The parts of a checkpoint."""

    completions: CompletionTracker
    safe_mode: SafeModeWindow
    operators: Operators
    births: FileBirths


@dataclass(frozen=True, slots=True)
class StatementEnd:
    """What is stored after a DDL statement: L, the structures that it left, and records that changed.

    With `injected` the statements were an operator's instead of an event's; it says what is done now.
    """

    position: Position
    tables: Mapping[TableName, TablePoint] = field(default_factory=dict)
    gone: frozenset[TableName] = frozenset()
    injected: Operator | None = None
    online: Mapping[TableName, OnlineRecord | None] = field(default_factory=dict)
    beside: Callable[[TargetConnection], None] | None = None  # stores something more in the same transaction


@dataclass(frozen=True, slots=True)
class AroundCheckpoints:
    """Callbacks with the position of a checkpoint."""

    storing: Callable[[Position], None]  # before it is written; raises DMError to prevent that
    stored: Callable[[Position], None]  # after it is written
    regularly: Callable[[Position], None]  # at each turn of the timer, with the stored one
    worth: Callable[[Position], bool] = lambda _: True  # whether what came after the stored one is to be stored soon


class ProgressWriter:
    """The owner of the control session; the timer's thread and the dispatcher both write through it."""

    def __init__(
        self,
        writer: CheckpointWriter,
        sources: CheckpointSources,
        around: AroundCheckpoints,
        *,
        interval: float,
        clock: Clock,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._writer = writer
        self._completions = sources.completions
        self._safe_mode = sources.safe_mode
        self._interval = min(interval, INTERVAL_SECONDS)
        self._clock = clock
        self._failed = failed
        self._operators = sources.operators
        self._births = births = sources.births
        self._storing = around.storing
        self._told_stored = around.stored
        self._regularly = around.regularly
        self._worth = around.worth
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._wake = threading.Event()  # also set with `_stop`
        self._heard = threading.Condition()
        self._heard_at = clock.monotonic()
        self._wanted_at = 0.0  # when somebody asked whether the target answers
        self._stored = sources.completions.mark.position
        self._stored_birth = births.of(self._stored)
        self._stored_at = clock.monotonic()
        self._began: float | None = None  # the question or the write under way
        self._announced: tuple[TableName, ...] = ()  # what the piece under way changes
        self._held: StatementEnd | None = None  # of the last DDL statement, not stored yet
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self.tables = TableCounters()
        self.writes = 0

    @property
    def stored(self) -> Position:
        """L as the target has it."""
        return self._stored

    @property
    def target(self) -> str:
        """Where it is stored: host and port."""
        return self._writer.connection.address

    @property
    def write_seconds(self) -> float:
        """How long the running write has taken so far; 0 when there is none."""
        began = self._began
        return 0.0 if began is None else self._clock.monotonic() - began

    def start(self) -> None:
        """Start to write on the timer."""
        self._thread.start()

    def stop(self) -> None:
        """End the timer; a running write is finished first."""
        self._stop.set()
        self._wake.set()
        with self._heard:
            self._heard.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def silent_seconds(self) -> float:
        """For how long the target has said nothing."""
        return self._clock.monotonic() - self._heard_at

    @property
    def answered(self) -> bool:
        """Whether the target has said something since it was asked for last, and not long ago."""
        return self._heard_at >= self._wanted_at and self.silent_seconds <= FRESH_SECONDS

    def refresh(self, timeout: float) -> None:
        """Return when the target has answered a question that is asked after this call; at the latest after timeout."""
        asked = self._wanted_at = self._clock.monotonic()
        self._wake.set()
        with self._heard:
            self._heard.wait_for(lambda: self._heard_at >= asked or self._stop.is_set(), timeout)

    def _hear(self, asked_at: float) -> None:
        with self._heard:
            self._heard_at = max(self._heard_at, asked_at)
            self._heard.notify_all()

    def _run(self) -> None:
        try:
            while True:
                self._clock.wait(self._wake, self._interval)
                if self._stop.is_set():
                    return
                self._wake.clear()
                if self._held is not None or self._worth(self._stored) or self._stored_long_ago():
                    self.write()
                if self.silent_seconds >= ASK_SECONDS or self._heard_at < self._wanted_at:
                    self.verify()
                self._regularly(self._stored)
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            self._failed(error)

    def _stored_long_ago(self) -> bool:
        return self._clock.monotonic() - self._stored_at >= LONGEST_SECONDS

    def write(self) -> None:
        """Store the mark if it moved, or if more is known of its file; and the end of a statement that is held."""
        with self._lock:
            if self._held is not None:
                self._write_held()
                return
            position = self._completions.mark.position
            # After a DDL the stored point is ahead of the mark for a moment; it must never go back.
            if not self._stored.covers(position):
                self._store(StatementEnd(position))
            elif self._births.of(self._stored) != self._stored_birth:
                self._store(StatementEnd(self._stored))  # its file was unknown before

    def hold(self, end: StatementEnd) -> None:
        """Store the end of a DDL statement, and of its intent, with what is stored next."""
        with self._lock:
            self._write_held()
            self._executed()
            self._held = end

    def settle(self) -> None:
        """Store the end of a statement now, if one is held."""
        if self._held is not None:
            with self._lock:
                self._write_held()

    def _write_held(
        self, intent: Intent | None = None, beside: Callable[[TargetConnection], None] | None = None
    ) -> None:
        end = self._held
        if end is None:
            return
        if end.injected is not None:
            self._operators.injected(end.injected)
        mark = self._completions.mark.position
        # What lies between has changed no structure.
        position = mark if mark.covers(end.position) else end.position
        end = replace(end, position=position, beside=beside or end.beside)
        self._store(end, clear_intent=True, intent=intent)
        self._held = None

    def write_undone(self, transactions: Mapping[TransactionKey, UndoneKeys]) -> None:
        """Store what the run leaves undone, and the mark before it."""
        self.write()
        with self._lock:
            store_undone(self._writer.connection, self._writer.claim, transactions)

    def write_ordered(self, table: TableName, since: OrderedSince) -> None:
        """Store since when a target table is changed in order, or by its key again."""
        with self._lock:
            self._write_held()
            store_ordered(self._writer.connection, self._writer.claim, table, since)

    def write_found(self, table: TableName, point: TablePoint) -> None:
        """Store a structure found by the reader; it is also the one at L, since each DDL moves L past itself."""
        with self._lock:
            self._write_held()
            self._store(StatementEnd(self._stored, {table: point}))

    def write_intent(self, intent: Intent) -> None:
        """Store what is about to be executed, and L just before it."""
        with self._lock:
            self._executed()
            faults.hit("syncer.before_intent")
            mark = self._completions.mark.position
            if self._held is not None:
                self._write_held(intent)
            elif not self._stored.covers(mark):
                self._store(StatementEnd(mark), intent=intent)
            else:
                write_intent(self._writer.connection, self._writer.claim, intent)
            self._announced = intent.changed

    def write_refusal(self) -> None:
        """Store that the target refused the announced piece."""
        with self._lock:
            self._announced = ()
            write_refusal(self._writer.connection, self._writer.claim)

    def beside(self, act: Callable[[TargetConnection], None]) -> None:
        """Do something in a transaction of its own under the control lane's claim; raises DMError."""
        with self._lock, claimed(self._writer.connection, self._writer.claim):
            act(self._writer.connection)

    def publish(self, act: Callable[[TargetConnection, CommittedPoint], None]) -> None:
        """Store the mark, and in the same transaction what others may rely on because of it; raises DMError.

        Not for a task that merges shards: there the end of a statement has something of its own to store.
        """
        with self._lock:
            mark = self._completions.mark
            position = mark.position

            def beside(connection: TargetConnection) -> None:
                act(connection, mark)

            if self._held is not None:
                self._write_held(beside=beside)
            elif not self._stored.covers(position):
                self._store(StatementEnd(position, beside=beside))
            else:
                with claimed(self._writer.connection, self._writer.claim):
                    beside(self._writer.connection)

    def ask(self, question: Callable[[TargetConnection], T]) -> T:
        """Ask the target something in the control lane's session; raises DMError."""
        with self._lock:
            return question(self._writer.connection)

    def _executed(self) -> None:
        """The last announced piece is done."""
        self.tables.add_ddl(self._announced)
        self._announced = ()

    def change_operators(self, request: Request, source: SubtaskKey | None = None) -> Change:
        """Carry out a person's request while the run continues, for the source's stream as well; raises DMError."""

        def store(change: Change) -> None:
            claim = self._writer.claim
            keys = (claim.key,) if source is None else (claim.key, source)
            change_operators(self._writer.connection, keys, put=change.put, remove=change.remove, claim=claim)

        with self._lock:
            if self._stop.is_set():  # what comes after the run has to find it stored, or the next run is asked
                raise DMError("unit-not-there", question="binlog")
            self._write_held()
            return self._operators.change(request, store)

    def verify(self) -> None:
        """Raises DMError when a newer run has taken over, or ended the control session to do so."""
        with self._lock:
            self._began = asked = self._clock.monotonic()
            self._writer.claim.verify(self._writer.connection)
            self._began = None
            self._hear(asked)

    def _store(self, end: StatementEnd, *, clear_intent: bool = False, intent: Intent | None = None) -> None:
        faults.hit("syncer.before_checkpoint")
        position = end.position
        bound = self._safe_mode.bound_after(position)
        self._storing(position)
        self._began = self._clock.monotonic()
        outdated = self._operators.outdated(position)
        birth = self._births.of(position)
        self._writer.write(
            position,
            bound,
            end.tables,
            end.gone,
            clear_intent=clear_intent,
            intent=intent,
            outdated=outdated,
            injected=end.injected,
            online=end.online,
            birth=birth,
            beside=end.beside,
        )
        self._operators.forget(outdated)
        self._hear(self._began)
        self._began = None
        self._stored = position
        self._stored_at = self._clock.monotonic()
        self._stored_birth = birth
        self.writes += 1
        self._told_stored(position)
        faults.hit("syncer.after_checkpoint")
