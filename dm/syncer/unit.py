"""The sync unit: follows one source's binlog into the target until it is stopped, or has reached the task's end.

Each thread has one owner and one stop signal: the reader (events to transactions), the dispatcher (this unit's own
thread: rules, decoding, placing), one per lane (batches to the target), the progress writer, the source monitor. The
first error in any of them ends the run, and `run` raises it.

If the run ends in order (a stop, or an event that needs a person), everything given to the lanes is committed and
stored. The person may act at the target, so everything before the event must be there, and must not be replayed over
their work. After any other failure nothing is stored: the next run finds its place from what is committed
(`dm.progress.protocol`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.pace.governor import Governor
from dm.position import Position
from dm.progress.healed import demand_healed
from dm.progress.lane_rows import ATOMIC, CONTROL, DDL, KEYLESS, LaneClaim, worker_lane
from dm.progress.opposite import declare, opposite_of
from dm.progress.opposite_sources import note_source
from dm.progress.owner import OwnRun, fenced_by
from dm.progress.prepared_places import create_prepared_table
from dm.progress.tables import create_tables
from dm.progress.takeover import Fence, Takeover, lock_holders, take_over
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.source_server import open_source_server
from dm.sourcelog.stream.transaction import TransactionRun
from dm.sourcelog.stream.until import Until
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lanes import Stopped, undone_changes
from dm.syncer.merge_order import create_order_table
from dm.syncer.operators import EventPlace, Request, report
from dm.syncer.resolving import agree, declare_conflicts
from dm.syncer.resources import Resources, RunParts
from dm.syncer.state_found import FirstCheckpoint, find_state
from dm.syncer.stream_role import Beside
from dm.syncer.sync_status import SyncStatus
from dm.syncer.wiring import Ending, Sides, Wiring
from dm.unit import JSON, UnitName, told

ASK_SECONDS: Final = 20.0  # how long a question waits for a run to be ready, or to apply an event
LOOK_SECONDS: Final = 0.1
SUCCESSOR_SECONDS: Final = 30.0  # for the run that has ended this one to say who it is


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
        until: Until | None = None,
    ) -> None:
        self._subtask = subtask
        self._until = until
        self._beside: Beside = Beside(subtask)
        self._relay_directory = relay_directory
        # `spool` in the work directory is scratch, `prepared` survives a run.
        self._resources = Resources.of(subtask, work_directory, hold, clock or SystemClock(), self._beside.floor)
        self._status = SyncStatus(self._resources.clock)
        self._failure: BaseException | None = None
        self._failed_ticket: Ticket | None = None  # the earliest transaction that a lane could not apply
        self._failing = threading.Lock()
        self._ending = threading.Event()  # a part failed, a stop was requested, or the run has ended
        self._ended = threading.Event()  # the run has ended
        self._claim: LaneClaim | None = None  # of the control lane, once held
        self._parts: RunParts | None = None  # once they are wired
        self._wired = threading.Event()  # the parts are wired, or never will be

    def attend(self, beside: Beside) -> None:
        """Before the run: set its role, if the source's tables may have more than one stream."""
        self._beside = beside
        self._resources = replace(self._resources, floor=beside.floor)
        beside.attend(self._resources.prepared)

    # -- Unit

    def keep_pace(self, pace: Governor) -> SyncUnit:
        """Be as fast as this allows; it ends with the run."""
        self._resources = replace(self._resources, pace=pace)
        return self

    def status(self) -> Mapping[str, JSON]:
        """DM's fields of the sync unit."""
        pace = self._resources.pace
        return {**self._status.report(), **({} if pace is None else pace.status())}

    def refresh(self, timeout: float) -> None:
        """Read the source's end now, so that the next status answers `synced` as of this call."""
        self._status.refresh(timeout)

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """`binlog`: change or list the operators of the run. `passed`: whether it has applied an event. Raises DMError.

        The answer waits until a new run is ready, and until the event is applied.
        """
        self._wired.wait(ASK_SECONDS)
        parts = self._parts
        if parts is None or self._ended.is_set():
            raise DMError("unit-not-there", question=question)
        if question == "passed":
            return self._has_passed(parts, EventPlace.from_json(arguments))
        request = Request.from_json(arguments)
        return report(parts.change_operators(request), request.task)

    def _has_passed(self, parts: RunParts, place: EventPlace) -> bool:
        """Whether everything up to an event's end is applied; False if it is not after a while."""
        start = Position(place.server_uuid, place.file, place.offset)
        clock = self._resources.clock
        deadline = clock.monotonic() + ASK_SECONDS
        floor = self._beside.floor
        while (mark := floor(parts.completions.mark.position)).same_files(start) and mark.order <= start.order:
            if clock.wait(self._ended, LOOK_SECONDS):
                raise DMError("unit-not-there", question="passed")
            if clock.monotonic() >= deadline:
                return False
        return True

    def run(self, stop: threading.Event) -> None:
        """Follow the binlog until stopped, or until the task's end; raises DMError."""
        watcher = threading.Thread(target=self._watch, name="stop", daemon=True)
        watcher.start()
        try:
            with told(stop, self._ending.set):
                self._run(stop)
        except Stopped:
            pass  # a lane was closed under the dispatcher; `_failure` has the reason, or a stop was requested
        except DMError as error:
            if not stop.is_set():
                self._fail(error)
        finally:
            self._ended.set()
            self._wired.set()
            self._ending.set()
            watcher.join()
            if self._resources.pace is not None:
                self._resources.pace.close()
        if self._failure is not None:
            raise self._replaced(self._failure, stop) or self._failure

    def _replaced(self, failure: BaseException, stop: threading.Event) -> DMError | None:
        """The cause of a lost connection: `fenced` if another run has taken over, with who has the task now.

        None keeps the failure. To this run, its end by another one looks like a lost connection, which is retried: two
        daemons with the same task would end each other's runs for ever. So the ended run rests.

        A target restored from an older copy looks the same, but its epoch is older than ours, and no session holds the
        lane. A new run can trust the progress there as much as the rows.
        """
        claim = self._claim
        if not isinstance(failure, DMError) or claim is None:
            return None
        fenced = failure.name == "fenced"
        if not (failure.retryable or fenced):
            return None
        try:
            with closing(TargetConnection(self._subtask.target)) as connection:
                others, epoch = self._successor(connection, claim, stop)
                own = OwnRun("Sync", claim.epoch, self._subtask.run_by)
                error = fenced_by(connection, claim.key, own, claim.fenced)
        except DMError:
            return None
        if others or (epoch is not None and epoch > claim.epoch):
            return error
        if epoch == claim.epoch and not fenced:
            return None
        found = {"task": claim.key.task, "target": self._subtask.target.address}
        if epoch is None:
            return DMError("progress-gone", **found)
        return DMError("target-went-back", epoch=epoch, ours=claim.epoch, **found)

    def _successor(
        self, connection: TargetConnection, claim: LaneClaim, stop: threading.Event
    ) -> tuple[bool, int | None]:
        """Whether another session holds the control lane, and its epoch; raises DMError.

        A newer run has the lane's lock first. It says who it is with the epoch, which it may raise much later.
        """
        clock = self._resources.clock
        deadline = clock.monotonic() + SUCCESSOR_SECONDS
        while True:
            others = bool(lock_holders(connection, claim.key, CONTROL) - self._resources.sessions.numbers)
            epoch = claim.stored_epoch(connection)
            if not others or epoch != claim.epoch or clock.monotonic() >= deadline:
                return others, epoch
            if clock.wait(stop, LOOK_SECONDS):
                return others, epoch

    def _watch(self) -> None:
        """Stop the dispatcher when the unit is stopped or a part failed: gently, then by force.

        The server rolls back the transaction of a cut session. A DDL statement continues there, and the next run waits
        for it.
        """
        self._ending.wait()
        self._resources.queue.close()
        if not self._ended.wait(STOP_SECONDS):
            self._resources.sessions.cut_off()

    def _lane_failed(self, error: BaseException, ticket: Ticket | None) -> None:
        """End the run; of several failed transactions, the earliest one's error counts."""
        if ticket is None or self._parts is None:
            self._fail(error)
            return
        with self._failing:
            earlier = self._failed_ticket
            if self._resources.sessions.were_cut or (
                self._failure is not None and (earlier is None or earlier.number < ticket.number)
            ):
                return
            self._failure, self._failed_ticket = error, ticket
            self._parts.lanes.end_before(ticket)
        self._ending.set()
        self._resources.queue.close()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None and not self._resources.sessions.were_cut:
            self._failure = error
        self._ending.set()
        self._resources.queue.close()
        if self._parts is not None:  # the dispatcher may wait for room in another lane
            self._parts.lanes.give_up()

    # -- The run

    def _run(self, stop: threading.Event) -> None:
        subtask, resources = self._subtask, self._resources
        server = open_source_server(subtask, self._relay_directory, resources.clock)
        sessions = resources.sessions
        sessions.compute_as(server.settings)
        # If the source logs cascades, the binlog has all changes. Its single rows may then fail a check: a REPLACE of a
        # parent is a DELETE and an INSERT, with children and no parent in between.
        sessions.foreign_key_checks = subtask.foreign_key_checks and not server.facts.logs_cascades
        try:
            connections, taken = self._take_over(server.facts.server_uuid, stop)
            beside = self._beside
            if not beside.begin(connections[CONTROL], taken):
                return
            first = FirstCheckpoint(subtask, beside.rules, resources, stop)
            state = find_state(taken, connections[CONTROL], server, resources, first)
            agree(subtask, server, taken, connections[CONTROL], state.start)
            beside.join(connections[CONTROL], state, server, resources.clock)
            ending = Ending(stop, self._fail, self._lane_failed, self._ending)
            parts = Wiring(subtask, beside, resources, Sides(server, connections, state), ending, self._until).parts()
            self._parts = parts
            self._wired.set()
            self._status.attach(parts)
            beside.follow(parts, state, sessions, self._fail, resources.clock, lambda: self._follow(parts))
        finally:
            sessions.close()

    def _follow(self, parts: RunParts) -> None:
        follow(parts, lambda: self._failure is not None)

    def _take_over(self, source: str, stop: threading.Event) -> tuple[Mapping[str, TargetConnection], Takeover]:
        """Open the sessions of all lanes, and take over from an older run; raises DMError, or Stopped."""
        subtask, sessions = self._subtask, self._resources.sessions
        key = self._beside.key
        self._status.waiting(f"connecting to target {subtask.target.address}")
        control = sessions.open(CONTROL, several=True)

        def create() -> None:
            note_source(control, key, source)
            create_tables(control, key)
            create_prepared_table(control, key)
            declare(control, key, opposite_of(subtask))
            declare_conflicts(control, key, subtask)
            self._beside.create_tables(control)
            if subtask.order is not None:
                create_order_table(control, key)

        lanes = sessions.open_all(self._lane_names(), create)
        connections = {CONTROL: control, **lanes}
        self._status.target_session = connections[ATOMIC if ATOMIC in connections else KEYLESS].settings()
        taken = take_over(connections, Fence(key, self._resources.clock, stop, self._status.waiting, subtask.run_by))
        self._claim = taken.claims[CONTROL]
        demand_healed(key, taken.rows)
        return connections, taken

    def _lane_names(self) -> Sequence[str]:
        settings = self._subtask.syncer
        if settings.atomic_transactions:
            return (DDL, ATOMIC)
        return (DDL, KEYLESS, *(worker_lane(number) for number in range(settings.worker_count)))


