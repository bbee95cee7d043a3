"""The verbs that tell what tasks do."""

from __future__ import annotations

from collections.abc import Sequence

from dm.config.task import is_task_name
from dm.errors import DMError
from dm.unit import JSON
from dm.verbs import status as declared
from dm.worker.job import Job
from dm.worker.query_status import all_tasks, heard, task_status
from dm.worker.verb_work import Answer, VerbWork, does
from dm.worker.verbs.errands import with_errands

FRESH_SECONDS = 5.0  # as long as DM waits for a source


class StatusVerbs(VerbWork):
    """Tell what tasks do, and where they log it."""

    @does(declared.ListTasks)
    def list_tasks(self, asked: declared.ListTasks) -> Answer:
        """A line each."""
        return self._loop.call(lambda: all_tasks(self._supervisor, asked.source))

    @does(declared.QueryStatus)
    def query_status(self, asked: declared.QueryStatus) -> Answer:
        """As fresh as the units answer."""
        name, sources = asked.task, asked.source
        runs = self._loop.call(lambda: self._asked_for_status(name, sources))
        # In time or not: a source that does not answer must not keep the status of everything else from being shown.
        self._loop.wait_until(lambda: all(job.fresh(request) for job, request in runs), FRESH_SECONDS)
        requests = {job.source: request for job, request in runs if job.task is not None}
        answer = with_errands(
            self._errands, name, self._loop.call(lambda: task_status(self._supervisor, name, list(sources), requests))
        )
        cut_over = self._means.cut_overs.told(name)
        return {**answer, "cutOver": dict(cut_over)} if cut_over else answer

    @does(declared.ShowHeard)
    def heard(self, asked: declared.ShowHeard) -> Answer:
        """Of all subtasks here."""
        seen = self._loop.call(lambda: heard(self._supervisor))
        return {"subtasks": [{"source": source, "subtask": subtask} for source, subtask in seen]}

    def _asked_for_status(self, name: str, sources: Sequence[str]) -> list[tuple[Job, int]]:
        """The runs of a task, and the relays that they read from: an outage that is over is not to be shown."""
        jobs = self._supervisor.jobs(name, sources)
        relays = [self._supervisor.sources[job.source].relay for job in jobs]
        return [(job, job.refresh()) for job in (*jobs, *relays) if job is not None]

    @does(declared.Logs)
    def log_files(self, asked: declared.Logs) -> Answer:
        """The logs of a task's processes, or of sources' relays, or the daemon's own."""
        home = self._supervisor.home
        task, sources = asked.task, asked.source

        def look() -> list[str]:
            supervisor = self._supervisor
            for source in sources:
                supervisor.source(source)
            if not task:
                return [f"relay:{source}" for source in sources]
            if not is_task_name(task):
                raise DMError("task-unknown", task=task)
            known = supervisor.tasks.get(task)
            there = list(known.jobs) if known is not None else list(supervisor.sources)
            names = [f"spark:{task}", *(f"sync:{task}:{source}" for source in sources or there)]
            if known is None:  # a task that was stopped is not known any more, but what it wrote is there
                names = [name for name in names if home.log_of(name).exists()]
            if not names:
                raise DMError("task-unknown", task=task)
            return names

        names = self._loop.call(look)
        files: list[JSON] = [{"process": name, "path": str(home.log_of(name))} for name in names]
        if not files:
            files = [{"process": "dm-worker", "path": str(home.daemon_log)}]
        return {"files": files}
