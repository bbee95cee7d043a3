"""How far the target is, against where the sources are."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress

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


class TargetProgress:
    """Knows of some subtasks whose changes are being applied."""

    def __init__(self, subtasks: Sequence[SubtaskConfig]) -> None:
        self._subtasks = subtasks
        self._target = TargetConnection(subtasks[0].target)
        self._wanted = dict[str, Position]()

    def wait_past(self, stop: threading.Event) -> bool:
        """Wait until the target has all that the sources have now; False when stopped, or when it takes too long."""
        self._wanted = self._ends()
        for _ in range(int(_SECONDS / _PAUSE)):
            if all(self._has(subtask, self._wanted[subtask.source_id]) for subtask in self._subtasks):
                return True
            if stop.wait(_PAUSE):
                return False
        return False

    def rests(self) -> bool:
        """Whether the sources have written nothing since the target was waited for. Raises DMError."""
        return self._ends() == self._wanted

    def _ends(self) -> dict[str, Position]:
        return {subtask.source_id: _end(subtask) for subtask in self._subtasks}

    def _has(self, subtask: SubtaskConfig, wanted: Position) -> bool:
        key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
        stored = read_checkpoint(self._target, key)
        return stored is not None and stored.position.covers(wanted)

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
