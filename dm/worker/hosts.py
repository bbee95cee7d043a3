"""The unit host processes there are, and which run is in which; used by the loop's thread only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from dm.clock import Clock
from dm.errors import DMError, ErrorReport
from dm.task.factories import SPARK_HOST
from dm.task.host import STOP_SECONDS
from dm.task.host_process import HOST_COMMAND, HostEnded, HostProcess
from dm.task.log import DEFAULTS, LogSettings
from dm.task.message import (
    AskUnit,
    Event,
    KeepLog,
    PrepareUnit,
    RefreshUnit,
    StartUnit,
    StatusInterval,
    StopUnit,
    UnitAnswered,
    UnitFailed,
    UnitFinished,
    UnitPrepared,
    UnitRefreshed,
    UnitStatus,
)
from dm.unit import JSON, UnitName

PATIENCE_SECONDS = STOP_SECONDS + 5.0  # a little more than the Unit protocol promises; then a host is killed
STATUS_SECONDS = 0.5
_SPARE_SECONDS = 600.0  # that a process waits for the run for which it was prepared


def spark_host(task: str) -> str:
    """The name of the process of a task's dumps and loads."""
    return f"{SPARK_HOST}{task}"


def sync_host(task: str | None, source: str) -> str:
    """The name of the process of a subtask's syncer."""
    return f"sync:{task}:{source}"


class Listener(Protocol):
    """Who wants to know what becomes of a run."""

    def unit_status(self, status: Mapping[str, JSON], *, last: bool) -> None:
        """The unit's own report; after the last one comes how it ended."""
        ...

    def unit_refreshed(self, request: int) -> None:
        """The status reported last is as of the request."""
        ...

    def unit_answered(self, request: int, answer: JSON, report: ErrorReport | None) -> None:
        """What came of a question."""
        ...

    def unit_finished(self) -> None:
        """All work done."""
        ...

    def unit_stopped(self) -> None:
        """At rest as asked."""
        ...

    def unit_failed(
        self, report: ErrorReport, *, retryable: bool, place: Mapping[str, str | int | bool] | None = None
    ) -> None:
        """Ended by an error, perhaps one of an event at a place in the binlog, or with its process."""
        ...


@dataclass
class _ListenedRun:
    listener: Listener
    kill_at: float | None = None  # when a stop was asked for and nothing has come of it


@dataclass
class _Host:
    process: HostProcess
    runs: dict[int, _ListenedRun] = field(default_factory=dict)
    kill_at: float | None = None  # when the process was told to end and is still there
    killed: bool = False
    spare_until: float = 0.0  # without a run it is kept until then
    prepared: bool = False

    def overdue(self, now: float) -> bool:
        """Whether something should have come to rest by now."""
        deadlines = [self.kill_at, *(run.kill_at for run in self.runs.values())]
        return any(deadline is not None and now >= deadline for deadline in deadlines)