STOP_SECONDS: Final = 8.0  # of the 10 s in which a unit must stop


def follow(parts: RunParts, failing: Callable[[], bool]) -> None:
    """Run until the queue is closed; raises DMError, or Stopped. `failing`: whether a part has failed."""
    lanes, reader, dispatcher, turn = parts.lanes, parts.reader, parts.dispatcher, parts.turn
    queue = reader.queue
    parts.spool.wipe()
    if turn is not None:
        turn.begin()
    lanes.start()
    parts.progress.start()
    parts.monitor.start()
    reader.start()
    try:

        def at_rest() -> None:
            dispatcher.source_rests()
            if turn is not None:
                turn.rest()

        while (taken := queue.take(at_rest)) is not None:
            if isinstance(taken, TransactionRun):  # where no turn is kept: that needs the moment of each
                dispatcher.dispatch_run(taken)
                continue
            if turn is not None and not turn.take(taken):
                break
            dispatcher.dispatch(taken)
        if (queue.finished or queue.broken_off) and not queue.closed:
            lanes.drain()  # without a limit: nobody has asked to stop
        reader.stop()
        if not failing():
            _settle(parts)
            _demand_cut(parts)
            if turn is not None and queue.exhausted:
                turn.finished()
    except DMError as error:
        if not error.retryable and not failing():
            reader.stop()
            with suppress(DMError, Stopped):
                _settle(parts)
        raise
    finally:
        _end(parts)


