"""The verbs of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from dm.clock import SystemClock
from dm.config import SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.sourcelog.relaylog.hold import Hold
from dm.task.pace import change_pace
from dm.task.payload import validator_hold
from dm.task.precheck.context import CheckResult, of_no_task, summary
from dm.task.start_and_end import AskedEnd, StartTime, before_all_binlogs, is_time
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import JSON
from dm.verbs import tasks as declared
from dm.verbs.declaration import ConfigFile
from dm.worker.configuration import differences, directories, sources_of, syncs
from dm.worker.inventory import Task
from dm.worker.job import REST_SECONDS, Job
from dm.worker.query_status import held_up, resting_relay
from dm.worker.registry import SubtaskRecord
from dm.worker.starting import spark_ahead, unanswered
from dm.worker.verb_work import Answer, VerbWork, does
from dm.worker.verbs.forgotten import ForgottenVerbs

BEGIN_SECONDS = 30.0  # longer than a server that says nothing goes unnoticed


class TaskVerbs(VerbWork):
    """Check, start, stop, pause and resume."""

    @does(declared.CheckTask)
    def check_task(self, asked: declared.CheckTask) -> Answer:
        """The prechecks and, with a start time, where the task would begin; changes nothing."""
        config, warnings = self.parse_task(asked.file)
        wanted = sources_of(config, ())
        when = None if asked.start_time is None else StartTime.parse(asked.start_time)
        results = self._check(config, wanted, at_time=when is not None)
        starts: dict[str, JSON] = {}
        if when is not None and all(result.state != "failure" for result in results):
            directories = self._loop.call(lambda: {name: self._supervisor.relay_directory(name) for name in wanted})
            for source in wanted:
                place = self._servers.place_of(config.subtask(source), when, directories[source])
                starts[source] = str(place.position)
                if not place.known:
                    warnings.append(before_all_binlogs(source, place.position))
        return {**summary(results), "warnings": [*warnings], "startPositions": starts}

    @does(declared.StartTask)
    def start_task(self, asked: declared.StartTask) -> Answer:
        """It answers when the subtasks work, or have failed to."""
        file, remove_meta, until = asked.file, asked.remove_meta, asked.until
        config, warnings = self.parse_task(file)
        wanted = sources_of(config, asked.sources)
        when = None if asked.start_time is None else StartTime.parse(asked.start_time)
        if until is not None and len(wanted) > 1 and not is_time(until):
            raise DMError("until-of-several-sources", task=config.name, sources=", ".join(wanted))
        if when is not None and remove_meta and UNITS_OF_MODE[config.task_mode][0] != "Sync":
            raise DMError("start-time-with-load", task=config.name, source=", ".join(wanted))
        self._loop.call(lambda: self._may_start(file, config, wanted, remove_meta=remove_meta))
        with spark_ahead(self._loop, self._supervisor, config, wanted, anew=remove_meta):
            with self._exclusion.tasks(config.name):
                answer = self._start_task(file, config, wanted, when, until, remove_meta=remove_meta)
        answer["warnings"] = [*warnings, *cast("list[JSON]", answer["warnings"])]
        return answer

    def _start_task(
        self,
        file: ConfigFile,
        config: TaskConfig,
        wanted: Sequence[str],
        when: StartTime | None,
        until: str | None,
        *,
        remove_meta: bool,
    ) -> Answer:
        warnings, work = list[JSON](), self._supervisor.home.work / config.name
        if remove_meta:
            self._errands.demand_none(config.name)
        else:
            self._means.cut_overs.demand_not_held(config.name)
        results = self._check(config, wanted, anew=remove_meta, at_time=when is not None)
        _demand_passed(config.name, results)

        def add() -> list[Job]:
            self._may_start(file, config, wanted, remove_meta=False)
            if config.name not in self._supervisor.tasks:  # what `dmctl pace` set for an earlier one is over
                change_pace(work, config.pace, SystemClock(), run_time=False)
            self._supervisor.registry.put_task(config.name, file, {source: ends.get(source) for source in wanted})
            if syncs(config):  # where the task begins is a place of the source as it is now
                for source in wanted:
                    self._supervisor.renew_relay(source)
            records = {source: SubtaskRecord("running", "New", None, None, ends.get(source)) for source in wanted}
            self._supervisor.add_task(config.name, Task(file, config), records)
            return self._supervisor.jobs(config.name, wanted)

        with self._holding(config, wanted) as directories:
            subtasks = {source: config.subtask(source) for source in wanted}
            starts = {} if when is None else {
                source: self._servers.place_of(subtask, when, directories[source])
                for source, subtask in subtasks.items()
            }  # fmt: skip
            ends = {} if until is None else {
                source: self._servers.until_of(
                    subtask,
                    AskedEnd(until, starts[source].position if source in starts else None, remove_meta),
                    directories[source],
                )
                for source, subtask in subtasks.items()
            }  # fmt: skip
            followed = subtasks if syncs(config) else {}
            sole, needed = self._servers.progress.demand_sole_run, remove_meta or when is not None
            silent = unanswered(sole, followed, needed=needed)  # a run of another daemon and one here end each other
            warnings += silent.values()
            if remove_meta:
                for subtask in subtasks.values():
                    self._servers.forget_progress(subtask, work)
                self._means.cut_overs.forget(config.name)  # its row is gone
                for source in wanted:
                    Hold(directories[source], validator_hold(config.name)).remove()
            for source, start in starts.items():
                warnings += self._servers.begin_at(subtasks[source], start)
                self._servers.validations.forget(subtasks[source])
            for source in followed.keys() - silent.keys():
                self._servers.hold_place(subtasks[source], work, directories[source])
            jobs = self._loop.call(add)
        return {
            **self._begun(config.name, jobs),
            "checkResult": summary(results), "warnings": [*warnings],
            "startPositions": {source: str(start.position) for source, start in starts.items()},
        }  # fmt: skip

    def demand_checked(self, config: TaskConfig, sources: Sequence[str]) -> Mapping[str, JSON]:
        """The prechecks of a task on these sources, with what they warn of; raises DMError."""
        results = self._check(config, sources)
        _demand_passed(config.name, results)
        return summary(results)

    def _check(
        self, config: TaskConfig, sources: Sequence[str], *, anew: bool = False, at_time: bool = False
    ) -> list[CheckResult]:
        """What servers say, and this machine's directories."""
        work = self._supervisor.home.work / config.name
        asked = _without_meta(config) if at_time else config
        relays = self._loop.call(lambda: {source: self._supervisor.relay_directory(source) for source in sources})
        reads = self._loop.call(lambda: {source: self._supervisor.may_read_relay(source, config) for source in sources})
        read = {source: relay for source, relay in relays.items() if reads[source]}
        results = self._servers.check(asked, sources, anew=anew, at_time=at_time, work=work, relays=read)
        first = None if anew else self._supervisor.first_unit
        for source in sources:
            results += directories(config.subtask(source), work, relays[source], first)
        there = self._loop.call(lambda: config.name in self._supervisor.tasks)
        return results if there else [of_no_task(result) for result in results]

    @contextmanager
    def _holding(self, config: TaskConfig, sources: Sequence[str]) -> Iterator[Mapping[str, Path]]:
        """Hold the sources' relay files for a task that is about to be there; gives their directories.

        From here on no purge takes a file away that the task may begin with. Without the task nothing is held.
        """
        supervisor = self._supervisor

        def look() -> dict[str, Path]:
            self._demand_sources(config, sources)
            return {source: supervisor.relay_directory(source) for source in sources}

        directories = dict[str, Path]()
        try:
            with self._exclusion.sources:  # no hold is made in a directory that a source leaves behind
                directories = self._loop.call(look)
                if syncs(config):
                    for directory in directories.values():
                        Hold(directory, config.name).create()
            yield directories
        except BaseException:
            self._loop.call(lambda: self._let_go(config.name, directories))
            raise

    def _let_go(self, task: str, directories: Mapping[str, Path]) -> None:
        known = self._supervisor.tasks.get(task)
        for source, directory in directories.items():
            if known is None or source not in known.jobs:
                Hold(directory, task).remove()

    def _may_start(self, file: ConfigFile, config: TaskConfig, wanted: Sequence[str], *, remove_meta: bool) -> None:
        self._demand_sources(config, wanted)
        known, subtasks = self._known(config.name)
        if known is None:
            return
        taken = subtasks if remove_meta else [source for source in wanted if source in subtasks]
        if taken:
            raise DMError("task-exists", task=config.name, sources=", ".join(taken))
        others = [source for source in subtasks if source not in wanted]
        sources = self._supervisor.source_configs()
        differing = sorted({key for source in others for key in differences(known, file, config, source, sources)})
        if differing:
            raise DMError("task-differs", task=config.name, sources=", ".join(others), keys=", ".join(differing))

    def _known(self, name: str) -> tuple[Task | None, list[str]]:
        """The task of this name with its sources, here or at other hosts; on the loop's thread."""
        known, registry = self._supervisor.tasks.get(name), self._supervisor.registry
        elsewhere = [source for task, source in registry.subtasks() if task == name]
        subtasks = list(dict.fromkeys([*([] if known is None else known.jobs), *elsewhere]))
        if known is None and subtasks:
            file = registry.tasks()[name]
            known = Task(file, self._read.task(file, self._supervisor.source_configs())[0])
        return known, subtasks

    def _demand_sources(self, config: TaskConfig, sources: Sequence[str]) -> None:
        """Raise DMError where a source is not the one that the task's file was read with, or has gone elsewhere."""
        for source in sources:
            there = self._supervisor.source(source)
            if not there.here:
                raise DMError("source-without-owner", sources=source)
            if there.config != config.subtask(source).source:
                raise DMError("source-changed", source=source, task=config.name)

    @does(declared.PauseTask)
    def pause_task(self, asked: declared.PauseTask) -> Answer:
        """It answers when the units rest."""
        name = asked.task
        jobs = self._operate(name, asked.sources, lambda job: job.subtask.pause())
        self._until(name, jobs, "Paused", lambda job: job.subtask.stage != "Pausing")
        return self._done(name, jobs)

    @does(declared.ResumeTask)
    def resume_task(self, asked: declared.ResumeTask) -> Answer:
        """It answers when the units work; a subtask that does not get so far is said with its error."""
        self._means.cut_overs.demand_not_held(asked.task)
        return self._begun(asked.task, self._operate(asked.task, asked.sources, self._supervisor.resume_job))

    @does(declared.StopTask)
    def stop_task(self, asked: declared.StopTask) -> Answer:
        """It answers when the units rest; progress stays in the target, or is removed on demand."""
        name, sources, remove_meta = asked.task, asked.sources, asked.remove_meta
        self._means.cut_overs.demand_at_rest(name)
        task = self._loop.call(lambda: self._supervisor.task(name))
        if remove_meta and isinstance(task.config, DMError):
            raise task.config
        configs = self._loop.call(lambda: self._subtask_configs(name, sources))
        jobs = self._operate(name, sources, self._supervisor.stop_job)
        self._until(name, jobs, "Stopped", lambda job: job.subtask.stage == "Stopped")
        self._loop.call(self._supervisor.forget_stopped)
        answer = self._done(name, jobs)
        lines = cast("list[dict[str, JSON]]", answer["sources"])
        for job, line in zip(jobs, lines, strict=True):
            if job.source in configs:
                line.update(self._final_place(job, configs[job.source]))
        if remove_meta and isinstance(task.config, TaskConfig):
            ForgottenVerbs(self._means).forget(task.config, lines)  # unless it has been started again
        return answer

    def _subtask_configs(self, name: str, sources: Sequence[str]) -> dict[str, SubtaskConfig]:
        """Those that have a place in the binlog."""
        config = self._supervisor.task(name).config
        if isinstance(config, DMError) or not syncs(config):
            return {}
        known = self._supervisor.source_configs()
        jobs = self._supervisor.jobs(name, sources)
        return {job.source: config.subtask(job.source, known) for job in jobs if job.source in known}

    def _final_place(self, job: Job, config: SubtaskConfig) -> dict[str, JSON]:
        """As the target has it; where it can't be asked, as the unit said last."""
        try:
            return self._servers.final_place(config).to_json()
        except DMError as error:
            said = {key: job.status.get(key, "") for key in ("syncerBinlog", "syncerBinlogGtid")}
            return {**said, "placeProblem": str(error)}

    @does(declared.NameOfTask)
    def name_of_task(self, asked: declared.NameOfTask) -> Answer:
        """So that verbs take a file in place of the name."""
        return {"taskName": self.parse_task(asked.file)[0].name}

    def _operate(self, name: str, sources: Sequence[str], verb: Callable[[Job], None]) -> list[Job]:
        def operate() -> list[Job]:
            jobs = self._supervisor.jobs(name, sources)
            refused: list[DMError] = []
            done = 0
            for job in jobs:
                try:
                    verb(job)
                    done += 1
                except DMError as error:
                    if error.name != "stage-mismatch":
                        raise
                    refused.append(error)
            if not done:
                raise refused[0]
            return jobs

        return self._loop.call(operate)

    def _until(self, name: str, jobs: Sequence[Job], stage: str, holds: Callable[[Job], bool]) -> None:
        if not self._loop.wait_until(lambda: all(holds(job) for job in jobs), REST_SECONDS):
            raise DMError("task-busy", task=name, stage=stage, seconds=REST_SECONDS)

    def _begun(self, name: str, jobs: Sequence[Job]) -> Answer:
        """The answer of a verb that sets subtasks to work, once they do, or have failed to."""
        supervisor = self._supervisor
        self._loop.wait_until(lambda: all(not job.beginning or held_up(supervisor, job) for job in jobs), BEGIN_SECONDS)

        def line(job: Job) -> JSON:
            supervisor.launch_if_ready(job)  # says why it waits, as of now
            return _set_to_work(job, resting_relay(supervisor, job))

        lines = self._loop.call(lambda: [line(job) for job in jobs])
        return {"taskName": name, "sources": lines}

    def _done(self, name: str, jobs: Sequence[Job]) -> Answer:
        def answer() -> list[JSON]:
            return [{"result": True, "msg": "", "source": job.source, "stage": job.subtask.stage} for job in jobs]

        return {"taskName": name, "sources": self._loop.call(answer)}


