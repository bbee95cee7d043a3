"""The task in the other direction of a cut-over: checked, started before the switch, taken away by an abort.

It is a task as any other: made by the verbs that a person would use, so their checks hold, and `config` and
`query-status` show it. Each step can be repeated: a source or task that is there is not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from dm.config import SubtaskConfig, TaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.opposite import declare, opposite_of
from dm.task.foreign_transactions import foreign_transactions
from dm.task.progress import key_of, stored_checkpoint
from dm.tools.cutover import source as at_source
from dm.tools.cutover.findings import Finding, findings_of_return, findings_of_way_back
from dm.tools.cutover.machine import OVER, CutOverState, NotYet, WayBackTask
from dm.tools.cutover.record import CutOverRow
from dm.tools.cutover.way_back import (
    TaskEnds,
    WayBackFiles,
    files,
    findings_of_kept,
    name_of,
    obstacles,
    source_of,
    with_opposite,
)
from dm.verbs.declaration import ConfigFile
from dm.verbs.sources import CreateSources, StopSources
from dm.verbs.tasks import StartTask, StopTask
from dm.worker.hosts import sync_host
from dm.worker.task_jobs import TaskJobs
from dm.worker.verb_work import Means
from dm.worker.verbs.sources import SourceVerbs
from dm.worker.verbs.tasks import TaskVerbs


class WayBack:
    """The way back of one task. Raises DMError."""

    def __init__(self, means: Means, tasks: TaskVerbs, task: str) -> None:
        self._means = means
        self._tasks = tasks
        self._sources = SourceVerbs(means)
        self._task = task
        self._ready = False  # nothing is left but to wait for it

    def named(self) -> WayBackTask:
        """What it will be called, where it is made."""
        subtask = self._known()[2]
        return WayBackTask(name_of(subtask), source_of(subtask))

    def host_of(self, way_back: WayBackTask) -> str:
        """The process of its syncer."""
        if way_back.source:
            return sync_host(way_back.task, way_back.source)
        (source,) = self._means.loop.call(lambda: [*self._means.supervisor.task(way_back.task).jobs])
        return sync_host(way_back.task, source)

    def findings(self, acts_twice: Collection[str] = ()) -> tuple[list[Finding], WayBackFiles | None]:
        """What is in the way of it, and its files where nothing keeps them from being made. Changes nothing."""
        file, config, subtask = self._known()
        ends = TaskEnds.of(subtask)
        found = obstacles(config, subtask, ends)
        if found or ends.start is None:
            return found, None
        try:
            made = files(config, subtask, file, ends, ends.start)
        except DMError as error:
            return [Finding("way back", error.message, error.workaround)], None
        found = [Finding("way back", remark, "", stops=False) for remark in made.remarks]
        found += self._there(made)
        back = self._parsed(made)
        for result in self._means.servers.check(back, [made.source_id]):
            if result.state == "failure" and result.item != "opposite":  # this task does not name it yet
                found.append(Finding(f"way back, {result.subject}", result.message, result.instruction))
        found += findings_of_way_back(subtask, ends.at_source, acts_twice)
        found += findings_of_return(back.subtask(made.source_id))
        return found, made

    def findings_of(self, kept: WayBackTask, acts_twice: Collection[str] = ()) -> list[Finding]:
        """The same of a task that is there and rests. A return is not held up by tables that have come since."""
        subtask = self._known()[2]
        try:
            back = self._subtask_of(kept.task)
            self._means.servers.demand_readable(back)
        except DMError as error:
            return [Finding("way back", error.message, error.workaround)]
        ends = TaskEnds.of(subtask)
        found = findings_of_kept(subtask, ends, back, stops=bool(kept.source))
        return found + findings_of_way_back(subtask, ends.at_source, acts_twice)

    def _there(self, made: WayBackFiles) -> list[Finding]:
        """What has these names already."""

        def look() -> tuple[bool, ConfigFile | None]:
            supervisor = self._means.supervisor
            source = supervisor.sources.get(made.source_id)
            return made.task_name in supervisor.tasks, None if source is None else source.file

        task, source = self._means.loop.call(look)
        found = []
        if task:
            says = f"a task {made.task_name} is there"
            found.append(Finding("way back", says, f"dmctl stop-task {made.task_name}, or --no-way-back"))
        if source is not None and source != made.source:
            says = f"a source {made.source_id} is there, with another file"
            found.append(Finding("way back", says, f"dmctl operate-source stop {made.source_id}, or --no-way-back"))
        return found

    def begin(self, found: CutOverState, demand_owned: Callable[[], None]) -> int:
        """Have it follow the target; gives how many transactions of others came to that since the fence."""
        assert found.way_back is not None
        back = found.way_back.task
        if not self._ready:  # applications wait: what is done is not done again with each look
            if found.way_back.kept:
                self._demand_nothing_acts(found.acts_twice)
                self._let_dm_write(found, demand_owned)
                self._jobs(back).go_on()
            else:
                self._make(found, demand_owned)
            self._ready = True
        for job in self._jobs(back).fresh():
            if job.subtask.errors:
                why = f"task {back} does not run: {job.subtask.errors[0]['Message']}"
                raise DMError("way-back-impossible", task=self._task, why=why)
            if job.subtask.stage != "Running" or job.status.get("synced") is not True:
                raise NotYet(f"task {back} does not follow the target yet")
        if found.since is None:
            return 0
        return foreign_transactions(self._subtask_of(back), Position.from_json(found.since), statements=False)[0]

    def _demand_nothing_acts(self, acts_twice: Collection[str]) -> None:
        """Raise DMError where triggers or events have come to the source since they were looked for."""
        subtask = self._known()[2]
        found = findings_of_way_back(subtask, at_source.wanted_tables(subtask), acts_twice)
        stops = [each for each in found if each.stops]
        if stops:
            why = "; ".join(f"{each.says} ({each.mend})" for each in stops)
            raise DMError("way-back-impossible", task=self._task, why=why)

    def _make(self, found: CutOverState, demand_owned: Callable[[], None]) -> None:
        file, config, subtask = self._known()
        self._demand_nothing_acts(found.acts_twice)
        made = files(config, subtask, file, TaskEnds.of(subtask), Position.from_json(found.start))
        self._name_opposite(made.task_name)
        self._let_dm_write(found, demand_owned)

        def known() -> tuple[bool, bool]:
            supervisor = self._means.supervisor
            return made.source_id in supervisor.sources, made.task_name in supervisor.tasks

        source, task = self._means.loop.call(known)
        if not source:
            self._sources.create(CreateSources(files=(made.source,)))
        if not task:
            self._tasks.start_task(StartTask(file=made.task, remove_meta=True))
        self._complete(made.task_name)  # a row of an earlier one may be there

    def _let_dm_write(self, found: CutOverState, demand_owned: Callable[[], None]) -> None:
        if not found.by_hook:  # else it is the hook's own business, who may write
            at_source.let_dm_write(self._known()[2], demand_owned)

    def _name_opposite(self, back: str) -> None:
        """In the file that the daemon keeps, and at the target, where the opposite's check looks for it."""
        file, config, subtask = self._known()
        named = with_opposite(file, config, back, self._read)
        if named != file:
            changed = self._read(named)

            def swap() -> None:
                self._means.supervisor.registry.update_task(self._task, named, keep=False)
                known = self._means.supervisor.task(self._task)
                known.file, known.config = named, changed

            self._means.loop.call(swap)
            subtask = self._known()[2]
        with TargetConnection(subtask.target) as connection:
            declare(connection, key_of(subtask), opposite_of(subtask))
            connection.commit()

    def _read(self, file: ConfigFile) -> TaskConfig:
        return self._means.reader.task(file, self._means.loop.call(self._means.supervisor.source_configs))[0]

    def demand_untouched(self) -> None:
        """Raise DMError where the source has, after what the task has applied, a transaction that is not of it."""
        subtask = self._known()[2]
        checkpoint = stored_checkpoint(subtask)
        assert checkpoint is not None  # the task rests on it
        number, first = foreign_transactions(subtask, checkpoint.position, statements=True)
        if number:
            how = f"source {subtask.source_id} has {number} transactions after the fence, the first with {first}"
            raise DMError("cut-over-fence-lost", how=how)

    def end(self, found: CutOverState) -> None:
        """An abort: what was made is taken away, what was there rests."""
        if found.way_back is None:
            return
        host, hosts = self.host_of(found.way_back), self._means.supervisor.hosts
        self._means.loop.call(lambda: hosts.spare(host))
        if found.start is None:
            return
        back, source = found.way_back.task, found.way_back.source
        if found.way_back.kept:
            self._jobs(back).rest()
            return
        self.stop(back, source)

    def stop(self, back: str, source: str) -> None:
        """Stop the task, and forget the source if nothing else uses it."""
        supervisor, loop = self._means.supervisor, self._means.loop
        if loop.call(lambda: back in supervisor.tasks):
            self._tasks.stop_task(StopTask(task=back))
        if source and loop.call(lambda: source in supervisor.sources and not supervisor.tasks_of(source)):
            self._sources.stop(StopSources(names=(), files=(), sources=(source,)))

    def complete_kept(self, found: CutOverState) -> None:
        """The cut-over before this one is over: its task is the way back now, and runs."""
        if found.way_back is None or not found.way_back.kept:
            return
        self._complete(found.way_back.task)
        self._means.cut_overs.forget(found.way_back.task)

    def _complete(self, task: str) -> None:
        row = CutOverRow(self._subtask_of(task))
        before = row.read()
        if before is not None and before.state not in OVER:
            epoch = row.take_over()
            assert epoch is not None
            row.write(epoch, replace(before, state="complete"))

    def _jobs(self, task: str) -> TaskJobs:
        return TaskJobs(self._means, task)

    def _parsed(self, made: WayBackFiles) -> TaskConfig:
        source = self._means.reader.source(made.source)
        return self._means.reader.task(made.task, {made.source_id: source})[0]

    def _known(self) -> tuple[ConfigFile, TaskConfig, SubtaskConfig]:
        """Of the task itself."""

        def look() -> tuple[ConfigFile, TaskConfig, SubtaskConfig]:
            task = self._means.supervisor.task(self._task)
            if isinstance(task.config, DMError):
                raise task.config
            known = self._means.supervisor.source_configs()
            return task.file, task.config, task.config.subtask(task.config.source_ids[0], known)

        return self._means.loop.call(look)

    def _subtask_of(self, task: str) -> SubtaskConfig:
        supervisor = self._means.supervisor

        def look() -> SubtaskConfig:
            (source,) = supervisor.task(task).jobs
            return supervisor.subtask_config(task, source)

        return self._means.loop.call(look)
