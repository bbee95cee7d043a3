"""The sync unit of a task while tables have streams of their own, and the part of these streams in it.

Main is the task's stream; the share is the stream of tables that are loaded beside it, a branch that of tables that
have left it. `dm.progress.joining.table_joining` and `dm.progress.joining.branches` say what is stored at each step.
Main leaves these tables out, ends where they may come back, and takes them back.

Quarantine (`on-error: table`): a run ends by an error that concerns certain tables. The next one puts them aside before
it dispatches anything, and main goes on. A process that dies in between meets the error again. Where a table can't be
put aside, the error pauses the task, as without quarantine, and its cause says why.

While main waits for the share, main's other tables wait too. So main calls only a share that runs and is near, and
waits a moment. The running share then comes to main's place without a restart, and rests at the first place where it
can: there, or a little further. A share that does not come in time runs on an overloaded machine: the next wait is
twice as long, up to a limit, and main first follows its stream for as long as it has waited.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Final

import structlog

from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import Checkpoint
from dm.progress.joining.branches import Leaving, leave, place_of, report_of
from dm.progress.joining.table_joining import (
    Joining,
    call,
    forget_joining,
    give_up,
    let_go,
    read_current,
    read_joinings,
    same_place,
    take_back,
)
from dm.progress.lane_rows import CONTROL, LaneClaim, claimed, read_ordered
from dm.progress.prepared_places import read_prepared
from dm.progress.shards.held_shards import earliest
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.rules.table_rules import BesideShare
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.until import Until, UntilPosition
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.resources import RunParts
from dm.syncer.state_found import StateFound
from dm.syncer.stream_role import Beside, caught_up, run_until
from dm.syncer.unit import SyncUnit
from dm.unit import JSON, UnitName

_BESIDE: Final = "ddl-beside"  # no error: a statement that leaves with its table
_FIRST_WAIT: Final = 1.5  # how long main, with its other tables, waits for the share
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
            found = read_current(connection, key, joining)
            if found is None or found.phase != "until":
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

    def _reading(self, until: Until | None, failed: DMError | None = None) -> tuple[SyncUnit, MainRun]:
        unit = self._make(until or self._asked)
        run = MainRun(self._subtask, bounded=until is not None, call_at=self._patience.call_at, failed=failed)
        if self._asked is None:
            run.rows_beside = self._subtask.syncer.ddl_beside_rows
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
            try:
                self._unit.run(stop)
            except DMError as error:
                # A task that ends at a place would leave the tables behind.
                if stop.is_set() or self._asked is not None or not self._run.lets_leave(error):
                    raise
                self._unit, self._run = self._reading(None, error)
                continue
            run = self._run
            if stop.is_set() or not run.again:
                return
            until = run.until
            if not run.moving:
                self._patience.forget()
            elif run.called is not None and run.called.place is not None:
                with closing(TargetConnection(self._subtask.target)) as connection:
                    until = self._patience.wait(connection, run.key, run.called, run.called.place, stop)
                if stop.is_set():
                    return
            elif any(one.phase == "near" for one in run.moving):  # main did not come to rest, so it has not called
                self._patience.postpone()
            self._unit, self._run = self._reading(until)


def may_leave(error: DMError) -> bool:
    """Whether the tables of an error may leave the stream for it."""
    return bool(error.tables) and not error.retryable and error.kind.of_tables


class MainRun(Beside):
    """One reading of main; an ordinary run if all tables are in its stream."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        *,
        bounded: bool = False,
        call_at: float = 0.0,
        failed: DMError | None = None,
    ) -> None:
        super().__init__(subtask)
        self._subtask = subtask
        self._bounded = bounded  # it ends at a share's place
        self._call_at = call_at  # not before this moment does it stop for a share that is near
        self._failed = failed  # the error of the run before it, whose tables are to leave
        self._in_vain = False  # its tables can't leave
        self._prepared: PreparedTransactions | None = None
        self._places: tuple[Position, ...] = ()  # of the branches
        self._resting: dict[str, Position | None] = {}  # those of branches that do not move
        self.others: tuple[Joining, ...] = ()  # what is not in main's stream
        self.again = False  # another reading follows
        self.until: UntilPosition | None = None  # where that one ends: at a share's place
        self.called: Joining | None = None  # what it has called to its place
        self._log = structlog.get_logger()

    @property
    def moving(self) -> tuple[Joining, ...]:
        """What is to come, or to leave."""
        return tuple(one for one in self.others if not one.rests)

    def lets_leave(self, error: DMError) -> bool:
        """Whether the tables of an error of this run are to leave: they could, as far as is known."""
        if self._in_vain:
            return False
        return error.name == _BESIDE or (self._subtask.syncer.on_error == "table" and may_leave(error))

    def attend(self, prepared: PreparedTransactions) -> None:
        """Keep the unit's XA transactions."""
        self._prepared = prepared

    def floor(self, position: Position) -> Position:
        """The earliest place of the checkpoint and of the branches."""
        return earliest([position, *self._places])

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Give tables up, or take them back, while nothing is dispatched; raises DMError."""
        self._read(control)
        if taken.checkpoint is not None:
            if self._failed is not None:
                if self._put_aside(control, taken, taken.checkpoint, self._failed):
                    self.again = True
                    return False
                self.rows_beside = None  # the statement stays, and those that follow in this run
            for one in self.moving:
                if self._hands_over(control, taken, one, taken.checkpoint):
                    self.again = True
                    return False
            self._read(control)
        elif self._failed is not None:
            raise self._failed
        out = [one.share for one in self.others if one.kind == "add" or one.phase != "asked"]
        if out:
            self.rules = BesideShare(self._subtask, out)
        return True

    def _read(self, connection: TargetConnection) -> list[Joining]:
        found, known = read_joinings(connection, self.key), self._resting
        branches = [one for one in found if one.kind == "branch"]
        places = {
            one.number: known[one.number] if one.rests and one.number in known else place_of(connection, self.key, one)
            for one in branches
        }
        self._resting = {one.number: places[one.number] for one in branches if one.rests}
        self._places = tuple(place for place in places.values() if place is not None)
        self.others = tuple(found)
        return found

    def _put_aside(self, control: TargetConnection, taken: Takeover, checkpoint: Checkpoint, error: DMError) -> bool:
        """Have an error's tables leave; raises the error, with the reason, if they can't.

        False: a statement that was to leave with its table stays.
        """
        beside = error.name == _BESIDE
        out = [table for one in self.others if one.phase != "asked" for table in one.names]
        tables = self._together([TableName(*each) for each in error.tables], checkpoint)
        aside = sum(1 for one in self.others if one.kind == "branch" and one.error and one.phase == "aside")
        most = self._subtask.syncer.aside_tables
        why = ""
        if aside >= most and not beside:
            why = f"{aside} are aside already (`aside-tables: {most}`), so the cause may be no single table"
        elif tables.intersection(out) or any(one.kind == "add" for one in self.others):
            why = "some of them are loaded beside the task, or aside"
        elif self._has_undecided(control):
            why = "XA transactions are prepared and not decided, and their rows are kept for one stream"
        if why and beside:
            self._log.warning("a statement stays in the stream", tables=_names(tables), why=why)
            return False
        if why:
            self._in_vain = True
            raise error.restated(cause="; ".join(filter(None, (error.cause, f"{_names(tables)} can't leave: {why}"))))
        return self._leave(
            control, taken, Leaving(tables, "undo") if beside else Leaving(tables, error=report_of(error))
        )

    def _has_undecided(self, control: TargetConnection) -> bool:
        """Whether XA transactions are undecided at L, as is stored with it: their rows are kept for one stream.

        The list on the host's disk is not asked: to open it is to begin a run with it.
        """
        return bool(read_prepared(control, self.key))

    def _leave(self, control: TargetConnection, taken: Takeover, leaving: Leaving) -> bool:
        rules = self.rules
        left = leave(control, taken.claims[CONTROL], taken, leaving, rules.online.real, rules.route)
        if left is not None:
            self._log.warning("tables leave the stream", tables=_names(leaving.tables), phase=leaving.phase)
        return left is not None

    def _together(self, tables: Iterable[TableName], checkpoint: Checkpoint) -> frozenset[TableName]:
        """The tables with all that have the same target: their rows are in one table, and it has one structure."""
        real, route = self.rules.online.real, self.rules.route
        reals = {real(table) for table in tables}
        targets = {route(table) for table in reals}
        known = {real(table) for table in checkpoint.tables}
        return frozenset(reals | {table for table in known if self.rules.wanted(table) and route(table) in targets})

    def _hands_over(self, control: TargetConnection, taken: Takeover, joining: Joining, checkpoint: Checkpoint) -> bool:
        """The step that is due; whether tables may have changed hands. Raises DMError."""
        claim, place, here = taken.claims[CONTROL], joining.place, checkpoint.position
        left = {table for one in self.others if one.phase != "asked" for table in one.names}
        if joining.phase == "asked" and not left.isdisjoint(joining.names):
            # An error, or a statement of theirs, has been faster; another stream of the same tables would double rows.
            with claimed(control, claim):
                forget_joining(control, self.key, joining)
            self._log.warning("tables have left already: what was asked is forgotten", tables=_words(joining))
            return True
        if joining.kind == "branch" and joining.phase == "asked":
            if self._has_undecided(control):
                return False
            return self._leave(control, taken, Leaving(frozenset(joining.names), joining=joining))
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
        return joining.kind != "add" or self._subtask.block_allow_list != joining.share.older

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
        """Run until tables may change hands; raises DMError."""
        if all(one.phase == "dropped" for one in self.others):
            run()
            return
        numbers = {one.number for one in self.others}

        def look(connection: TargetConnection) -> bool:
            found = self._read(connection)
            mark = parts.completions.mark.position
            self.again = numbers != {one.number for one in found} or any(
                self._ends(state, one, mark, clock) for one in found
            )
            return self.again

        run_until(look, parts, sessions, failed, clock, run)
        self.again = self.again or (self._bounded and parts.reader.queue.exhausted)
        stored = parts.progress.stored
        if self.again and parts.completions.under_way == 0 and caught_up(state, stored):
            self._meet(state.writer.connection, state.claims[CONTROL], stored)

    def _ends(self, state: StateFound, found: Joining, mark: Position, clock: Clock) -> bool:
        """Whether the run is to end for this one."""
        if found.phase == "asked":
            if found.kind == "branch":
                return self._prepared is None or not self._prepared.undecided
            return found.kind == "reload" and caught_up(state, mark)
        if self._bounded or not self._wants(found) or (found.phase == "near" and clock.monotonic() < self._call_at):
            return False
        return found.phase in ("near", "ready") and caught_up(state, mark)

    def _meet(self, control: TargetConnection, claim: LaneClaim, stored: Position) -> None:
        """If a share rests ahead, main goes on to its place, the first of several; else it calls one that is near."""
        found = read_joinings(control, self.key)
        places = [one.place for one in found if one.phase == "ready" and one.place is not None]
        ahead = sorted((place for place in places if _ahead(place, stored)), key=lambda place: place.order)
        near = [one for one in found if one.phase == "near" and self._wants(one)]
        if ahead:
            self.until = UntilPosition(ahead[0])
        elif near and not any(same_place(place, stored) for place in places):
            call(control, claim, near[0], stored)
            self.called = replace(near[0], phase="until", place=stored)

    def status(self) -> dict[str, JSON]:
        """For `query-status`."""
        shown: dict[str, JSON] = {}
        if any(one.phase != "dropped" for one in self.others):
            shown["synced"] = False
        for one in self.others:
            if one.kind != "branch":
                tables: list[JSON] = [table.sql for table in one.names]
                shown["joining"] = {"number": one.number, "kind": one.kind, "phase": one.phase, "tables": tables}
        branches: list[JSON] = [_shown(one) for one in self.others if one.kind == "branch"]
        return {**shown, "branches": branches} if branches else shown


def _shown(branch: Joining) -> dict[str, JSON]:
    error: JSON = json.loads(branch.error) if branch.error else None
    return {
        "number": branch.number,
        "phase": branch.phase,
        "tables": [table.sql for table in branch.names],
        "since": branch.since,
        "error": error,
    }


def _names(tables: Iterable[TableName]) -> str:
    return ", ".join(table.sql for table in sorted(tables))


def _ahead(place: Position, stored: Position) -> bool:
    """Whether main reaches the share's place if it goes on."""
    return place.same_files(stored) and stored.order < place.order


def _words(joining: Joining) -> str:
    return ", ".join(map(str, joining.names)) or "those that the list has got"
