"""A job: one subtask, or one relay, with the run of a unit process that serves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from dm.clock import Clock
from dm.errors import CATALOGUE, ErrorReport
from dm.sourcelog.stream.until import Until
from dm.task.subtask import Subtask
from dm.unit import JSON, UnitName
from dm.worker.hosts import Hosts

REST_SECONDS: Final = 20.0
"""How long a verb waits for units to come to rest: longer than a host that does not is left alive."""
SETTLED_SECONDS = 30.0  # a run that has lasted this long has got over what ended the last one

_NOT_IN_RELAY = CATALOGUE["relay-file-missing"].code
_OTHER_HISTORY = CATALOGUE["relay-of-other-history"].code


class Owner(Protocol):
    """What a job needs of the supervisor, which knows all of them."""

    clock: Clock
    hosts: Hosts

    def locate(self, job: Job, run: int, /) -> None:
        """Ask the target where the job's subtask is to begin."""

    def launch_if_ready(self, job: Job, /) -> None:
        """Start the run that the job waits with, unless its relay is not there yet."""

    def renew_relay(self, source: str, /) -> None:
        """Have the source's relay connect anew."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a run was asked beside its work; only that run will answer."""

    run: int
    request: int
    what: str


@dataclass
class Job:
    """A subtask or a relay with the run that serves it; the subtask's `Runner` and the run's `Listener` in one."""

    supervisor: Owner
    source: str
    task: str | None  # None for a relay
    subtask: Subtask = field(init=False)
    words: LastWords = field(init=False)
    copy: CopyProgress = field(init=False)
    host_run: int | None = None
    waiting: tuple[int, UnitName] | None = None  # a run that may not begin before the relay receives
    began: float = 0.0
    refreshed: int = 0  # the last request for a fresh status that was answered
    requested: int = 0
    reads_relay: bool = False  # the run under way does
    turns: bool = False  # the run that ended last did so for another one, which reads from elsewhere
    remote: bool = False  # the relay does not reach back to where the syncer is: it reads from the source itself
    answers: dict[int, tuple[JSON, ErrorReport | None]] = field(default_factory=dict)  # of questions, by request
    failing: Mapping[str, str | int | bool] | None = None  # the place of the event that ended the last run
    resumed_at: Mapping[str, str | int | bool] | None = None  # the last such place, until a run has passed it
    until: Until | None = None  # where a person wants it to end
    told: Callable[[Job], None] = lambda _: None  # whom each status is told
    branch: str = ""  # the number of the branch that it brings back
    _number: int = 0  # the subtask's number of the run that is under way

    def __post_init__(self) -> None:
        self.words = LastWords(self.supervisor.clock)
        self.copy = CopyProgress(self.supervisor.clock, load_follows=False)

    @property
    def status(self) -> Mapping[str, JSON]:
        """What the unit said last."""
        return self.words.status

    @property
    def troubles(self) -> list[ErrorReport]:
        """The errors that it rests on; of a relay at work, which waits by itself, what it waits for."""
        if self.subtask.errors or self.subtask.stage != "Running" or self.subtask.restarting:
            return self.subtask.errors
        result = self.status.get("result")
        own = result.get("errors") if isinstance(result, dict) else None
        return cast("list[ErrorReport]", own) if isinstance(own, list) else []

    # as the subtask's runner

    def locate(self, run: int) -> None:
        """Ask the target where to begin, in a thread: a server may take its time."""
        self._number = run
        self.supervisor.locate(self, run)

    def launch(self, run: int, unit: UnitName) -> None:
        """Start the unit, or wait for the relay first."""
        self._number = run
        self.words.begins(unit)
        self.copy.begins(unit)
        self.resumed_at, self.failing = self.failing or self.resumed_at, None
        self.host_run = None
        self.turns = False
        self.waiting = (run, unit)
        self.supervisor.launch_if_ready(self)

    def halt(self, run: int) -> None:
        """Bring the run to rest."""
        if self.waiting is not None:
            self.waiting = None
            self.subtask.stopped(run)
        elif self.host_run is not None:
            self.supervisor.hosts.halt(self.host_run)

    # as the run's listener

    def unit_status(self, status: Mapping[str, JSON], *, last: bool) -> None:
        """Keep the unit's report; a run that goes on well lets earlier errors be history."""
        self.words.hear(status, last=last)
        if self.supervisor.clock.monotonic() - self.began >= SETTLED_SECONDS:
            self.subtask.settled(self._number)
        self.told(self)

    @property
    def beginning(self) -> bool:
        """Whether a run that is meant to be under way has yet to begin its work."""
        if self.subtask.stage != "Running" or self.host_run is None:
            return self.subtask.stage == "Running" or (self.turns and self.subtask.waits)
        starting = self.words.of_before and not self.loads  # Spark takes its time, and shows it
        return starting or not self.words.spoken

    @property
    def loads(self) -> bool:
        """Whether its load is under way, or to begin."""
        return self.subtask.unit in ("Dump", "Load")

    def resume(self) -> None:
        """A person's resume, which also gives the relay another chance to serve."""
        if self.subtask.stage == "Paused":
            self.remote = False
        self.subtask.resume()

    def refresh(self) -> int:
        """Ask for a status as of now; `fresh` says when it is there."""
        self.requested += 1
        if self.host_run is not None:
            self.supervisor.hosts.refresh(self.host_run, self.requested)
        return self.requested

    def fresh(self, request: int) -> bool:
        """Whether the status is as of the request, or can't become so."""
        return self.refreshed >= request or self.host_run is None

    def current(self, request: int | None) -> bool:
        """Whether the status is what a run that is under way has said since the request; it may not have been asked."""
        heard = request is not None and self.refreshed >= request and self.host_run is not None
        return heard and not self.subtask.restarting

    def ask(self, what: str, arguments: Mapping[str, JSON]) -> Question | None:
        """Have the run do something beside its work, its answer comes into `answers`; None when nothing runs."""
        if self.host_run is None:
            return None
        self.requested += 1
        self.supervisor.hosts.ask(self.host_run, self.requested, what, arguments)
        return Question(self.host_run, self.requested, what)

    def unit_answered(self, request: int, answer: JSON, report: ErrorReport | None) -> None:
        """What came of a question."""
        self.answers[request] = (answer, report)

    def unit_refreshed(self, request: int) -> None:
        """The status is as of this request."""
        self.refreshed = max(self.refreshed, request)

    def unit_finished(self) -> None:
        """The unit did all its work; a syncer's ends only at a place that was asked for."""
        self.host_run = None
        detail = ""
        if self.subtask.unit == "Sync":
            position, gtids = self.status.get("syncerBinlog", ""), self.status.get("syncerBinlogGtid") or "unknown"
            detail = f"stopped at the place asked for: {position}, GTID set {gtids}"
        self.subtask.finished(self._number, detail)

    def unit_stopped(self) -> None:
        """The unit came to rest."""
        self.host_run = None
        self.subtask.stopped(self._number)

    def unit_failed(
        self, report: ErrorReport, *, retryable: bool, place: Mapping[str, str | int | bool] | None = None
    ) -> None:
        """The unit or its process ended."""
        self.host_run = None
        self.failing = place
        if report["ErrCode"] == _NOT_IN_RELAY and not self.remote:
            self.turns = self.remote = retryable = True  # the source itself may still have it
        if report["ErrCode"] == _OTHER_HISTORY:
            self.turns = True
            self.supervisor.renew_relay(self.source)
        self.subtask.failed_with(self._number, report, retryable=retryable)


