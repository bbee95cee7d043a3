"""Writes the checkpoint: L from completions, often, without stopping a lane.

The lanes' rows already make every batch safe. A checkpoint only decides how much is looked at again after a crash. So
it is written each second while the mark moves (`checkpoint-flush-interval` caps the interval), after every DDL and at
the end.

The end of a DDL statement is held until something else has to be stored: at the latest when rows follow, the source
rests, or the timer fires. The intent of the next statement is stored in the same transaction. So consecutive statements
cost one commit each. Nothing else can tell the difference: if the run dies before, the next one finds the statement's
own intent.

If there is nothing to write, the timer asks the target for the lane's epoch now and then. So a run with an idle source
also notices a dead target, and the status never says "synced" with a server that does not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from dm import faults
from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import CheckpointWriter, TablePoint
from dm.progress.compared import read_compared
from dm.progress.intent import Intent, OnlineRecord, write_intent, write_refusal
from dm.progress.lane_rows import OrderedSince, claimed, store_ordered
from dm.progress.operators import Operator, change_operators
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import TransactionKey, UndoneKeys, store_undone
from dm.sourcelog.stream.file_births import FileBirths
from dm.syncer.apply.completion import CommittedPoint, CompletionTracker
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.apply.table_counters import TableCounters
from dm.syncer.operators import Change, Operators, Request
from dm.unit import JSON

T = TypeVar("T")
INTERVAL_SECONDS = 1.0
LONGEST_SECONDS = 600.0  # where what came is not worth it: a source may purge the binlog before L
ASK_SECONDS = 3.0  # of the target's silence, until it is asked
FRESH_SECONDS = 3 * ASK_SECONDS  # an older answer proves nothing about now


@dataclass(frozen=True, slots=True)
class CheckpointSources:
    """The parts of a checkpoint."""

    completions: CompletionTracker
    safe_mode: SafeModeWindow
    operators: Operators
    births: FileBirths


@dataclass(frozen=True, slots=True)
class StatementEnd:
    """What is stored after a DDL statement: L, the structures that it left, and changed records.

    With `injected`, the statements were an operator's, and this is the operator with what is done.
    """

    position: Position
    tables: Mapping[TableName, TablePoint] = field(default_factory=dict)
    gone: frozenset[TableName] = frozenset()
    injected: Operator | None = None
    online: Mapping[TableName, OnlineRecord | None] = field(default_factory=dict)
    beside: Callable[[TargetConnection], None] | None = None  # stores more in the same transaction


@dataclass(frozen=True, slots=True)
class AroundCheckpoints:
    """Callbacks with the position of a checkpoint."""

    # Before it is written: gives what is stored with it; a DMError prevents that.
    storing: Callable[[Position], Callable[[TargetConnection], None] | None]
    stored: Callable[[Position], None]  # after it is written
    regularly: Callable[[Position], None]  # each time the timer fires, with the stored one
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
        self._wanted_at = 0.0  # when `want_answer` was called last
        self._stored = sources.completions.mark.position
        self._stored_birth = births.of(self._stored)
        self._stored_at = clock.monotonic()
        self._began: float | None = None  # when the running question or write began
        self._announced: tuple[TableName, ...] = ()  # the tables that the announced piece changes
        self._held: StatementEnd | None = None  # the last DDL statement's, not stored yet
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self.compared: list[dict[str, JSON]] = []  # what the last comparisons have found, as of the last question
        self.tables = TableCounters()
        self.writes = 0

    @property
    def stored(self) -> Position:
        """L as the target has it."""
        return self._stored

    @property
    def target(self) -> str:
        """The target's host and port."""
        return self._writer.connection.address

    @property
    def write_seconds(self) -> float:
        """How long the running write has taken; 0 if there is none."""
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
        """How long ago the target answered last."""
        return self._clock.monotonic() - self._heard_at

    @property
    def answered(self) -> bool:
        """Whether the target has answered since the last `want_answer`, and not long ago."""
        return self._heard_at >= self._wanted_at and self.silent_seconds <= FRESH_SECONDS

    def want_answer(self) -> float:
        """Have the target asked whether it answers; the moment of this call."""
        asked = self._wanted_at = self._clock.monotonic()
        self._wake.set()
        return asked

    def await_answer(self, asked: float, timeout: float) -> None:
        """Return when the target has answered a question of this moment or later, or after the timeout."""
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
                if self._heard_at < self._wanted_at:
                    self._read_compared()
                if self.silent_seconds >= ASK_SECONDS or self._heard_at < self._wanted_at:
                    self.verify()
                self._regularly(self._stored)
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            self._failed(error)

    def _stored_long_ago(self) -> bool:
        return self._clock.monotonic() - self._stored_at >= LONGEST_SECONDS

    def write(self) -> None:
        """Store the held end of a statement; else the mark, if it moved or its file's birth has become known."""
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
        """Store the end of a DDL statement, and of its intent, with the next write."""
        with self._lock:
            self._write_held()
            self._executed()
            self._held = end

    def store_held_end(self) -> None:
        """Store the held end of a statement now."""
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
        # No structure has changed in between.
        position = mark if mark.covers(end.position) else end.position
        end = replace(end, position=position, beside=beside or end.beside)
        self._store(end, clear_intent=True, intent=intent)
        self._held = None

    def write_undone(self, transactions: Mapping[TransactionKey, UndoneKeys]) -> None:
        """Store which changes the run leaves undone, after the mark."""
        self.write()
        with self._lock:
            store_undone(self._writer.connection, self._writer.claim, transactions)

    def write_ordered(self, table: TableName, since: OrderedSince) -> None:
        """Store from where a target table is changed in order, or by its key again."""
        with self._lock:
            self._write_held()
            store_ordered(self._writer.connection, self._writer.claim, table, since)

    def write_found(self, table: TableName, point: TablePoint) -> None:
        """Store a structure that rows have shown; it is also the one at L, since each DDL moves L past itself."""
        with self._lock:
            self._write_held()
            self._store(StatementEnd(self._stored, {table: point}))

    def write_intent(self, intent: Intent) -> None:
        """Store the piece about to be executed, and L just before it."""
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
        """Run `act` in its own transaction under the control lane's claim; raises DMError."""
        with self._lock, claimed(self._writer.connection, self._writer.claim):
            act(self._writer.connection)

    def publish(self, act: Callable[[TargetConnection, CommittedPoint], None]) -> None:
        """Store the mark and, in the same transaction, what others rely on because of it; raises DMError.

        Not for a task that merges shards: there, the end of a statement stores something itself.
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
        """Query the target in the control lane's session; raises DMError."""
        with self._lock:
            return question(self._writer.connection)

    def _executed(self) -> None:
        """Count the last announced piece, which is done."""
        self.tables.add_ddl(self._announced)
        self._announced = ()

    def change_operators(self, request: Request, source: SubtaskKey | None = None) -> Change:
        """Carry out a person's request while the run continues, also for `source`, the stream; raises DMError."""

        def store(change: Change) -> None:
            claim = self._writer.claim
            keys = (claim.key,) if source is None else (claim.key, source)
            change_operators(self._writer.connection, keys, put=change.put, remove=change.remove, claim=claim)

        with self._lock:
            if self._stop.is_set():  # the next run is asked instead
                raise DMError("unit-not-there", question="binlog")
            self._write_held()
            return self._operators.change(request, store)

    def _read_compared(self) -> None:
        """Somebody wants to know how the task stands; raises DMError."""
        with self._lock:
            self._began = self._clock.monotonic()
            self.compared = read_compared(self._writer.connection, self._writer.claim.key)
            self._began = None

    def verify(self) -> None:
        """Raises DMError if a newer run has taken over, or has ended the control session to do so."""
        with self._lock:
            self._began = asked = self._clock.monotonic()
            self._writer.claim.verify(self._writer.connection)
            self._began = None
            self._hear(asked)

    def _store(self, end: StatementEnd, *, clear_intent: bool = False, intent: Intent | None = None) -> None:
        faults.hit("syncer.before_checkpoint")
        position = end.position
        bound = self._safe_mode.bound_after(position)
        more = [act for act in (self._storing(position), end.beside) if act is not None]
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
            beside=partial(_all_of, more),
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


def _all_of(acts: Sequence[Callable[[TargetConnection], None]], connection: TargetConnection) -> None:
    for act in acts:
        act(connection)