def _settle(parts: RunParts) -> None:
    """Commit and store everything given to the lanes."""
    parts.lanes.drain_within(STOP_SECONDS)
    parts.progress.stop()
    parts.progress.write()


def _demand_cut(parts: RunParts) -> None:
    """Raise DMError if the run has reached the task's end, and an earlier run has gone further."""
    if not parts.reader.queue.exhausted:
        return
    place = parts.completions.mark.position
    bound = parts.safe_mode.bound_after(place)
    if bound is not None:
        raise DMError("until-passed", place=place, checkpoint=bound)


def _end(parts: RunParts) -> None:
    """End all threads; store which changes given to the lanes are certainly not done."""
    parts.reader.stop()
    parts.ahead.close()
    parts.monitor.stop()
    if parts.resolving is not None:
        parts.resolving.let_go()
    parts.lanes.close()
    if parts.resolving is not None:
        parts.resolving.close()
    parts.progress.stop()
    if parts.turn is not None:
        parts.turn.close()
    if left := parts.undone.left(parts.progress.stored) | undone_changes(parts.lanes.take_undone()):
        with suppress(DMError):  # the target is away: that ended the run
            parts.progress.write_undone(left)
    parts.schemas.close()
    parts.weights.close()
    parts.filters.close()
    parts.spool.close()
