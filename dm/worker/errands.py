"""Runs that a person waits for (`dmctl diff`, `flashback`, `replay`): each in a unit host of its own.

A host ends with the daemon, and what it found is kept in memory only: a daemon that is started anew knows nothing of
it. Such a run is simply asked for again: it changes nothing at any server, or has its record at the target (`replay`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from dm.errors import CATALOGUE, DMError, ErrorReport
from dm.task.host_process import HOST_COMMAND, HostEnded, HostProcess
from dm.task.message import (
    Event,
    PrepareUnit,
    StartUnit,
    StopUnit,
    UnitFailed,
    UnitFinished,
    UnitPrepared,
    UnitStatus,
    UnitStopped,
)
from dm.unit import JSON, UnitName
from dm.worker.job import Job, Question
from dm.worker.loop import Loop

_KEPT: Final = 20  # that are over
_RUN: Final = 1


@dataclass
class _Errand:
    """One of them, as its process tells it."""

    task: str
    what: str
    log: Path
    process: HostProcess | None = None
    status: Mapping[str, JSON] = field(default_factory=dict)
    error: ErrorReport | None = None
    over: bool = False
    prepared: bool = False  # what its unit needs is loaded

    def hear(self, event: Event | HostEnded) -> None:
        """What its process says; called in that one's thread."""
        match event:
            case UnitPrepared():
                self.prepared = True
            case UnitStatus(_, status):
                self.status = status
            case UnitFailed():
                self.error = event.report
                self._end()
            case UnitFinished() | UnitStopped():
                self._end()
            case HostEnded():
                if not self.over and self.error is None:
                    died = DMError("errand-died", what=self.what, task=self.task, how=event.how, log=self.log)
                    self.error = died.report()
                self.over = True

    def _end(self) -> None:
        self.over = True
        if self.process is not None:
            self.process.close()

    def of(self, task: str, unit: UnitName) -> bool:
        """Whether it is a run of this unit for this task."""
        return self.task == task and self.what == unit.lower()

    def stop(self) -> None:
        """End it."""
        if self.process is not None and not self.over:
            self.process.send(StopUnit(_RUN))
            self.process.close()


