"""`show-conflicts` and `clear-conflicts`: what the record at the target has."""

from __future__ import annotations

from collections.abc import Sequence

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.conflicts import ClearConflicts, ShowConflicts
from dm.worker.configuration import sources_of
from dm.worker.verb_work import Answer, VerbWork, does


class ConflictVerbs(VerbWork):
    """The record, whether the task runs or not."""

    @does(ShowConflicts)
    def show(self, asked: ShowConflicts) -> Answer:
        """How many there are, and the last ones of each source."""
        recorded, conflicts = 0, list[JSON]()
        for config in self._subtasks(asked.task, asked.sources):
            count, last = self._servers.conflicts.read(config, asked.limit)
            recorded += count
            conflicts += last
        return {"taskName": asked.task, "recorded": recorded, "conflicts": conflicts}

    @does(ClearConflicts)
    def clear(self, asked: ClearConflicts) -> Answer:
        """All of the sources' conflicts."""
        subtasks = self._subtasks(asked.task, asked.sources)
        removed = sum(self._servers.conflicts.clear(config) for config in subtasks)
        return {"taskName": asked.task, "removed": removed}

    def _subtasks(self, name: str, sources: Sequence[str]) -> list[SubtaskConfig]:
        def configured() -> list[SubtaskConfig]:
            task = self._supervisor.task(name)
            if isinstance(task.config, DMError):
                raise task.config
            known = self._supervisor.source_configs()
            return [task.config.subtask(source, known) for source in sources_of(task.config, sources)]

        return self._loop.call(configured)