class Hosts:
    """Starts host processes as runs need them and lets them go when they have none."""

    def __init__(
        self,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
        log_of: Callable[[str], Path],
        command: Sequence[str] = HOST_COMMAND,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._clock = clock
        self._post = post
        self._log_of = log_of
        self._command = command
        self._patience = patience
        self._hosts: dict[str, _Host] = {}
        self._leaving: list[_Host] = []
        self._last_run = 0
        self._log_settings = DEFAULTS

    def launch(self, name: str, unit: UnitName, payload: Mapping[str, JSON], listener: Listener) -> int:
        """Start a unit in the host of this name; returns the run's number."""
        host = self._hosts.get(name)
        if host is None:
            host = self._start(name)
        host.spare_until = 0.0
        self._last_run += 1
        host.runs[self._last_run] = _ListenedRun(listener)
        host.process.send(StartUnit(self._last_run, unit, payload))
        return self._last_run

    def prepare(self, name: str, unit: UnitName) -> None:
        """Start a process for a unit that will soon be launched in it; it is let go if that takes too long."""
        if name not in self._hosts:
            host = self._start(name)
            host.spare_until = self._clock.monotonic() + _SPARE_SECONDS
            host.process.send(PrepareUnit(unit))

    def prepared(self, name: str) -> bool:
        """Whether it has loaded what the unit needs."""
        return name in self._hosts and self._hosts[name].prepared

    def spare(self, name: str) -> None:
        """Nothing will be launched in a process that was prepared."""
        if name in self._hosts:
            self._hosts[name].spare_until = 0.0

    def halt(self, run: int) -> None:
        """Bring a run to rest; its process is killed if it does not come to rest in time."""
        for host in self._hosts.values():
            if run in host.runs:
                host.process.send(StopUnit(run))
                host.runs[run].kill_at = self._clock.monotonic() + self._patience

    def refresh(self, run: int, request: int) -> None:
        """Have a run report a status as of now."""
        for host in self._hosts.values():
            if run in host.runs:
                host.process.send(RefreshUnit(run, request))

    def ask(self, run: int, request: int, question: str, arguments: Mapping[str, JSON]) -> None:
        """Have a run do something beside its work."""
        for host in self._hosts.values():
            if run in host.runs:
                host.process.send(AskUnit(run, request, question, arguments))

    def keep_logs(self, settings: LogSettings) -> None:
        """Have every process, also those to come, log like this."""
        self._log_settings = settings
        for name, host in self._hosts.items():
            self._keep_log(name, host)

    def busy(self, name: str) -> bool:
        """Whether the host of this name has a run."""
        return name in self._hosts and bool(self._hosts[name].runs)

    def there(self, name: str) -> bool:
        """Whether there is a process of this name, also one that was told to end."""
        return name in self._hosts or any(host.process.name == name for host in self._leaving)

    def processes(self) -> dict[str, int]:
        """The process ids by host name."""
        return {name: host.process.pid for name, host in self._hosts.items()}

    @property
    def ending(self) -> bool:
        """Whether a process or a run is to come to rest."""
        overdue_at = [run.kill_at for host in self._hosts.values() for run in host.runs.values()]
        return bool(self._leaving) or any(at is not None for at in overdue_at)

    def tick(self) -> None:
        """Let hosts without runs go; kill those that don't come to rest."""
        now = self._clock.monotonic()
        for name in [name for name, host in self._hosts.items() if not host.runs and now >= host.spare_until]:
            self._let_go(self._hosts.pop(name))
        for host in [*self._hosts.values(), *self._leaving]:
            if not host.killed and host.overdue(now):
                host.killed = True
                host.process.kill()

    def end(self) -> None:
        """Stop everything in order and wait for it; what takes too long is killed."""
        for host in self._hosts.values():
            host.runs.clear()  # nobody listens any more: a run that ends because the daemon does is no news
            self._let_go(host)
        self._hosts.clear()
        deadline = self._clock.monotonic() + self._patience
        for host in self._leaving:
            if not host.process.wait(max(0.1, deadline - self._clock.monotonic())):
                host.process.kill()
                host.process.wait(self._patience)
        self._leaving.clear()

    def _start(self, name: str) -> _Host:
        host = _Host(
            HostProcess(
                name,
                self._log_of(name),
                lambda event: self._post(lambda: self._handle(name, host, event)),
                self._command,
            )
        )
        host.process.send(StatusInterval(STATUS_SECONDS))
        self._keep_log(name, host)
        self._hosts[name] = host
        return host

    def _keep_log(self, name: str, host: _Host) -> None:
        log = self._log_settings
        host.process.send(KeepLog(str(self._log_of(name)), log.level, log.max_size, log.max_backups))

    def _let_go(self, host: _Host) -> None:
        host.process.close()
        host.kill_at = self._clock.monotonic() + self._patience
        self._leaving.append(host)

    def _handle(self, name: str, host: _Host, event: Event | HostEnded) -> None:
        if isinstance(event, HostEnded):
            self._ended(name, host, event)
            return
        if isinstance(event, UnitPrepared):
            host.prepared = True
            return
        run = host.runs.get(event.run)
        if run is None:
            return
        listener = run.listener
        if isinstance(event, UnitStatus):
            listener.unit_status(event.status, last=event.last)
            return
        if isinstance(event, UnitRefreshed):
            listener.unit_refreshed(event.request)
            return
        if isinstance(event, UnitAnswered):
            listener.unit_answered(event.request, event.answer, event.report)
            return
        del host.runs[event.run]
        if isinstance(event, UnitFinished):
            listener.unit_finished()
        elif isinstance(event, UnitFailed):
            listener.unit_failed(event.report, retryable=event.retryable, place=event.place)
        else:
            listener.unit_stopped()

    def _ended(self, name: str, host: _Host, event: HostEnded) -> None:
        if self._hosts.get(name) is host:
            del self._hosts[name]
        if host in self._leaving:
            self._leaving.remove(host)
        error = (
            DMError("host-unresponsive", host=name, seconds=self._patience)
            if host.killed
            else DMError("host-died", host=name, how=event.how, log=self._log_of(name))
        )
        for run in list(host.runs.values()):
            run.listener.unit_failed(error.report(), retryable=error.retryable)
        host.runs.clear()
