"""The life of a subtask (and of a relay): which unit runs, in which stage, and who may change that.

The intent (what a person wants) and the stage (the present state) are separate, because they often differ: a subtask
that should run rests on an error until auto-resume tries again; a subtask that should rest has yet to stop. Only a
person's verbs change the intent, and only events change the stage. Auto-resume acts only if the intent is `running`. So
a person's pause always wins, even over a scheduled attempt and while the subtask rests on an error (DM lost that race
once: dm#1729). And it never fights: a run that a newer run has ended does not come back by itself, unless a cluster
says that the source is this member's (`tests/testbed/ownership_model.py`).

The machine holds no thread, no process and no clock of its own. It tells a `Runner` what to start and to halt, and
events tell it what happened, each with the number of its run. Late events of an abandoned run have another number and
change nothing. Everything is called from one thread, the supervisor's.

A verb is stored first, then executed. If it can't be stored (a full disk), it fails and nothing has changed. An event
can't be refused: it is handled at once. If it can't be stored, each tick tries again, and the status shows it
meanwhile.

Stages: New -> Running -> Paused / Finished / Stopped; Pausing and Stopping last until the unit has come to rest.
Units run in the order of the task-mode; where to begin is asked from what is stored (`Runner.locate`), never
remembered, since only stored progress is still true after a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, cast

from dm.clock import Clock
from dm.errors import CATALOGUE, DMError, ErrorReport
from dm.task.backoff import Backoff
from dm.unit import JSON, UnitName

Stage = Literal["New", "Running", "Pausing", "Paused", "Stopping", "Stopped", "Finished"]
Intent = Literal["running", "paused"]

UNITS_OF_MODE: Mapping[str, tuple[UnitName, ...]] = {
    "full": ("Dump", "Load"),
    "all": ("Dump", "Load", "Sync"),
    "incremental": ("Sync",),
    "dump": ("Dump",),
    "load": ("Load",),
    "load&sync": ("Load", "Sync"),
}
RELAY_UNITS: tuple[UnitName, ...] = ("Relay",)
VALIDATOR_UNITS: tuple[UnitName, ...] = ("Validator",)
JOIN_UNITS: tuple[UnitName, ...] = ("Join",)
# Of runs that another one has ended: at the target by the fence, at the source by reading as the same replica.
_FENCED: Final = frozenset(
    CATALOGUE[name].code for name in ("fenced", "load-fenced", "validator-fenced", "replica-id-taken")
)
_LOAD_FENCED: Final = CATALOGUE["load-fenced"].code


class Runner(Protocol):
    """What a subtask needs from the world; no call may block, all outcomes come back as events."""

    def locate(self, run: int) -> None:
        """Find the unit to begin with; answered by `located` or `failed`."""
        ...

    def launch(self, run: int, unit: UnitName) -> None:
        """Start a unit; answered by `finished`, `stopped` or `failed`."""
        ...

    def halt(self, run: int) -> None:
        """Bring the run to rest; answered like `launch`."""
        ...


@dataclass
class Subtask:
    """One task on one source, or the relay of a source."""

    label: str  # how messages call it: "task t on source s", "the relay of source s"
    units: tuple[UnitName, ...]
    runner: Runner
    clock: Clock
    backoff: Backoff = field(default_factory=Backoff)
    auto_resume: bool = True
    wish: Callable[[Intent], None] = lambda _: None  # keeps what a person wants; raises DMError where it can't
    mine: Callable[[], bool | None] | None = None  # in a cluster: whether it is this member's to run; None: silence
    changed: Callable[[], None] = lambda: None  # keeps what is the case; may raise DMError
    intent: Intent = "running"
    stage: Stage = "New"
    unit: UnitName | None = None
    errors: list[ErrorReport] = field(default_factory=list)
    detail: str = ""
    run: int = 0
    attempts: int = 0  # of auto-resume since the last quiet time
    next_attempt: float | None = None
    fenced: bool = False  # another run has ended the last one
    unkept: ErrorReport | None = None  # why what is the case could not be kept
    failures: Counter[tuple[str, int, bool]] = field(default_factory=Counter)  # by unit, code, whether tried again
    _after_halt: Stage = "Paused"
    _again: bool = False

    # a person's verbs

    def start(self) -> None:
        """Begin, at the unit that stored progress points to."""
        self.intent = "running"
        self._begin(None)

    def rest(self) -> None:
        """Be there without running: how a paused subtask comes back after a restart of the daemon."""
        self.intent = "paused"
        self._set("Paused")

    def pause(self) -> None:
        """Come to rest and stay there until a person resumes."""
        resting_on_error = self.stage == "Paused" and self.intent == "running"
        if self.stage != "Running" and not resting_on_error:
            raise self._mismatch("paused", "running")
        self.wish("paused")
        self.intent = "paused"
        self.next_attempt = None
        if resting_on_error:
            self._set("Paused")
        else:
            self._halt("Pausing", "Paused")

    def resume(self) -> None:
        """Go on from what is stored."""
        if self.stage != "Paused":
            raise self._mismatch("resumed", "paused")
        self.wish("running")
        self.intent = "running"
        self.attempts = 0
        self.backoff.reset()
        self._begin(self.unit)

    def stop(self) -> None:
        """Come to rest for good; progress stays stored."""
        self.next_attempt = None
        if self.stage in ("Running", "Pausing"):
            self._halt("Stopping", "Stopped")
        elif self.stage != "Stopping":
            self._set("Stopped")

    def restart(self) -> None:
        """Have the unit begin anew, since what it was given has changed; nothing in other stages than Running."""
        if self.stage == "Running":
            self._again = True
            self.runner.halt(self.run)

    @property
    def restarting(self) -> bool:
        """Whether the run under way is only coming to rest, and another one follows."""
        return self._again

    # what happened to a run

    def located(self, run: int, unit: UnitName | None) -> None:
        """Progress says to begin with this unit; None when nothing is left to do."""
        if run != self.run:
            return
        if self.stage == "Running" and unit is not None:
            self._launch(unit)
        elif self.stage == "Running":
            self.unit = self.units[-1]  # which an earlier run has finished
            self._set("Finished")
        else:
            self._come_to_rest()

    def finished(self, run: int, detail: str = "") -> None:
        """The unit did all its work: the next one starts, unless a person wants rest."""
        if run != self.run or self.unit is None:
            return
        following = self.units[self.units.index(self.unit) + 1 :]
        self.attempts = 0
        self.detail = detail
        if not following:
            self.errors = []
            self._set("Stopped" if self.stage == "Stopping" else "Finished")
        elif self.stage == "Running":
            self._launch(following[0])
        else:
            self.unit = following[0]
            self._come_to_rest()

    def stopped(self, run: int) -> None:
        """The unit came to rest as asked."""
        if run != self.run:
            return
        if self.stage in ("Pausing", "Stopping"):
            self._come_to_rest()
        elif self._again:
            self._begin(self.unit)
        else:  # halted by nobody: the process was told to end, as by SIGTERM
            self.failed(run, DMError("host-died", host=self.label, how="it was told to stop", log="the daemon's"))

    def failed(self, run: int, error: DMError) -> None:
        """The unit can't go on."""
        self.failed_with(run, error.report(), retryable=error.retryable)

    def failed_with(self, run: int, report: ErrorReport, *, retryable: bool) -> None:
        """The unit can't go on; the error is known by its report, as it comes from another process."""
        if run != self.run:
            return
        self.errors = [report]
        self.failures[self.unit or "InvalidUnit", report["ErrCode"], retryable] += 1
        self.detail = ""
        if self.stage in ("Pausing", "Stopping"):
            self._come_to_rest(keep_errors=True)
            return
        joins = self.units == JOIN_UNITS
        self.fenced = report["ErrCode"] in _FENCED and not joins
        # What joins a stream is ended by the stream itself, too, and then looks whether anything is left to do.
        heals = retryable or (joins and report["ErrCode"] == _LOAD_FENCED) or (self.fenced and self.mine is not None)
        if heals and self.auto_resume:
            self._wait()
        self._set("Paused")

    def _wait(self) -> None:
        self.next_attempt = self.clock.monotonic() + self.backoff.failed(self.clock.monotonic())

    @property
    def _may_begin(self) -> bool:
        """Whether it may try again by itself.

        A run that was fenced comes back only where it is told that the source is this member's: silence is no. A run
        that ended otherwise needs no answer, or losing the registry would end what works.
        """
        answer = None if self.mine is None else self.mine()
        return answer is True or (answer is None and not self.fenced)

    def settled(self, run: int) -> None:
        """The run has worked well for a while: earlier errors are history."""
        if run == self.run and self.stage == "Running" and self.detail:
            self.detail = ""
            self.attempts = 0

    @property
    def waits(self) -> bool:
        """Whether it tries again by itself."""
        return self.next_attempt is not None and self.stage == "Paused" and self.intent == "running"

    def tick(self) -> None:
        """Try again if it is time."""
        if self.unkept is not None:
            self._keep()
        if self.waits and self.next_attempt is not None and self.clock.monotonic() >= self.next_attempt:
            if not self._may_begin:
                self._wait()
                return
            self.attempts += 1
            reason = self.errors[0]["Message"] if self.errors else ""
            self._begin(self.unit, f"auto-resume began it again (attempt {self.attempts}) after: {reason}")

    # what query-status says

    @property
    def is_canceled(self) -> bool:
        """DM's word for: a person wants it at rest."""
        return self.stage == "Paused" and self.intent == "paused"

    def result(self) -> dict[str, JSON] | None:
        """DM's result object: null while all is well."""
        waits = self.next_attempt is not None and self.stage == "Paused"
        detail = self.detail
        if waits and self.next_attempt is not None:
            seconds = max(0.0, self.next_attempt - self.clock.monotonic())
            detail = f"auto-resume tries again in {seconds:.0f} s"
            if self.fenced:
                detail = "it comes back once the cluster says that the source is this member's"
        errors = self.errors if self.unkept is None else [*self.errors, self.unkept]
        if self.stage == "Running" and not detail and not errors:
            return None
        return {
            "isCanceled": self.is_canceled,
            "errors": [cast("JSON", report) for report in errors],
            "detail": detail,
        }

    # moves

    def _begin(self, unit: UnitName | None, detail: str = "") -> None:
        self.run += 1
        self._again = False
        self.next_attempt = None
        self.fenced = False
        self.errors = []
        self.detail = detail
        if unit is None and self.units in (RELAY_UNITS, VALIDATOR_UNITS, JOIN_UNITS):
            unit = self.units[0]  # there is only one; nothing to ask
        if unit is None:
            self._set("Running")
            self.runner.locate(self.run)
        else:
            self.unit = unit
            self._set("Running")
            self.runner.launch(self.run, unit)

    def _launch(self, unit: UnitName) -> None:
        self.unit = unit
        self.run += 1
        self._set("Running")
        self.runner.launch(self.run, unit)

    def _halt(self, stage: Stage, afterwards: Stage) -> None:
        self._after_halt = afterwards
        self._set(stage)
        self.runner.halt(self.run)

    def _come_to_rest(self, *, keep_errors: bool = False) -> None:
        if not keep_errors:
            self.errors = []
        self.detail = ""
        self._set(self._after_halt)

    def _set(self, stage: Stage) -> None:
        self.stage = stage
        self._keep()

    def _keep(self) -> None:
        self.unkept = None
        try:
            self.changed()
        except DMError as error:
            self.unkept = error.report()

    def _mismatch(self, verb: str, wanted: str) -> DMError:
        return DMError("stage-mismatch", what=self.label, verb=verb, stage=self.stage, wanted=wanted)
