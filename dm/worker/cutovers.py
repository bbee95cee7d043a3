"""The cut-overs that this daemon drives, one thread each.

Their states are at the target. Here is only noted for which tasks there is one: an empty file in the task's work
directory, made before the row and removed after its end. A daemon that is started anew goes on with those.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import structlog

from dm.errors import DMError
from dm.tools.cutover.driver import Driver
from dm.tools.cutover.machine import HOLDS_TASK, OVER
from dm.unit import JSON

_MARK: Final = ".cut-over"  # no source is called so


class CutOvers:
    """All of them."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._all: dict[str, tuple[Driver, threading.Thread]] = {}
        self.beginning = threading.Lock()  # from the look at all others until a row is stored

    def noted(self) -> list[str]:
        """The tasks that have one."""
        return sorted(mark.parent.name for mark in self._work.glob(f"*/{_MARK}"))

    def note(self, task: str) -> None:
        """Know after a restart that the task has one."""
        (self._work / task).mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._work / task / _MARK).touch()

    def drive(self, driver: Driver) -> None:
        """Start its thread."""
        thread = threading.Thread(target=self._run, args=(driver,), name=f"cut-over {driver.task}", daemon=True)
        with self._lock:
            self._all[driver.task] = (driver, thread)
        thread.start()

    def _run(self, driver: Driver) -> None:
        driver.run()
        over = driver.taken or driver.found is None or driver.found.state in OVER
        if over and not driver.stopped:  # one that is taken is another daemon's to go on with
            (self._work / driver.task / _MARK).unlink(missing_ok=True)

    def forget(self, task: str) -> None:
        """Its cut-over is complete."""
        (self._work / task / _MARK).unlink(missing_ok=True)
        with self._lock:
            self._all.pop(task, None)

    def driver(self, task: str) -> Driver | None:
        """The one that is at work."""
        with self._lock:
            found = self._all.get(task)
        return found[0] if found is not None and found[1].is_alive() else None

    def demand_at_rest(self, task: str) -> None:
        """Raise DMError while one is driven: each of its steps needs the task, also those that open its sources."""
        driver = self.driver(task)
        if driver is not None and (driver.found is None or not driver.found.rests):
            state = "comparing" if driver.found is None else driver.found.state
            raise DMError("cut-over-under-way", task=task, state=state)

    def demand_not_held(self, task: str) -> None:
        """Raise DMError where the task is not to apply anything, or nobody can say yet whether it is."""
        state = self.told(task).get("state")
        if state is None and task in self.noted():
            raise DMError("cut-over-holds-task", task=task, state="not known, as its row has not been read")
        if state in HOLDS_TASK:
            raise DMError("cut-over-holds-task", task=task, state=state)

    def wait(self, task: str, seconds: float) -> None:
        """Wait until a driver has ended."""
        with self._lock:
            found = self._all.get(task)
        if found is not None:
            found[1].join(seconds)

    def told(self, task: str) -> Mapping[str, JSON]:
        """What `query-status` says of the last one; empty where there was none."""
        with self._lock:
            found = self._all.get(task)
        if found is None or found[0].found is None:
            return {}
        state = found[0].found
        return {"state": state.state, "why": state.why, "problem": found[0].problem or state.failed}

    def all_told(self) -> dict[str, Mapping[str, JSON]]:
        """The same of all tasks that have one."""
        with self._lock:
            tasks = list(self._all)
        told = {task: self.told(task) for task in tasks}
        return {task: status for task, status in told.items() if status}

    def take_up(self, make: Callable[[str], Driver]) -> None:
        """Go on with those of the daemon before."""
        for task in self.noted():
            self.drive(make(task))

    def go_on(self, make: Callable[[str], Driver], unfinished: Callable[[str], bool], task: str) -> None:
        """Drive the cut-over of a task that has come to this host, if one was begun and is not over."""
        try:
            if self.driver(task) is None and (task in self.noted() or unfinished(task)):
                self.note(task)
                self.drive(make(task))
        except DMError as error:  # whether there is one will be asked with `dmctl cut-over --status`
            structlog.get_logger().warning("cut-over", task=task, error=error)

    def end(self) -> None:
        """Leave all as they are."""
        with self._lock:
            found = list(self._all.values())
        for driver, _ in found:
            driver.stop()
        for _, thread in found:
            thread.join()
