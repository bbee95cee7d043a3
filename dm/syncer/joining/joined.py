"""The sync unit of a task whose tables all have one stream, but for those that are loaded beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.progress.joining import Joining, read_joining
from dm.syncer.joining.join_main import MainRun
from dm.syncer.stream.until import Until
from dm.syncer.unit import SyncUnit
from dm.unit import JSON, UnitName

PATIENCE_SECONDS: Final = 4.0  # main's other tables wait so long for the share to come to their place
# Twice as long each time that this was too short: on a source that never rests they would not meet otherwise.
_MOST_PATIENCE: Final = 60.0
_LOOK_SECONDS: Final = 0.05

Make = Callable[[Until | None], SyncUnit]


class JoinedSync:
    """Runs one reading of main after the other; where nothing is loaded beside it, one."""

    name: UnitName = "Sync"

    def __init__(
        self, subtask: SubtaskConfig, make: Make, until: Until | None = None, clock: Clock | None = None
    ) -> None:
        self._subtask = subtask
        self._make = make
        self._asked = until
        self._clock = clock or SystemClock()
        self._patience = PATIENCE_SECONDS
        self._unit, self._run = self._reading(None)

    def _reading(self, until: Until | None) -> tuple[SyncUnit, MainRun]:
        unit, run = self._make(until or self._asked), MainRun(self._subtask, bounded=until is not None)
        unit.attend(run)
        return unit, run

    # -- Unit

    def status(self) -> Mapping[str, JSON]:
        """DM's fields of the sync unit, and which tables are loaded beside it."""
        return {**self._unit.status(), **self._run.status()}

    def refresh(self, timeout: float) -> None:
        """Read the source's end now."""
        self._unit.refresh(timeout)

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """What the present reading is asked; raises DMError."""
        return self._unit.ask(question, arguments)

    def run(self, stop: threading.Event) -> None:
        """Follow the binlog until stopped; raises DMError."""
        while True:
            self._unit.run(stop)
            run = self._run
            if stop.is_set() or not run.again:
                return
            if run.joining is None:
                self._patience = PATIENCE_SECONDS
            elif run.called:
                self._wait_for(run, run.joining, stop)
            self._unit, self._run = self._reading(run.until)

    def _wait_for(self, run: MainRun, joining: Joining, stop: threading.Event) -> None:
        """Until the share is where main is, or has something else to do; not for long."""
        until = self._clock.monotonic() + self._patience
        self._patience = min(2 * self._patience, _MOST_PATIENCE)
        with closing(TargetConnection(self._subtask.target)) as connection:
            while self._clock.monotonic() < until:
                found = read_joining(connection, run.key)
                if found is None or found.number != joining.number or found.phase != "until":
                    return
                if self._clock.wait(stop, _LOOK_SECONDS):
                    return
