"""`dmctl replay`, in DM's JSON: the backlog of a paused task goes to a unit host of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.replay.request import ReplayRequest
from dm.task.payload import ReplayPayload, replay_directory, sync_directory
from dm.unit import JSON
from dm.worker.errands import Errands
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor

Answer = dict[str, JSON]

_AT_REST: Final = ("Paused", "Stopped")


class ReplayVerbs:
    """Replays of all tasks."""

    def __init__(self, loop: Loop, supervisor: Supervisor, errands: Errands) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._errands = errands

    def begin(self, task: str, until: str, *, cancel: bool) -> Answer:
        """Replay a backlog, or go on with it; `cancel`: leave it to the syncer. Raises DMError."""
        subtask, relay = self._loop.call(lambda: self._at_rest(task))
        for number in self._errands.running(task, "Replay"):
            if not cancel:
                raise DMError("replay-running", task=task)
            self._errands.stop(number)
        work = self._supervisor.home.work / task
        request = ReplayRequest(
            subtask, relay, sync_directory(work, subtask.source_id), replay_directory(work, subtask.source_id), until,
            cancel,
        )  # fmt: skip
        number = self._errands.number()
        # A source can't be called like this directory.
        self._errands.begin(number, task, "Replay", ReplayPayload(request, work / f".replay-{number}").to_wire())
        return {"result": True, "msg": "", "number": number, "task": task}

    def _at_rest(self, name: str) -> tuple[SubtaskConfig, Path]:
        supervisor = self._supervisor
        task = supervisor.task(name)
        if isinstance(task.config, DMError):
            raise task.config
        if len(task.jobs) != 1:
            raise DMError("replay-unsuited", task=name, why="it has several sources, whose changes have an order")
        ((source, job),) = task.jobs.items()
        if job.subtask.unit != "Sync" or job.subtask.stage not in _AT_REST or job.host_run is not None:
            stage = f"{job.subtask.stage}, unit {job.subtask.unit or 'none'},"
            raise DMError("replay-not-paused", task=name, source=source, stage=stage)
        if job.until is not None:
            raise DMError("replay-unsuited", task=name, why=f"it is to end at {job.until}")
        return task.config.subtask(source, supervisor.source_configs()), supervisor.relay_directory(source)

    def told(self, task: str, answer: Answer) -> Answer:
        """A task's status, with how far its last replay is."""
        report = self._errands.last(task, "Replay")
        sources = answer.get("sources")
        if report is None or not isinstance(sources, list):
            return answer
        for one in sources:
            if isinstance(one, dict):
                _add(one, report)
        return answer


def _add(source: Mapping[str, JSON], report: Mapping[str, JSON]) -> None:
    status, subtasks = source.get("sourceStatus"), source.get("subTaskStatus")
    if not isinstance(status, dict) or not isinstance(subtasks, Sequence) or isinstance(subtasks, str):
        return
    if report.get("source", status.get("source")) == status.get("source"):
        for subtask in subtasks:
            if isinstance(subtask, dict):
                subtask["replay"] = dict(report)
