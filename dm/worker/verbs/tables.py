"""Verbs of tables that leave their task's stream and come back (`dm.progress.joining.branches`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dm.config import SubtaskConfig
from dm.ident import TableName
from dm.task.branch_requests import Moved
from dm.verbs.tables import GiveUpTable, HoldTable, ListAside, ReleaseTable, table_of
from dm.worker.verb_work import Answer, VerbWork, does
from dm.worker.verbs.updates import begin_anew, demand_unvalidated, follows_at_source, known_task

_Move = Callable[[Mapping[str, SubtaskConfig], TableName, str | None], Moved]


class TableVerbs(VerbWork):
    """What is stored at the target decides; the streams and the runs beside them look there."""

    @does(ListAside)
    def list_aside(self, asked: ListAside) -> Answer:
        """All that are aside or on their way back; raises DMError."""
        _, configs = known_task(self._loop, self._supervisor, asked.task)
        return {"task": asked.task, "branches": [each.to_json() for each in self._servers.branches.listed(configs)]}

    @does(HoldTable)
    def hold(self, asked: HoldTable) -> Answer:
        """The stream begins anew without the table; raises DMError."""
        _, configs = follows_at_source(self._loop, self._supervisor, asked.task)
        demand_unvalidated(self._loop, self._supervisor, asked.task, configs)
        moved = self._servers.branches.hold(configs, table_of(asked.table), asked.source)
        begin_anew(self._loop, self._supervisor, asked.task, [moved.source])
        return _answer(asked.task, moved)

    @does(ReleaseTable)
    def release(self, asked: ReleaseTable) -> Answer:
        """The table comes back; raises DMError."""
        return self._move(asked.task, asked.table, asked.source, self._servers.branches.let_come)

    @does(GiveUpTable)
    def give_up(self, asked: GiveUpTable) -> Answer:
        """The table is migrated no longer; raises DMError."""
        return self._move(asked.task, asked.table, asked.source, self._servers.branches.give_up)

    def _move(self, task: str, table: str, source: str | None, move: _Move) -> Answer:
        _, configs = known_task(self._loop, self._supervisor, task)
        return _answer(task, move(configs, table_of(table), source))


def _answer(task: str, moved: Moved) -> Answer:
    return {"task": task, "source": moved.source, "tables": [each.sql for each in moved.tables]}
