"""The sync unit of a task while tables are loaded beside its stream, and the share's part in it.

Main is the task's stream; the share is the stream of the loaded tables. `dm.progress.table_joining` says what is stored
at each step. Main leaves the share's tables out, ends where they may come back, and takes them back.

While main waits for the share, main's other tables wait too. So main calls only a share that runs and is near, and
waits a moment. The running share then comes to main's place without a restart, and rests at the first place where it
can: there, or a little further. A share that does not come in time runs on an overloaded machine: the next wait is
twice as long, up to a limit, and main first follows its stream for as long as it has waited.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

import structlog

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.mysql.sql.piece import Piece
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, read_position_of
from dm.progress.lane_rows import CONTROL, LaneClaim, read_ordered
from dm.progress.table_joining import (
    Joining,
    Phase,
    be_near,
    be_ready,
    call,
    give_up,
    let_go,
    note_piece,
    read_joining,
    same_place,
    take_back,
)
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.rules.table_rules import BesideShare
from dm.sourcelog.stream.until import Until, UntilPosition
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.beside import Beside, caught_up, run_until
from dm.syncer.ddl.execution import Structures
from dm.syncer.resources import RunParts
from dm.syncer.state_found import StateFound
from dm.syncer.unit import SyncUnit
from dm.unit import JSON, UnitName

_FIRST_WAIT: Final = 4.0  # how long main, with its other tables, waits for the share
_LONGEST_WAIT: Final = 30.0
_LOOK_SECONDS: Final = 0.05

Make = Callable[[Until | None], SyncUnit]


class ShareWait:
    """How long main waits for a share, and when it may call again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wait = _FIRST_WAIT
        self.call_at = 0.0

    def forget(self) -> None:
        """Begin anew: nothing is loaded any more."""
        self._wait, self.call_at = _FIRST_WAIT, 0.0

    def wait(
        self,
        connection: TargetConnection,
        key: SubtaskKey,
        joining: Joining,
        called: Position,
        stop: threading.Event,
    ) -> UntilPosition | None:
        """Wait until the share has come to main's place, or does something else; returns its place if that is further.

        Raises DMError.
        """
        until = self._clock.monotonic() + self._wait
        while self._clock.monotonic() < until and not self._clock.wait(stop, _LOOK_SECONDS):
            found = read_joining(connection, key)
            if found is None or found.number != joining.number or found.phase != "until":
                place = None if found is None or found.phase != "ready" else found.place
                ahead = place is not None and place.same_files(called) and called.order < place.order
                return UntilPosition(place) if place is not None and ahead else None
        self.postpone()
        return None

    def postpone(self) -> None:
        """The share did not come in time: call later, and wait longer."""
        self.call_at = self._clock.monotonic() + self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)


class JoinedSync:
    """Runs main's readings one after the other; a single one if nothing is loaded beside it."""

    name: UnitName = "Sync"

    def __init__(
        self, subtask: SubtaskConfig, make: Make, until: Until | None = None, clock: Clock | None = None
    ) -> None:
        self._subtask = subtask
        self._make = make
        self._asked = until
        self._patience = ShareWait(clock or SystemClock())
        self._unit, self._run = self._reading(None)

    def _reading(self, until: Until | None) -> tuple[SyncUnit, MainRun]:
        unit = self._make(until or self._asked)
        run = MainRun(self._subtask, bounded=until is not None, call_at=self._patience.call_at)
        unit.attend(run)
        return unit, run

    # -- Unit

    def status(self) -> Mapping[str, JSON]:
        """DM's fields of the sync unit, and the tables that are loaded beside it."""
        return {**self._unit.status(), **self._run.status()}

    def refresh(self, timeout: float) -> None:
        """Read the source's end now."""
        self._unit.refresh(timeout)

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """Pass the question to the present reading; raises DMError."""
        return self._unit.ask(question, arguments)

    def run(self, stop: threading.Event) -> None:
        """Follow the binlog until stopped; raises DMError."""
        while True:
            self._unit.run(stop)
            run = self._run
            if stop.is_set() or not run.again:
                return
            until = run.until
            if run.joining is None:
                self._patience.forget()
            elif run.called is not None:
                with closing(TargetConnection(self._subtask.target)) as connection:
                    until = self._patience.wait(connection, run.key, run.joining, run.called, stop)
                if stop.is_set():
                    return
            elif run.joining.phase == "near":  # main did not come to rest, so it has not called
                self._patience.postpone()
            self._unit, self._run = self._reading(until)


