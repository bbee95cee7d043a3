"""The sync unit of a task that merges shards: the source's stream, and second passes over parts of it, in turns."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.errors import DMError
from dm.pace.governor import Governor
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.until import Until
from dm.syncer.joined_sync import JoinedSync
from dm.syncer.shards.main_or_second_pass import PassEnd, ShardRun
from dm.syncer.unit import ASK_SECONDS, LOOK_SECONDS, SyncUnit
from dm.unit import JSON, Unit, UnitName

Make = Callable[[Path, Until | None], SyncUnit]


class ShardedSync:
    """Runs one reading after the other; each is a sync unit of its own, which begins where the last one ended."""

    name: UnitName = "Sync"

    def __init__(
        self,
        subtask: SubtaskConfig,
        make: Make,
        work_directory: Path,
        until: Until | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._subtask = subtask
        self._make = make
        self._work_directory = work_directory
        self._clock = clock or SystemClock()
        self._until = until
        self._ended = threading.Event()
        self._unit, self._run = self._reading(None)

    def _reading(self, main: ShardRun | None) -> tuple[SyncUnit, ShardRun]:
        """Main's reading, or the second pass that main waits for."""
        work, until = self._work_directory, self._until
        if main is None:
            run = ShardRun(self._subtask)
        else:
            assert main.place is not None
            end = PassEnd(main.place)
            run = ShardRun(self._subtask, main.claim, end)
            work, until = work / "second", end
        unit = self._make(work, until)
        unit.attend(run)
        return unit, run

    # -- Unit

    def status(self) -> Mapping[str, JSON]:
        """DM's fields of the sync unit."""
        status = self._unit.status()
        if self._run.second or self._run.held:
            return {**status, "synced": False, **self._run.waiting()}
        return status

    def refresh(self, timeout: float) -> None:
        """Read the source's end now."""
        self._unit.refresh(timeout)

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """Pass the question to the present reading, or to the next one if it is just ending; raises DMError."""
        until = self._clock.monotonic() + ASK_SECONDS
        while True:
            try:
                return self._unit.ask(question, arguments)
            except DMError as error:
                gone = error.name == "unit-not-there" and self._clock.monotonic() < until
                if not gone or self._clock.wait(self._ended, LOOK_SECONDS):
                    raise

    def run(self, stop: threading.Event) -> None:
        """Follow the binlog until stopped; raises DMError."""
        try:
            self._run_in_turns(stop)
        finally:
            self._ended.set()

    def _run_in_turns(self, stop: threading.Event) -> None:
        while True:
            self._unit.run(stop)
            run = self._run
            if stop.is_set() or not (run.due or run.returned):
                return
            if run.returned:
                # Its list of XA transactions is about its own tables; the next pass has others.
                shutil.rmtree(self._work_directory / "second", ignore_errors=True)
            self._unit, self._run = self._reading(run if run.due else None)


def sync_unit(
    subtask: SubtaskConfig,
    *,
    relay_directory: Path | None,
    work_directory: Path,
    hold: Hold | None = None,
    until: Until | None = None,
    pace: Callable[[], Governor] | None = None,
) -> Unit:
    """The sync unit that the task file asks for; each of its runs has a governor of its own."""

    def make(work: Path, end: Until | None) -> SyncUnit:
        unit = SyncUnit(subtask, relay_directory=relay_directory, work_directory=work, hold=hold, until=end)
        return unit if pace is None else unit.keep_pace(pace())

    if subtask.shard_mode:
        return ShardedSync(subtask, make, work_directory, until)
    return JoinedSync(subtask, partial(make, work_directory), until)
