"""`objects`: what is not a table, on both sides of a task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.tools.objects.adapted import Definers
from dm.tools.objects.report import account_as_json, as_json
from dm.tools.objects.stored import ACTING, KINDS, ROUTINES, Kind
from dm.tools.objects.task_objects import ACCOUNT_KINDS, BEFORE_CUT_OVER
from dm.unit import JSON
from dm.verbs.objects import Kinds, Objects
from dm.worker.configuration import sources_of
from dm.worker.verb_work import Answer, VerbWork, does


class ObjectVerbs(VerbWork):
    """Views, routines, triggers, events, accounts and their privileges."""

    @does(Objects)
    def objects(self, asked: Objects) -> Answer:
        """List, write or create them."""
        kinds, accounts = _kinds(asked.kinds), _account_kinds(asked)
        definers = Definers.of(asked.definers)
        changing = asked.enable_events or (asked.apply and bool(ACTING & set(kinds if asked.kinds else ())))
        subtasks = self._loop.call(lambda: self._subtasks(asked.task, asked.sources, at_rest=changing))
        found = self._servers.objects(subtasks, definers)
        files, changed = list[Path](), 0
        try:
            if asked.sql:
                files = found.scripts(Path(asked.sql), [*kinds, *accounts])
            elif asked.apply:
                changed = found.create_accounts() if _wants(asked, "account") else 0
                changed += len(
                    found.apply(kinds if asked.kinds else [kind for kind in kinds if kind in BEFORE_CUT_OVER])
                )
                changed += found.give_privileges() if _wants(asked, "grant") else 0
            elif asked.enable_events:
                changed = len(found.enable_events())
            objects: list[JSON] = [as_json(each) for each in found.compared if each.name.kind in kinds]
            if accounts:
                objects += [account_as_json(each) for each in found.accounts if each.kind in accounts]
        finally:
            found.close()
        return {
            "taskName": asked.task, "objects": objects, "remarks": [*found.remarks],
            "files": [str(path) for path in files], "tried": changed,
        }  # fmt: skip

    def _subtasks(self, name: str, sources: Sequence[str], *, at_rest: bool) -> list[SubtaskConfig]:
        task = self._supervisor.task(name)
        if isinstance(task.config, DMError):
            raise task.config
        working = [source for source, job in task.jobs.items() if job.subtask.stage == "Running"]
        if at_rest and working:
            raise DMError("objects-task-at-work", task=name, sources=", ".join(working))
        known = self._supervisor.source_configs()
        return [task.config.subtask(source, known) for source in sources_of(task.config, sources)]


def _wants(asked: Objects, kind: str) -> bool:
    return not asked.kinds or kind in asked.kinds


def _account_kinds(asked: Objects) -> list[str]:
    return [kind for kind in ACCOUNT_KINDS if _wants(asked, "account" if kind == "role" else kind)]


def _kinds(asked: Kinds) -> list[Kind]:
    """The servers' kinds; a routine may be four of them."""
    if not asked:
        return list(KINDS)
    return [kind for kind in KINDS if kind in asked or (kind in ROUTINES and "routine" in asked)]
