"""`dmctl update-task`: a running task gets a longer list, sources, or settings that need nothing else.

A longer list is stored at the target first, then in the registry, then the stream begins anew: cut short anywhere, the
task goes on as before, or with the tables left out of its stream until they are loaded
(`dm.progress.joining.table_joining`). The file of before is kept for `--cancel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from dm.config import SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.ident import TableName
from dm.task.join_requests import Added
from dm.unit import JSON
from dm.verbs.declaration import ConfigFile
from dm.verbs.tasks import StartTask
from dm.verbs.updates import CancelUpdate, ReloadTable, UpdateTask
from dm.worker.configuration import differences
from dm.worker.inventory import Task
from dm.worker.job import REST_SECONDS, Job
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor
from dm.worker.verb_work import Answer, Means, VerbWork, does
from dm.worker.verbs.tasks import TaskVerbs

# They say how dump, load and stream work, never what is in the target in the end.
_TAKEN: Final = frozenset({"`mydumpers`", "`loaders`", "`spark`", "`ignore-checking-items`"})
# They decide which tables there are, and where they go: what is there already must stay as it is.
_LISTS: Final = frozenset({"`block-allow-list`", "`routes`"})


@dataclass(frozen=True, slots=True)
class Update:
    """What a file changes of a running task."""

    known: Task
    file: ConfigFile
    config: TaskConfig
    before: Mapping[str, SubtaskConfig]  # by source, as they run
    after: Mapping[str, SubtaskConfig]  # the same, as they are to run
    sources: tuple[str, ...]  # new ones
    taken: tuple[str, ...]  # keys
    added: Mapping[str, Added]  # by source

    def to_json(self) -> Answer:
        """As it is shown before it is done."""
        return {
            "taskName": self.config.name, "newSources": [*self.sources],
            "keys": [*self.taken],
            "tables": {source: [table.sql for table in added.tables] for source, added in self.added.items()},
            "filledTables": [*sorted({table.sql for added in self.added.values() for table in added.filled})],
            "changes": not self.is_known,
        }  # fmt: skip

    @property
    def is_known(self) -> bool:
        """Whether all of it is done, or under way."""
        return not (self.sources or self.taken or self.added) and self.file.text == self.known.file.text


class UpdateVerbs(VerbWork):
    """The verb."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._requests = means.servers.joins
        self._tasks = TaskVerbs(means)

    @does(UpdateTask)
    def update(self, asked: UpdateTask) -> Answer:
        """Tell what the file changes, and do it unless only that is asked; raises DMError where it can't be taken."""
        update = self._update(asked.file)
        if asked.look or update.is_known:
            return update.to_json()
        demand_unvalidated(self._loop, self._supervisor, update.config.name, update.added)
        # Tables that are added need what a full load needs.
        loading = update.config.model_copy(update={"task_mode": "all"}) if update.added else update.config
        checked = self._tasks.demand_checked(loading, [*update.after, *update.sources])
        for source, added in update.added.items():
            self._requests.add(update.before[source], added)
        self._loop.call(lambda: self._take(update))
        if update.sources:
            self._tasks.start_task(StartTask(file=asked.file, sources=update.sources))
        return {**update.to_json(), "checkResult": {**checked}}

    @does(CancelUpdate)
    def cancel(self, asked: CancelUpdate) -> Answer:
        """Take added tables back; raises DMError."""
        name = asked.task
        known, configs = follows_at_source(self._loop, self._supervisor, name)
        adding = self._requests.adding(configs)
        if not adding:
            raise DMError("joining-not-there", task=name)
        before = self._supervisor.registry.earlier_file(name)
        if before is None:
            raise DMError("update-file-unknown", task=name)
        config = self.parse_task(before)[0]
        with resting(self._loop, self._supervisor, name, adding):
            self._loop.call(lambda: self._swap(known, name, before, config, adding))
            done = [source for source in adding if self._requests.cancel_add(configs[source])]
        self._restart(name, adding)
        return {"taskName": name, "sources": [*done]}

    def _update(self, file: ConfigFile) -> Update:
        config = self.parse_task(file)[0]
        known, before = known_task(self._loop, self._supervisor, config.name)
        sources = tuple(source for source in config.source_ids if source not in before)
        if sources or file.text != known.file.text:  # else it is the same update once more
            _demand_following(self._loop, self._supervisor, config.name)
        there = self._loop.call(self._supervisor.source_configs)
        keys = sorted({key for source in before for key in differences(known, file, config, source, there)})
        refused = [key for key in keys if key not in _TAKEN | _LISTS | {"`syncers`"}]
        if "`syncers`" in keys and _other_rows(known, config):
            refused.append(
                "`syncers` (`atomic-transactions`, `conflicts`, `insert-mode`, `missing-row`, `narrower-columns`)"
            )
        if refused:
            raise DMError("update-refused", task=config.name, keys=", ".join(refused))
        after = {source: config.subtask(source, there) for source in before}
        added = dict[str, Added]()
        if _LISTS & {*keys}:
            for source, one in after.items():
                others = {name: other for name, other in after.items() if name != source}
                found = self._requests.added_tables(before[source], one, others)
                older = before[source].block_allow_list  # without one all tables are there
                if older not in (None, one.block_allow_list):
                    added[source] = found
        taken = tuple(key for key in keys if key != "`block-allow-list`")
        return Update(known, file, config, before, after, sources, taken, added)

    def _take(self, update: Update) -> None:
        """In the registry and here; the streams begin anew with it."""
        name = update.config.name
        self._supervisor.registry.update_task(name, update.file, keep=bool(update.added))
        update.known.file, update.known.config = update.file, update.config
        if update.added or update.sources or {"`syncers`", "`routes`"} & {*update.taken}:
            self._restart_jobs(name, update.before)

    def _swap(self, known: Task, name: str, file: ConfigFile, config: TaskConfig, sources: Iterable[str]) -> None:
        self._supervisor.registry.update_task(name, file, keep=False)
        known.file, known.config = file, config
        self._restart_jobs(name, sources)

    def _restart(self, name: str, sources: Iterable[str]) -> None:
        self._loop.call(lambda: self._restart_jobs(name, sources))

    def _restart_jobs(self, name: str, sources: Iterable[str]) -> None:
        for job in self._supervisor.jobs(name, [*sources]):
            job.subtask.restart()
            for join in self._supervisor.joins.of(name, job.source):  # they have the file of before
                join.subtask.restart()