class Errands:
    """All of them."""

    def __init__(self, loop: Loop, log_of: Callable[[str], Path], command: Sequence[str] = HOST_COMMAND) -> None:
        self._loop = loop
        self._log_of = log_of
        self._command = command
        self._lock = threading.Lock()
        self._all: dict[int, _Errand] = {}
        self._ahead: dict[tuple[str, UnitName], _Errand] = {}  # whose processes wait for a unit
        self._numbers = iter(range(1, 1 << 62))

    def number(self) -> int:
        """A number that no other has."""
        with self._lock:
            return next(self._numbers)

    def begin(self, number: int, task: str, unit: UnitName, payload: Mapping[str, JSON]) -> None:
        """Start a run of a unit for a task, in the process that was prepared for it, if there is one."""
        with self._lock:
            errand = self._ahead.pop((task, unit), None)
            for old in [key for key, each in self._all.items() if each.over][:-_KEPT]:
                del self._all[old]
            if errand is None or errand.over:
                errand = self._made(task, unit)
            self._all[number] = errand
        if errand.process is None:
            self._start(errand, number)
        assert errand.process is not None
        errand.process.send(StartUnit(_RUN, unit, payload))

    def prepare(self, task: str, unit: UnitName, payload: Mapping[str, JSON] | None = None) -> None:
        """Have a process for the next run of a unit for a task, which has loaded what it needs; raises OSError.

        With the payload of such a run, it has also done what can be done before.
        """
        with self._lock:
            if (task, unit) in self._ahead:
                return
            errand = self._ahead[task, unit] = self._made(task, unit)
        self._start(errand, 0)
        assert errand.process is not None
        errand.process.send(PrepareUnit(unit, payload))

    def prepared(self, task: str, unit: UnitName) -> bool:
        """Whether it has, or has ended."""
        with self._lock:
            errand = self._ahead.get((task, unit))
        return errand is not None and (errand.prepared or errand.over)

    def spare(self, task: str, unit: UnitName) -> None:
        """No run follows: end what was prepared."""
        with self._lock:
            errand = self._ahead.pop((task, unit), None)
        if errand is not None and errand.process is not None:
            errand.process.close()

    def _made(self, task: str, unit: UnitName) -> _Errand:
        what = unit.lower()
        return _Errand(task, what, self._log_of(f"{what}:{task}"))

    def _start(self, errand: _Errand, number: int) -> None:
        name = f"{errand.what}:{errand.task}:{number}"
        # From the loop's thread, which lives as long as the daemon: the kernel ends the process with that thread.
        events: queue.SimpleQueue[Event | HostEnded] = queue.SimpleQueue()
        errand.process = self._loop.call(lambda: HostProcess(name, errand.log, events.put, self._command))
        threading.Thread(target=_hear, args=(errand, events), name=name, daemon=True).start()

    def status(self, number: int) -> dict[str, JSON]:
        """How far one is, and at its end what it has found."""
        errand = self._get(number)
        if errand.over and errand.error is not None:
            report = cast("JSON", errand.error)
            return {"result": False, "msg": errand.error["Message"], "error": report}
        return {"task": errand.task, "ended": errand.over, **errand.status}

    def running(self, task: str, unit: UnitName) -> list[int]:
        """The runs of a unit for a task that are under way."""
        with self._lock:
            return [number for number, each in self._all.items() if each.of(task, unit) and not each.over]

    def busy(self, task: str) -> bool:
        """Whether any run for a task is under way."""
        return bool(self._under_way(task))

    def demand_none(self, task: str) -> None:
        """Raise DMError while a run for a task is under way, whose work and records at the target have to stay."""
        found = self._under_way(task)
        if found:
            raise DMError("errand-under-way", what=" and a ".join(found), task=task)

    def _under_way(self, task: str) -> list[str]:
        """What runs; names that a server may fold into one are one."""
        with self._lock:
            running = (each for each in self._all.values() if not each.over)
            return sorted({each.what for each in running if each.task.lower() == task.lower()})

    def last(self, task: str, unit: UnitName) -> Mapping[str, JSON] | None:
        """What the last run of a unit for a task has said; None where there was none."""
        with self._lock:
            found = [each for each in self._all.values() if each.of(task, unit)]
        if not found:
            return None
        last = found[-1]
        error = None if last.error is None else cast("JSON", last.error)
        return {**last.status, "ended": last.over, "error": error}

    def stop(self, number: int) -> dict[str, JSON]:
        """End one."""
        self._get(number).stop()
        return {}

    def _get(self, number: int) -> _Errand:
        with self._lock:
            if number not in self._all:
                raise DMError("diff-unknown", number=number)
            return self._all[number]


def _hear(errand: _Errand, events: queue.SimpleQueue[Event | HostEnded]) -> None:
    while True:
        event = events.get()
        errand.hear(event)
        if isinstance(event, HostEnded):
            return


# Asking a run for something beside its work, and the error that comes back from another process.


def answer_of(loop: Loop, job: Job, question: Question, seconds: float) -> JSON:
    """What the run that was asked says; raises DMError, `unit-not-there` as soon as it is another run's turn."""
    loop.wait_until(lambda: question.request in job.answers or job.host_run != question.run, seconds)
    answered = loop.call(lambda: job.answers.pop(question.request, None))
    if answered is None:
        raise DMError("unit-not-there", question=question.what)
    answer, report = answered
    if report is not None:
        raise AnsweredError(report)
    return answer


class AnsweredError(DMError):
    """The error of another process, known by its report."""

    def __init__(self, report: ErrorReport) -> None:
        name = next(kind.name for kind in CATALOGUE.values() if kind.code == report["ErrCode"])
        super().__init__(name, cause=report["RawCause"])
        self._report = report

    @property
    def message(self) -> str:
        """As it came."""
        return self._report["Message"]

    @property
    def workaround(self) -> str:
        """As it came."""
        return self._report["Workaround"]
