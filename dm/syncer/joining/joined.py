"""The sync unit of a task whose tables all have one stream, but for those that are loaded beside it.

While main waits for a share, its other tables wait too. So it calls only a share that is near, and waits for it a
moment. A share that does not come in time is on a machine that has too much to do: the next wait is twice as long, up
to a limit, and before it main follows for as long as it waited.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Final

from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.joining.steps import Joining, read_joining
from dm.progress.tables import SubtaskKey
from dm.sourcelog.stream.until import Until, UntilPosition
from dm.syncer.joining.join_main import MainRun
from dm.syncer.unit import SyncUnit
from dm.unit import JSON, UnitName

_FIRST_WAIT: Final = 4.0  # main's other tables wait so long for the share to come to their place
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
        """Nothing is loaded any more."""
        self._wait, self.call_at = _FIRST_WAIT, 0.0

    def wait(
        self,
        connection: TargetConnection,
        key: SubtaskKey,
        joining: Joining,
        called: Position,
        stop: threading.Event,
    ) -> UntilPosition | None:
        """Until the share is where main is, or has something else to do; gives its place if that is further.

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
        """The share did not come in time: the next call is later, and the wait is longer."""
        self.call_at = self._clock.monotonic() + self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)


class JoinedSync:
    """Runs one reading of main after the other; where nothing is loaded beside it, one."""

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
            until = run.until
            if run.joining is None:
                self._patience.forget()
            elif run.called is not None:
                with closing(TargetConnection(self._subtask.target)) as connection:
                    until = self._patience.wait(connection, run.key, run.joining, run.called, stop)
                if stop.is_set():
                    return
            elif run.joining.phase == "near":  # it did not come to rest, so it has called nobody
                self._patience.postpone()
            self._unit, self._run = self._reading(until)