def _other_rows(known: Task, config: TaskConfig) -> bool:
    """Whether settings of the stream differ that decide what is in the target."""
    if isinstance(known.config, DMError):
        return True

    def of(task: TaskConfig) -> set[tuple[object, ...]]:
        found = [task.syncer_of(instance) for instance in task.mysql_instances]
        return {
            (each.atomic_transactions, each.conflicts, each.insert_mode, each.missing_row, each.narrower_columns)
            for each in found
        }

    return of(known.config) != of(config)


def follows_at_source(loop: Loop, supervisor: Supervisor, name: str) -> tuple[Task, Mapping[str, SubtaskConfig]]:
    """A task and its subtasks by source, all of which follow their source; raises DMError where one does not."""
    _demand_following(loop, supervisor, name)
    return known_task(loop, supervisor, name)


def known_task(loop: Loop, supervisor: Supervisor, name: str) -> tuple[Task, Mapping[str, SubtaskConfig]]:
    """A task and its subtasks by source; raises DMError."""

    def read() -> tuple[Task, Mapping[str, SubtaskConfig]]:
        task = supervisor.task(name)
        if isinstance(task.config, DMError):
            raise task.config
        sources = supervisor.source_configs()
        return task, {source: task.config.subtask(source, sources) for source in task.jobs}

    return loop.call(read)


def _demand_following(loop: Loop, supervisor: Supervisor, name: str) -> None:
    def look() -> None:
        for source, job in supervisor.task(name).jobs.items():
            subtask = job.subtask
            ends = "" if job.until is None else f"it is to end at {job.until}"
            if subtask.unit != "Sync" or subtask.stage == "Finished" or ends:
                state = ends or f"{subtask.stage}, unit {subtask.unit}"
                raise DMError("joining-without-sync", task=name, source=source, state=state)

    loop.call(look)


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
        jobs = [job for source in sources for job in supervisor.joins.of(task, source)]
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
        begin_anew(self._loop, self._supervisor, task, [asked.source])
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
        begin_anew(self._loop, self._supervisor, task, list(taken))
        tables: list[JSON] = [table.sql for each in taken.values() for table in each.names]
        return {"task": task, "tables": tables}


def begin_anew(loop: Loop, supervisor: Supervisor, task: str, sources: list[str]) -> None:
    """The streams look what is asked of them; one that rests does when it is resumed."""

    def restart() -> None:
        for job in supervisor.jobs(task, sources):
            job.subtask.restart()

    loop.call(restart)
