"""The comparisons that `dmctl diff` asks for: each in a unit host of its own, which ends with the daemon.

They are kept in memory only. A daemon that is started anew knows nothing of them: a comparison changes nothing, and is
simply asked for again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

from dm.config import SubtaskConfig
from dm.diff.options import DiffOptions
from dm.errors import DMError, ErrorReport
from dm.task.host_process import HOST_COMMAND, HostEnded, HostProcess
from dm.task.message import Event, StartUnit, StopUnit, UnitFailed, UnitFinished, UnitStatus, UnitStopped
from dm.task.payload import DiffPayload
from dm.unit import JSON
from dm.worker.loop import Loop

_KEPT: Final = 20  # comparisons that are over
_RUN: Final = 1


@dataclass
class _Comparison:
    """One of them, as its process tells it."""

    task: str
    process: HostProcess | None = None
    status: Mapping[str, JSON] = field(default_factory=dict)
    error: ErrorReport | None = None
    over: bool = False

    def hear(self, event: Event | HostEnded) -> None:
        """What its process says; called in that one's thread."""
        match event:
            case UnitStatus(_, status):
                self.status = status
            case UnitFailed():
                self.error = event.report
                self._end()
            case UnitFinished() | UnitStopped():
                self._end()
            case HostEnded():
                if not self.over and self.error is None:
                    self.error = DMError("host-died", host=f"the comparison of {self.task}", how=event.how).report()
                self.over = True

    def _end(self) -> None:
        self.over = True
        if self.process is not None:
            self.process.close()

    def stop(self) -> None:
        """End it."""
        if self.process is not None and not self.over:
            self.process.send(StopUnit(_RUN))
            self.process.close()


class Diffs:
    """All of them."""

    def __init__(self, loop: Loop, log_of: Callable[[str], Path], command: Sequence[str] = HOST_COMMAND) -> None:
        self._loop = loop
        self._log_of = log_of
        self._command = command
        self._lock = threading.Lock()
        self._all: dict[int, _Comparison] = {}
        self._numbers = iter(range(1, 1 << 62))

    def begin(self, subtasks: Sequence[SubtaskConfig], options: DiffOptions, work: Path) -> int:
        """Start one; gives its number. `work` is where the work directories of tasks are."""
        task = subtasks[0].task
        comparison = _Comparison(task)
        with self._lock:
            number = next(self._numbers)
            for old in [key for key, each in self._all.items() if each.over][:-_KEPT]:
                del self._all[old]
            self._all[number] = comparison
        scratch = work / task / f".diff-{number}"  # a source can't be called like it
        payload = DiffPayload(tuple(subtasks), options, scratch, work / task / ".diff").to_wire()
        name = f"diff:{task}:{number}"
        # From the loop's thread, which lives as long as the daemon: the kernel ends the process with that thread.
        events: queue.SimpleQueue[Event | HostEnded] = queue.SimpleQueue()
        comparison.process = self._loop.call(
            lambda: HostProcess(name, self._log_of(f"diff:{task}"), events.put, self._command)
        )
        threading.Thread(target=_hear, args=(comparison, events), name=name, daemon=True).start()
        comparison.process.send(StartUnit(_RUN, "Diff", payload))
        return number

    def status(self, number: int) -> dict[str, JSON]:
        """How far one is, and at its end what it has found."""
        comparison = self._get(number)
        if comparison.over and comparison.error is not None:
            report = cast("JSON", comparison.error)
            return {"result": False, "msg": comparison.error["Message"], "error": report}
        return {"result": True, "msg": "", "task": comparison.task, "ended": comparison.over, **comparison.status}

    def stop(self, number: int) -> dict[str, JSON]:
        """End one."""
        self._get(number).stop()
        return {"result": True, "msg": ""}

    def _get(self, number: int) -> _Comparison:
        with self._lock:
            if number not in self._all:
                raise DMError("diff-unknown", number=number)
            return self._all[number]


def _hear(comparison: _Comparison, events: queue.SimpleQueue[Event | HostEnded]) -> None:
    while True:
        event = events.get()
        comparison.hear(event)
        if isinstance(event, HostEnded):
            return