LOAD_PER_DUMP: Final = 3.0


@dataclass
class CopyProgress:
    """Of one subtask, as long as this daemon has seen it.

    During the dump the target's speed is unknown. Measured, a load takes between 1.3 and 6.7 times as long as the dump
    of the same rows (`docs/performance.md`). So a factor of three is assumed until the load has a rate of its own, and
    the status says that it is assumed. The dump's time alone would be a third of the truth, or less.
    """

    clock: Clock
    load_follows: bool
    _began: float | None = None
    _ended: float | None = None
    _unit: UnitName | None = None
    _unit_began: float = 0.0
    _dump_seconds: float | None = None  # that the dump of everything takes, at its rate

    def begins(self, unit: UnitName) -> None:
        """A run of the unit begins."""
        now = self.clock.monotonic()
        if unit not in ("Dump", "Load"):
            self._ended = self._ended or now
            return
        if self._began is None:
            self._began = now
        if unit != self._unit:
            self._unit, self._unit_began = unit, now

    def report(self, unit: UnitName, status: Mapping[str, JSON]) -> dict[str, JSON]:
        """What is added to the unit's own words."""
        if self._began is None or unit not in ("Dump", "Load"):
            return {}
        elapsed = (self._ended or self.clock.monotonic()) - self._began
        eta, assumed = self._eta(unit, status)
        return {
            "totalElapsedSeconds": str(int(elapsed)),
            "totalEtaSeconds": None if eta is None else str(int(eta)),
            "totalEtaAssumed": assumed,
        }

    def _eta(self, unit: UnitName, status: Mapping[str, JSON]) -> tuple[float | None, bool]:
        """Seconds that remain, and whether a part of them is assumed."""
        said = status.get("etaSeconds")
        ours = None if said is None else float(str(said))
        if unit == "Load":
            if ours is not None or self._dump_seconds is None or status.get("phase"):
                return ours, False
            left = LOAD_PER_DUMP * self._dump_seconds - (self.clock.monotonic() - self._unit_began)
            return (left, True) if left > 0 else (None, False)
        if ours is None or not self.load_follows or status.get("streamed"):
            return ours, False
        total, done = int(str(status["estimateTotalRows"])), int(str(status["finishedRows"]))
        if done < total:
            self._dump_seconds = ours * total / (total - done)
        return (None, False) if self._dump_seconds is None else (ours + LOAD_PER_DUMP * self._dump_seconds, True)


