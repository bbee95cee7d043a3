"""The verbs of `dmctl binlog` and `dmctl binlog-schema`.

While a subtask runs, its process is asked, since nobody else may change its progress; while it rests, the daemon does
it. A subtask that rests on an error goes on at once, as in DM; one that a person has paused stays paused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.syncer.stream.operators import EventPlace, Request, Verb
from dm.task.tracked_structure import StructureRequest
from dm.unit import JSON
from dm.worker.job import Job
from dm.worker.loop import Loop
from dm.worker.question import answer_of
from dm.worker.supervisor import Supervisor

ANSWER_SECONDS = 60.0

Answer = dict[str, JSON]
# DM's numbers of the operations, in the records of its `binlog list`.
_NUMBERS: dict[JSON, JSON] = {"skip": 1, "replace": 2, "inject": 4}


@dataclass(frozen=True, slots=True)
class ProgressAtTarget:
    """What is asked of a resting subtask's progress, and done to it."""

    demand_sole_run: Callable[[SubtaskConfig], None]  # raises where another daemon runs the subtask

    operate_binlog: Callable[[SubtaskConfig, Request, EventPlace | None], JSON]
    operate_structure: Callable[[SubtaskConfig, StructureRequest], str]


class BinlogVerbs:
    """Operators of single events, and structures of tables."""

    def __init__(self, loop: Loop, supervisor: Supervisor, progress: ProgressAtTarget) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._progress = progress

    def operate(
        self, verb: Verb, task: str, sources: Sequence[str], binlog_pos: str, statements: Sequence[str]
    ) -> Answer:
        """`binlog skip | replace | inject | revert | list`."""

        def operate(job: Job) -> Answer:
            request = Request(verb, task, job.source, binlog_pos, tuple(statements))
            operators = self._operators(job, request)
            if verb == "list":
                assert isinstance(operators, list)
                return {"msg": json.dumps([_as_dm(one) for one in operators]), "operators": operators}
            self._loop.call(lambda: _go_on(job))
            return {"msg": ""}

        return self._each(task, sources, operate)

    def structure(self, task: str, sources: Sequence[str], request: StructureRequest) -> Answer:
        """`binlog-schema list | update | delete`."""

        def operate(job: Job) -> Answer:
            config = self._loop.call(lambda: self._resting(job))
            return {"msg": self._progress.operate_structure(config, request)}

        return self._each(task, sources, operate)

    def _each(self, task: str, sources: Sequence[str], operate: Callable[[Job], Answer]) -> Answer:
        """The answer with a line per source; an error when no source could do it."""
        lines: list[JSON] = []
        refused: list[DMError] = []
        for job in self._loop.call(lambda: self._supervisor.jobs(task, sources)):
            try:
                line = {"result": True, **operate(job)}
            except DMError as error:
                refused.append(error)
                line = {"result": False, "msg": str(error)}
            lines.append({**line, "source": job.source, "stage": job.subtask.stage})
        if len(refused) == len(lines):
            raise refused[0]
        return {"result": True, "msg": "", "taskName": task, "sources": lines}

    def _operators(self, job: Job, request: Request) -> JSON:
        """What the run under way makes of a request, or the daemon in place of one; raises DMError.

        A run may end while it is asked, since what is wrong is still wrong: then the daemon, or the next run, is asked.
        """
        run = self._loop.call(lambda: job.host_run)
        try:
            return self._asked(job, request)
        except DMError as error:
            if error.name != "unit-not-there" or not self._loop.wait_until(lambda: job.host_run != run, ANSWER_SECONDS):
                raise
            return self._asked(job, request)

    def _asked(self, job: Job, request: Request) -> JSON:
        def ask() -> tuple[int | None, SubtaskConfig, EventPlace | None]:
            config = self._config(job)
            place = job.failing or (job.resumed_at if job.subtask.stage == "Running" else None)
            return job.ask("binlog", request.to_json()), config, None if place is None else EventPlace.from_json(place)

        self._loop.call(lambda: self._config(job))
        if request.verb != "list" and not request.binlog_pos:
            self._demand_past(job)
        asked, config, failing = self._loop.call(ask)
        if asked is None:
            return self._progress.operate_binlog(config, request, failing)
        return answer_of(self._loop, job, asked, "binlog", ANSWER_SECONDS)

    def _demand_past(self, job: Job) -> None:
        """Wait for a run that was resumed at a failing event: it fails there again, or passes it. Raises DMError."""

        def ask() -> tuple[int | None, Mapping[str, JSON] | None]:
            place = cast("Mapping[str, JSON] | None", job.resumed_at)
            return (None if place is None else job.ask("passed", place)), place

        asked, place = self._loop.call(ask)
        if place is None or asked is None:
            return
        if not answer_of(self._loop, job, asked, "passed", ANSWER_SECONDS):
            raise DMError(
                "failing-event-under-way", source=job.source, place=f"{place['file']}:{place['offset']}", task=job.task
            )
        job.resumed_at = None

    def _resting(self, job: Job) -> SubtaskConfig:
        config = self._config(job)
        if job.subtask.stage != "Paused":
            raise DMError("task-not-paused", task=job.task, source=job.source, stage=job.subtask.stage)
        return config

    def _config(self, job: Job) -> SubtaskConfig:
        assert job.task is not None
        if job.subtask.unit != "Sync":
            raise DMError("task-not-syncing", task=job.task, source=job.source, unit=job.subtask.unit or "none")
        config = self._supervisor.tasks[job.task].config
        if isinstance(config, DMError):
            raise config
        return config.subtask(job.source, self._supervisor.source_configs())


def _go_on(job: Job) -> None:
    if job.subtask.stage == "Paused" and job.subtask.intent == "running":
        job.resume()


def _as_dm(operator: JSON) -> JSON:
    """An operator as DM's `binlog list` has it."""
    assert isinstance(operator, dict)
    file, _, offset = str(operator["binlogPos"]).rpartition(":")
    record: dict[str, JSON] = {
        "op": _NUMBERS[operator["op"]], "task": operator["task"], "binlogPos": f"({file}, {offset})",
    }  # fmt: skip
    return {**record, "sqls": operator["sqls"]} if operator["sqls"] else record