def _demand_passed(task: str, results: Sequence[CheckResult]) -> None:
    failed = [result for result in results if result.state == "failure"]
    if failed:
        items = "; ".join(f"{result.item} of {result.subject}: {result.message}" for result in failed)
        raise PrecheckFailed(task, items, summary(results))


class PrecheckFailed(DMError):
    """The error of a task whose precheck failed, with all results."""

    def __init__(self, task: str, items: str, results: Mapping[str, JSON]) -> None:
        super().__init__("precheck-failed", task=task, items=items)
        self.results = results


def _set_to_work(job: Job, relay: Job | None) -> JSON:
    """How a subtask that was set to work is, with the error that keeps it, or the relay that it reads, from working."""
    subtask = job.subtask
    line: dict[str, JSON] = {"result": True, "msg": "", "source": job.source, "stage": subtask.stage}
    if relay is not None and relay.subtask.errors:
        error = relay.subtask.errors[0]
        # The way out of the error alone leads nowhere: nobody but a person resumes a relay that rests.
        again = f"the relay that it reads rests; when its error is put right: `dmctl resume-relay -s {job.source}`"
        detail = (relay.subtask.result() or {}).get("detail") or again
        msg = f"the relay that it reads is paused by an error: {error['Message']}"
        return {**line, "result": False, "msg": msg, "error": cast("JSON", error), "detail": detail}
    if subtask.stage in ("Running", "Finished"):
        return {**line, "detail": subtask.detail if job.waiting is not None else ""}
    result = subtask.result() or {}
    errors = subtask.errors
    line |= {"result": False, "detail": result.get("detail", "")}
    if not errors:  # a person has paused or stopped it meanwhile
        return {**line, "msg": f"{subtask.label} was brought to rest meanwhile"}
    return {**line, "msg": errors[0]["Message"], "error": cast("JSON", errors[0])}


def _without_meta(config: TaskConfig) -> TaskConfig:
    """The task as it starts at a time: nothing is to be said of the place that its file names."""
    instances = tuple(instance.model_copy(update={"meta": None}) for instance in config.mysql_instances)
    return config.model_copy(update={"mysql_instances": instances})
