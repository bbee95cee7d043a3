"""`dmctl reload-table`, in DM's JSON, and what it shares with `update-task`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.ident import TableName
from dm.unit import JSON
from dm.verbs.joining import ReloadTable
from dm.worker.job import Job
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor, Task
from dm.worker.work import Answer, VerbWork, does

REST_SECONDS: Final = 20.0  # longer than a host that does not come to rest is left alive


def follows_at_source(loop: Loop, supervisor: Supervisor, name: str) -> tuple[Task, Mapping[str, SubtaskConfig]]:
    """A task and its subtasks by source, all of which follow their source; raises DMError where one does not."""

    def read() -> tuple[Task, Mapping[str, SubtaskConfig]]:
        task = supervisor.task(name)
        if isinstance(task.config, DMError):
            raise task.config
        for source, job in task.jobs.items():
            subtask = job.subtask
            ends = "" if job.until is None else f"it is to end at {job.until}"
            if subtask.unit != "Sync" or subtask.stage == "Finished" or ends:
                state = ends or f"{subtask.stage}, unit {subtask.unit}"
                raise DMError("joining-without-sync", task=name, source=source, state=state)
        sources = supervisor.source_configs()
        return task, {source: task.config.subtask(source, sources) for source in task.jobs}

    return loop.call(read)


def demand_unvalidated(loop: Loop, supervisor: Supervisor, task: str, sources: Iterable[str]) -> None:
    """Raise DMError while a validator looks at the rows: those of the tables in question come later than others."""

    def validated() -> list[str]:
        found = ((source, supervisor.validators.get(task, source)) for source in sources)
        return [source for source, one in found if one is not None and one.record.running]

    running = loop.call(validated)
    if running:
        raise DMError("joining-validated", task=task, sources=", ".join(running))


@contextmanager
def resting(loop: Loop, supervisor: Supervisor, task: str, sources: Iterable[str]) -> Iterator[None]:
    """What is loaded beside a task rests meanwhile, and goes on with what the task's file says then."""

    def rest() -> list[Job]:
        jobs = [job for source in sources if (job := supervisor.joins.of(task, source)) is not None]
        there = [job for job in jobs if job.subtask.stage in ("Running", "Paused")]
        for job in there:
            if not job.subtask.is_canceled:
                job.subtask.pause()
        return there

    def go_on() -> None:
        for job in jobs:
            if job.subtask.stage == "Paused":
                job.resume()

    jobs = loop.call(rest)
    try:
        if not loop.wait_until(lambda: all(job.subtask.stage != "Pausing" for job in jobs), REST_SECONDS):
            raise DMError("task-busy", task=task, stage="Paused", seconds=REST_SECONDS)
        yield
    finally:
        loop.call(go_on)


class JoinVerbs(VerbWork):
    """Tables that are loaded again beside a running task, and join it."""

    @does(ReloadTable)
    def reload_table(self, asked: ReloadTable) -> Answer:
        """A table is loaded again, or all reloads are taken back; raises DMError."""
        return self._cancel_reload(asked.task) if asked.cancel else self._reload(asked)

    def _reload(self, verb: ReloadTable) -> Answer:
        task, source = verb.task, verb.source
        _, configs = follows_at_source(self._loop, self._supervisor, task)
        if source is not None and source not in configs:
            raise DMError("task-not-on-source", task=task, source=source, sources=", ".join(configs))
        demand_unvalidated(self._loop, self._supervisor, task, configs)
        with resting(self._loop, self._supervisor, task, configs):
            asked = self._servers.joins.reload(
                configs, TableName(verb.database, verb.table), source, anew=verb.recreate
            )
        self._begin_anew(task, [asked.source])
        return {
            "task": task, "source": asked.source, "target": asked.target.sql,
            "tables": [each.sql for each in asked.tables],
        }  # fmt: skip

    def _cancel_reload(self, task: str) -> Answer:
        _, configs = follows_at_source(self._loop, self._supervisor, task)
        with resting(self._loop, self._supervisor, task, configs):
            taken = self._servers.joins.cancel_reload(configs)
        if not taken:
            raise DMError("joining-not-there", task=task)
        self._begin_anew(task, list(taken))
        tables: list[JSON] = [table.sql for each in taken.values() for table in each.names]
        return {"task": task, "tables": tables}

    def _begin_anew(self, task: str, sources: list[str]) -> None:
        """The streams look what is asked of them; one that rests does when it is resumed."""

        def restart() -> None:
            for job in self._supervisor.jobs(task, sources):
                job.subtask.restart()

        self._loop.call(restart)