_LAG: Final = "secondsBehindMaster"


@dataclass
class LastWords:
    """Of one subtask.

    A resting unit reports nothing, and a unit that has just started reports little: a load that can't reach its target
    would be at 0 %, a task that was paused an hour ago would show the lag of then. So the last run's status stands
    until the new run has taken stock (it reports `starting` until then). Its momentary values are not passed off as
    present ones: an old status never means synced, and its lag keeps growing.

    That lag is an upper bound: if everything was applied at the time of the status, the source may have rested since.
    """

    clock: Clock
    status: Mapping[str, JSON] = field(default_factory=dict)
    _unit: UnitName | None = None
    _said_at: float = 0.0
    of_before: bool = False  # the run under way has not taken stock yet
    spoken: bool = False  # the run under way has said something, and has not ended with it

    @property
    def silence(self) -> float:
        """Seconds since the unit said something."""
        return self.clock.monotonic() - self._said_at

    def begins(self, unit: UnitName) -> None:
        """A run of this unit begins; what another unit said is over, and so is where a relay was."""
        if unit != self._unit or unit == "Relay":
            self.status = {}
        self._unit = unit
        self.of_before = True
        self.spoken = False

    def hear(self, status: Mapping[str, JSON], *, last: bool = False) -> None:
        """The run under way says something."""
        self.spoken = not last
        if status.get("starting") and self.status and not self.status.get("starting"):
            self.status = {**self.status, "waiting": status.get("waiting", "")}
            return
        self.status = status
        self._said_at = self.clock.monotonic()
        self.of_before = bool(status.get("starting"))

    def now(self, *, current: bool) -> Mapping[str, JSON]:
        """As much as is true now; `current`: the run under way has been asked for them and has answered."""
        if self._unit != "Sync" or (current and not self.of_before):
            return self.status
        lag = self.status.get(_LAG)
        silence = self.clock.monotonic() - self._said_at
        behind = round(float(lag) + silence, 3) if isinstance(lag, int | float) else None
        ddl: Mapping[str, JSON] = {"blockingDDLs": [], "blockingDDLSeconds": None}
        over = {name: value for name, value in ddl.items() if name in self.status}
        return {**self.status, **over, "synced": False, _LAG: behind}