class MainRun(Beside):
    """One reading of main; an ordinary run if nothing is loaded beside it."""

    def __init__(self, subtask: SubtaskConfig, *, bounded: bool = False, call_at: float = 0.0) -> None:
        super().__init__(subtask)
        self._subtask = subtask
        self._bounded = bounded  # it ends at the share's place
        self._call_at = call_at  # not before this moment does it stop for a share that is near
        self.joining: Joining | None = None
        self.again = False  # another reading follows
        self.until: UntilPosition | None = None  # where that one ends: at the share's place
        self.called: Position | None = None  # the place to which it has called the share
        self._log = structlog.get_logger()

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Give tables up, or take them back, while main rests at its checkpoint; raises DMError."""
        joining = read_joining(control, self.key)
        if joining is not None and taken.checkpoint is not None:
            if self._hands_over(control, taken, joining, taken.checkpoint):
                self.again = True
                return False
            joining = read_joining(control, self.key)
        self.joining = joining
        if joining is not None and not (joining.kind == "reload" and joining.phase == "asked"):
            self.rules = BesideShare(self._subtask, joining.share)
        return True

    def _hands_over(self, control: TargetConnection, taken: Takeover, joining: Joining, checkpoint: Checkpoint) -> bool:
        """The step that is due at rest; whether tables may have changed hands. Raises DMError."""
        claim, place, here = taken.claims[CONTROL], joining.place, checkpoint.position
        rests, may = self._rests(control, taken), self._wants(joining)
        if joining.phase == "asked":
            given = (rests or joining.kind == "add") and may and give_up(control, claim, joining, checkpoint)
            if given:
                self._log.info("tables leave the stream", tables=_words(joining), place=str(here))
            return given
        if joining.phase == "ready" and rests and may and place is not None:
            if same_place(place, here):
                if take_back(control, claim, joining, checkpoint):
                    self._log.info("tables join the stream", tables=_words(joining), place=str(place))
                return True
            if not _ahead(place, here):
                let_go(control, claim, joining)
        return False

    def _wants(self, joining: Joining) -> bool:
        """Whether this run's list wants the tables: a run with the list from before must not take them."""
        return joining.kind == "reload" or self._subtask.block_allow_list != joining.share.older

    @staticmethod
    def _rests(control: TargetConnection, taken: Takeover) -> bool:
        """Whether no run has done or announced anything after the checkpoint."""
        if taken.checkpoint is None or taken.checkpoint.points_ahead():
            return False
        if taken.intent is not None and not taken.checkpoint.position.covers(taken.intent.position):
            return False
        ordered = read_ordered(control, taken.claims[CONTROL].key)
        done = (taken.checkpoint.bound, taken.reached(ordered.reached), taken.reached(ordered.done))
        return all(each is None for each in done)

    def follow(
        self,
        parts: RunParts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run until the tables may change hands; raises DMError."""
        joining = self.joining
        if joining is None:
            run()
            return

        def look(connection: TargetConnection) -> bool:
            self.again = self._ends(connection, joining, state, parts.completions.mark.position, clock)
            return self.again

        run_until(look, parts, sessions, failed, clock, run)
        self.again = self.again or (self._bounded and parts.reader.queue.exhausted)
        stored = parts.progress.stored
        if self.again and parts.completions.under_way == 0 and caught_up(state, stored):
            self._meet(state.writer.connection, state.claims[CONTROL], joining, stored)

    def _ends(
        self, connection: TargetConnection, joining: Joining, state: StateFound, mark: Position, clock: Clock
    ) -> bool:
        """Whether the run is to end."""
        found = read_joining(connection, self.key)
        self.joining = found
        if found is None or found.number != joining.number:
            return True
        if found.phase == "asked":
            return found.kind == "reload" and caught_up(state, mark)
        if self._bounded or not self._wants(found) or (found.phase == "near" and clock.monotonic() < self._call_at):
            return False
        return found.phase in ("near", "ready") and caught_up(state, mark)

    def _meet(self, control: TargetConnection, claim: LaneClaim, joining: Joining, stored: Position) -> None:
        """Call a share that is near; if the share rests ahead, main goes on to its place."""
        found = read_joining(control, self.key)
        if found is None or found.number != joining.number:
            return
        if found.phase == "near":
            call(control, claim, found, stored)
            self.called, self.joining = stored, replace(found, phase="until", place=stored)
        elif found.phase == "ready" and found.place is not None and _ahead(found.place, stored):
            self.until = UntilPosition(found.place)

    def status(self) -> dict[str, JSON]:
        """For `query-status`."""
        joining = self.joining
        if joining is None:
            return {}
        shown: dict[str, JSON] = {
            "number": joining.number,
            "kind": joining.kind,
            "phase": joining.phase,
            "tables": [table.sql for table in joining.names],
        }
        return {"synced": False, "joining": shown}


def _ahead(place: Position, stored: Position) -> bool:
    """Whether main reaches the share's place if it goes on."""
    return place.same_files(stored) and stored.order < place.order


def _words(joining: Joining) -> str:
    return ", ".join(map(str, joining.names)) or "those that the list has got"


_SHARE_LOOK_SECONDS: Final = 0.1  # main may wait
_FOLLOWING: Final[tuple[Phase, ...]] = ("loading", "undo", "near", "until")


class ShareRun(Beside):
    """One run of the share; `main` will get its tables."""

    def __init__(self, subtask: SubtaskConfig, main: SubtaskKey, joining: Joining) -> None:
        super().__init__(subtask)
        self._main = main
        self._joining = joining

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Whether the share still has to follow: an older run may have become ready before it ended."""
        found = self._found(control)
        return found is not None and found.phase in _FOLLOWING

    def follow(
        self,
        parts: RunParts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run, and report that the share is ready; raises DMError."""
        there = False
        parts.ddl.execution.tell(lambda piece, now: self._note(parts, piece, now))

        def look(connection: TargetConnection) -> bool:
            nonlocal there
            there = self._look(connection, parts, state)
            return there

        run_until(look, parts, sessions, failed, clock, run, _SHARE_LOOK_SECONDS)
        stored = parts.progress.stored
        if there and parts.completions.under_way == 0 and self._done(state, stored):
            be_ready(state.writer.connection, state.claims[CONTROL], self._main, self._joining, stored)

    def _note(self, parts: RunParts, piece: Piece, now: Structures) -> None:
        """Before a piece is executed, store the tables that a cancellation would have to drop."""
        if self._joining.kind == "add" and (piece.made or piece.renames):
            parts.progress.beside(lambda control: note_piece(control, self._main, piece, now))
            faults.hit("join.noted")

    def _look(self, connection: TargetConnection, parts: RunParts, state: StateFound) -> bool:
        """Whether the run has to end: main waits here, or it can't come there, or is not wanted. Reports being near."""
        found, mark = self._found(connection), parts.completions.mark.position
        if found is None or found.phase not in _FOLLOWING:
            return True
        if not self._done(state, mark):
            return False
        if found.phase == "until":
            place = found.place
            return place is None or mark.reaches(place) or not mark.same_files(place)
        if found.phase in ("loading", "undo"):
            main = read_position_of(connection, self._main)
            if main is not None and mark.reaches(main):
                parts.progress.beside(lambda control: be_near(control, self._main, found))
                faults.hit("join.near")
        return False

    def _found(self, connection: TargetConnection) -> Joining | None:
        """The row, unless it belongs to another join."""
        found = read_joining(connection, self._main)
        return found if found is not None and found.number == self._joining.number else None

    @staticmethod
    def _done(state: StateFound, position: Position) -> bool:
        """Whether the position is past the load's window and everything that earlier runs did."""
        return caught_up(state, position) and not replace(state.checkpoint, position=position).points_ahead()
