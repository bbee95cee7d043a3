"""The verbs of `dmctl binlog` and `dmctl binlog-schema`.

While a subtask runs, its process is asked, since nobody else may change its progress; while it rests, the daemon does
it. A subtask that rests on an error goes on at once, as in DM; one that a person has paused stays paused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.ident import TableName
from dm.syncer.operators import EventPlace, Request
from dm.task.binlog_verbs import StructureRequest
from dm.unit import JSON
from dm.verbs import binlog as declared
from dm.worker.errands import answer_of
from dm.worker.job import Job, Question
from dm.worker.verb_work import Answer, VerbWork, does

ANSWER_SECONDS = 60.0
AGAIN_SECONDS = 0.5  # until a run that was not in place is asked again

_Place = Mapping[str, str | int | bool]
# DM's numbers of the operations, in the records of its `binlog list`.
_NUMBERS: dict[JSON, JSON] = {"skip": 1, "replace": 2, "inject": 4}


@dataclass(frozen=True, slots=True)
class _Resting:
    """No run is there to be asked: the subtask, and the event at which it failed."""

    config: SubtaskConfig
    place: EventPlace | None


class BinlogVerbs(VerbWork):
    """Operators of single events, and structures of tables."""

    @does(
        declared.SkipEvent, declared.ReplaceEvent, declared.InjectBefore, declared.RevertEvent, declared.ListOperators
    )
    def operate(self, asked: declared.OperatedEvent) -> Answer:
        """Ask each subtask, or do it in place of those that rest."""
        verb, task = asked.operation, asked.task

        def operate(job: Job) -> Answer:
            request = Request(verb, task, job.source, asked.binlog_pos, asked.sqls)
            operators = self._operators(job, request)
            if verb == "list":
                assert isinstance(operators, list)
                return {"msg": json.dumps([_as_dm(one) for one in operators]), "operators": operators}
            self._loop.call(lambda: _go_on(job))
            return {"msg": ""}

        return self._each(asked, operate)

    @does(declared.ListStructure, declared.UpdateStructure, declared.DeleteStructure)
    def structure(self, asked: declared.TableStructure) -> Answer:
        """Only while the task is paused."""
        table = TableName(asked.database, asked.table)
        request = StructureRequest(asked.operation, table)
        if isinstance(asked, declared.UpdateStructure):
            request = StructureRequest(asked.operation, table, asked.origin, asked.text, asked.sync)

        def operate(job: Job) -> Answer:
            config = self._loop.call(lambda: self._resting(job))
            return {"msg": self._servers.progress.operate_structure(config, request)}

        return self._each(asked, operate)

    def _each(
        self, asked: declared.OperatedEvent | declared.TableStructure, operate: Callable[[Job], Answer]
    ) -> Answer:
        """The answer with a line per source; an error when no source could do it."""
        lines: list[JSON] = []
        refused: list[DMError] = []
        for job in self._loop.call(lambda: self._supervisor.jobs(asked.task, asked.sources)):
            try:
                line = {"result": True, **operate(job)}
            except DMError as error:
                refused.append(error)
                line = {"result": False, "msg": str(error)}
            lines.append({**line, "source": job.source, "stage": job.subtask.stage})
        if len(refused) == len(lines):
            raise refused[0]
        return {"taskName": asked.task, "sources": lines}

    def _operators(self, job: Job, request: Request) -> JSON:
        """What the run under way makes of a request, or the daemon in place of one; raises DMError.

        A run may end while it is asked, since what is wrong is still wrong, and others may begin and end meanwhile:
        whoever is there then is asked, until somebody knows or the time is over.
        """
        clock = self._supervisor.clock
        deadline = clock.monotonic() + ANSWER_SECONDS
        while True:
            asked = self._loop.call(lambda: self._put(job, request))
            if isinstance(asked, _Resting):
                return self._servers.progress.operate_binlog(asked.config, request, asked.place)
            question, place = asked
            try:
                answer = answer_of(self._loop, job, question, max(0.0, deadline - clock.monotonic()))
            except DMError as error:
                left = deadline - clock.monotonic()
                if error.name != "unit-not-there" or left <= 0:
                    raise
                self._wait_for_another_run(job, question.run, min(left, AGAIN_SECONDS))
                continue
            if place is None:
                return answer
            self._demand_passed(job, place, passed=bool(answer))

    def _put(self, job: Job, request: Request) -> tuple[Question, _Place | None] | _Resting:
        """Ask the run under way: first whether it has passed the event that it was resumed at, if that matters."""
        config = self._config(job)
        if request.verb != "list" and not request.binlog_pos and job.resumed_at is not None:
            question = job.ask("passed", job.resumed_at)  # it fails there again, or passes it
            if question is not None:
                return question, job.resumed_at
        question = job.ask("binlog", request.to_json())
        if question is not None:
            return question, None
        place = job.failing or (job.resumed_at if job.subtask.stage == "Running" else None)
        return _Resting(config, None if place is None else EventPlace.from_json(place))

    def _demand_passed(self, job: Job, place: _Place, *, passed: bool) -> None:
        """Raises DMError where the run has yet to come to the event; else nobody needs to ask for it again."""

        def forget() -> None:
            if job.resumed_at == place:
                job.resumed_at = None

        if not passed:
            raise DMError(
                "failing-event-under-way", source=job.source, place=f"{place['file']}:{place['offset']}", task=job.task
            )
        self._loop.call(forget)

    def _wait_for_another_run(self, job: Job, run: int, seconds: float) -> None:
        self._loop.wait_until(lambda: job.host_run != run, seconds)

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
