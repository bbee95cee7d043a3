"""How far the target is, against where the sources are."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.checkpoint import read_checkpoint
from dm.progress.tables import SubtaskKey
from dm.upstream.facts import read_facts
from dm.upstream.row_session import question_session
from dm.upstream.snapshot import upper_bound

_SECONDS = 180.0  # a checkpoint is stored every 30 s by default
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Lag:
    """A target that did not get as far as it was waited for."""

    task: str
    source: str
    wanted: Position
    there: Position | None  # None: nothing is stored

    def __str__(self) -> str:
        """What a person reads."""
        there = "nothing is stored of where it is" if self.there is None else f"its checkpoint is at {self.there}"
        return (
            f"the target did not come past {self.wanted} of source {self.source} in {_SECONDS:.0f} s, {there}:"
            f" compare again when `dmctl query-status {self.task}` shows no lag"
        )


class TargetProgress:
    """Knows of some subtasks whose changes are being applied."""

    def __init__(self, subtasks: Sequence[SubtaskConfig], clock: Clock) -> None:
        self._subtasks = subtasks
        self._clock = clock
        self._target = TargetConnection(subtasks[0].target)
        self._wanted = dict[str, Position]()
        self.lag: Lag | None = None  # if the last wait was too long

    def wait_past(self, stop: threading.Event) -> bool:
        """Wait until the target has all that the sources have now; False when stopped, or when it takes too long."""
        self._wanted, self.lag = self._ends(), None
        deadline = self._clock.monotonic() + _SECONDS
        while (lag := self._first_lag()) is not None:
            if self._clock.monotonic() >= deadline:
                self.lag = lag
                return False
            if self._clock.wait(stop, _PAUSE):
                return False
        return True

    def rests(self) -> bool:
        """Whether the sources have written nothing since the target was waited for. Raises DMError."""
        return self._ends() == self._wanted

    def _ends(self) -> dict[str, Position]:
        return {subtask.source_id: _end(subtask) for subtask in self._subtasks}

    def _first_lag(self) -> Lag | None:
        for subtask in self._subtasks:
            wanted = self._wanted[subtask.source_id]
            stored = read_checkpoint(self._target, SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id))
            if stored is None or not stored.position.covers(wanted):
                return Lag(subtask.task, subtask.source_id, wanted, None if stored is None else stored.position)
        return None

    def close(self) -> None:
        """End the session."""
        with suppress(DMError):
            self._target.close()


def _end(subtask: SubtaskConfig) -> Position:
    session = question_session(subtask.source.endpoint)
    try:
        return upper_bound(session, read_facts(session))
    finally:
        session.close()
