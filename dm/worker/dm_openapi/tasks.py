"""DM's OpenAPI: tasks are created, started, stopped, updated and deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, cast

from fastapi import Query

from dm.config import TaskConfig
from dm.config.secret import MASK
from dm.errors import DMError
from dm.task.start_and_end import StartTime
from dm.unit import JSON
from dm.verbs.declaration import CHANGES, OPERATES, READS, ConfigFile, Verb
from dm.verbs.status import QueryStatus
from dm.verbs.tasks import CheckTask, PauseTask, ResumeTask, StartTask, StopTask
from dm.verbs.updates import UpdateTask
from dm.worker.configuration import sources_of
from dm.worker.dm_openapi.operation import OpenAPIRequests, operation
from dm.worker.dm_openapi.source_file import with_secrets
from dm.worker.dm_openapi.sources import error_texts
from dm.worker.dm_openapi.task_file import ShapedTask, invalid, task_as_file, task_as_shape
from dm.worker.dm_openapi.task_shapes import (
    ConverterRequest,
    ConverterResponse,
    DMSyncStatus,
    DMTask,
    DumpStatus,
    LoadStatus,
    ShardingGroup,
    StartTaskRequest,
    StopTaskRequest,
    SubTaskStatus,
    TaskAndCheck,
    TaskList,
    TaskRequest,
    TaskStage,
    TaskStatusList,
)
from dm.worker.verb_work import Exclusion, Means, Work
from dm.worker.verbs.forgotten import ForgottenVerbs
from dm.worker.verbs.tasks import PrecheckFailed

SourceNameList = Annotated[list[str] | None, Query()]

UNKNOWN_LAG: Final = -1
"""Seconds behind the source that nobody knows; 0 would say that it has caught up."""


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task that was created: by its file, and the stages of the sources on which it was started."""

    file: ConfigFile
    config: TaskConfig | DMError
    stages: Mapping[str, str]

    @property
    def understood(self) -> TaskConfig:
        """Its file; raises DMError where it can't be understood any more."""
        if isinstance(self.config, DMError):
            raise self.config
        return self.config

    @property
    def sources(self) -> list[str]:
        """All of it, started or not."""
        return [*self.stages] if isinstance(self.config, DMError) else [*self.config.source_ids]


def _unmasked(task: DMTask) -> DMTask:
    """A task that an answer has told, to be turned into a file: the password is not in it."""
    if task.target_config.password != MASK:
        return task
    return task.model_copy(update={"target_config": task.target_config.model_copy(update={"password": ""})})


def without_secrets(task: DMTask) -> DMTask:
    """As an answer has it."""
    target = task.target_config.model_copy(update={"password": MASK, "security": None})
    return task.model_copy(update={"target_config": target})


class TaskRequests(OpenAPIRequests):
    """Tasks. One request for a task comes after the other, so none sees what another has half done."""

    tag = "task"

    def __init__(self, means: Means, work: Mapping[type[Verb], Work]) -> None:
        super().__init__(means, work)
        self._forgotten = ForgottenVerbs(means)
        self._one_by_one = Exclusion()

    @operation("POST tasks", CHANGES, TaskAndCheck, status=201)
    def create_task(self, body: TaskRequest) -> TaskAndCheck:
        """Check a task and keep it; it is started by a request of its own."""
        with self._one_by_one.tasks(body.task.name):
            if body.task.name in self._names():
                sources = ", ".join(self._known(body.task.name).sources)
                raise DMError("task-exists", task=body.task.name, sources=sources)
            file = self._file(f"task {body.task.name}", task_as_file(body.task))
            checked = self._checked(file)
            self._registry.put_prepared_task(body.task.name, file)
            return self._operated(body.task.name, checked)

    @operation("GET tasks", READS, TaskList)
    def get_task_list(
        self, with_status: bool = False, stage: TaskStage | None = None, source_name_list: SourceNameList = None
    ) -> TaskList:
        """List the tasks: those of one stage, those on exactly these sources."""
        found, problems = list[DMTask](), list[str]()
        for name in sorted(self._names()):
            known = self._known(name)
            if isinstance(known.config, DMError):
                problems.append(f"{name}: {known.config}")
                continue
            if source_name_list is not None and {*source_name_list} != {*known.sources}:
                continue
            statuses = self._statuses(name, known, ()) if with_status or stage is not None else []
            if stage is None or all(each.stage == stage for each in statuses):
                found.append(self._told(name, known, statuses if with_status else None))
        return TaskList(total=len(found), data=found, not_understood=problems or None)

    @operation("GET tasks/{task_name}", READS, DMTask, missing="task-unknown")
    def get_task(self, task_name: str, with_status: bool = False) -> DMTask:
        """Show a task."""
        known = self._known(task_name)
        return self._told(task_name, known, self._statuses(task_name, known, ()) if with_status else None)

    @operation("GET tasks/{task_name}/status", READS, TaskStatusList)
    def get_task_status(self, task_name: str, source_name_list: SourceNameList = None) -> TaskStatusList:
        """Tell how a task is, by source."""
        known = self._known(task_name)
        data = self._statuses(task_name, known, source_name_list or ())
        return TaskStatusList(total=len(data), data=data)

    @operation("PUT tasks/{task_name}", CHANGES, TaskAndCheck)
    def update_task(self, task_name: str, body: TaskRequest) -> TaskAndCheck:
        """Give a task that is not started any other file; one that follows its sources what `update-task` allows."""
        if body.task.name != task_name:
            raise invalid(f"the path names task {task_name}, the body {body.task.name}", "give one name")
        with self._one_by_one.tasks(task_name):
            known = self._known(task_name)
            told = self._demand_told(task_name, known)
            target = with_secrets(body.task.target_config, told.target_config)
            task = body.task.model_copy(update={"target_config": target})
            file = self._file(f"task {task_name}", task_as_file(task))
            if known.stages:
                self._do(UpdateTask(task="", file=file, look=False))
                return self._operated(task_name, "")
            checked = self._checked(file)
            self._registry.put_prepared_task(task_name, file)
            return self._operated(task_name, checked)

    @operation("DELETE tasks/{task_name}", CHANGES, status=204)
    def delete_task(self, task_name: str, force: bool = False) -> None:
        """Stop and forget a task, and remove its progress; one that runs only with `force`."""
        with self._one_by_one.tasks(task_name):
            known = self._known(task_name)
            running = [source for source, stage in known.stages.items() if stage not in ("Paused", "Finished")]
            if running and not force:
                problem = f"task {task_name} runs on {', '.join(running)}"
                raise invalid(problem, "stop it first, or delete it with `force=true`")
            config = known.config if force else known.understood
            lines: list[JSON] = []
            if known.stages:  # of a file that can't be understood any more nobody knows where its progress is
                remove_meta = isinstance(config, TaskConfig)
                lines = cast("list[JSON]", self._do(StopTask(task=task_name, remove_meta=remove_meta))["sources"])
            elif isinstance(config, TaskConfig):
                lines = [{"result": True, "source": source} for source in known.sources]
                self._forgotten.forget(config, cast("list[dict[str, JSON]]", lines))
            left = [str(line["msg"]) for line in cast("list[dict[str, JSON]]", lines) if not line["result"]]
            if left and not force:  # the task stays, so that its progress can be removed by the same request
                self._registry.put_prepared_task(task_name, known.file)
                raise invalid(f"the progress of task {task_name} stays: {'; '.join(left)}", "try again, or use `force`")
            self._registry.put_prepared_task(task_name, None)

    @operation("POST tasks/{task_name}/start", OPERATES)
    def start_task(self, task_name: str, body: StartTaskRequest | None = None) -> None:
        """Start a task, or let it go on."""
        said = body or StartTaskRequest()
        if said.safe_mode_time_duration:
            raise DMError(
                "openapi-without-field", what="`start`", keys="safe_mode_time_duration",
                instead="safe-mode-duration in `syncers` of the task file",
            )  # fmt: skip
        if said.start_time:
            StartTime.parse(said.start_time)  # before anything is stopped
        with self._one_by_one.tasks(task_name):
            known = self._known(task_name)
            wanted = sources_of(known.understood, said.source_name_list or ())
            if disabled := [source for source in wanted if source in self._registry.disabled_sources()]:
                raise DMError("source-disabled", source=disabled[0], task=task_name)
            if said.changes:
                self._begin_anew(task_name, known, wanted, said)
            resting = [source for source in wanted if known.stages.get(source) == "Paused" and not said.changes]
            new = [source for source in wanted if source not in known.stages or said.changes]
            if new:
                remove_meta, when = bool(said.remove_meta), said.start_time or None
                self._do(
                    StartTask(
                        file=known.file, sources=tuple(new), remove_meta=remove_meta, start_time=when, until=None
                    )
                )  # fmt: skip
                self._registry.put_prepared_task(task_name, None)
            if resting:
                self._do(ResumeTask(task=task_name, sources=tuple(resting)))

    def _begin_anew(self, name: str, known: KnownTask, wanted: Sequence[str], said: StartTaskRequest) -> None:
        """Forget the runs of a task that is to start without its progress, or at another place; its file stays."""
        there = [source for source in wanted if source in known.stages]
        running = [source for source in there if known.stages[source] not in ("Paused", "Finished")]
        if running:
            what = "without its progress" if said.remove_meta else "at another place"
            raise invalid(f"task {name} runs on {', '.join(running)}: it can't start {what}", "stop it first")
        if there:
            self._registry.put_prepared_task(name, known.file)  # before it is forgotten
            self._do(StopTask(task=name, sources=tuple(there), remove_meta=False))

    @operation("POST tasks/{task_name}/stop", OPERATES)
    def stop_task(self, task_name: str, body: StopTaskRequest | None = None) -> None:
        """Have a task rest until it is started again."""
        said = body or StopTaskRequest()
        if said.timeout_duration:
            raise DMError(
                "openapi-without-field", what="`stop`", keys="timeout_duration",
                instead=f"dmctl pause-task {task_name}",
            )  # fmt: skip
        with self._one_by_one.tasks(task_name):
            known = self._known(task_name)
            wanted = said.source_name_list or [*known.sources]
            if unknown := [source for source in wanted if source not in known.sources]:
                sources = ", ".join(known.sources)
                raise DMError("task-not-on-source", task=task_name, source=unknown[0], sources=sources)
            pausable = tuple(source for source in wanted if self._pausable(task_name, source))
            if pausable:
                self._do(PauseTask(task=task_name, sources=pausable))

    def _pausable(self, task: str, source: str) -> bool:
        """Whether it runs, or would go on by itself after an error."""

        stage, intent = self._wanted(task, source)
        return stage == "Running" or (stage == "Paused" and intent == "running")

    def _wanted(self, task: str, source: str) -> tuple[str, str]:
        """The stage, and what a person wants; empty where it was not started."""

        def look() -> tuple[str, str] | None:
            job = self._supervisor.task_job(task, source)
            return None if job is None else (job.subtask.stage, job.subtask.intent)

        here = self._loop.call(look)
        if here is not None:
            return here
        seen = self._stored(task).get(source)
        return ("", "") if seen is None else (seen.stage, seen.intent)

    @operation("POST tasks/converters", CHANGES, ConverterResponse, status=201)
    def convert_task(self, body: ConverterRequest) -> ConverterResponse:
        """Turn a task into a task file, or a task file into a task; nothing is kept."""
        if (body.task is None) == (body.task_config_file is None):
            raise invalid("one of `task` and `task_config_file` has to be given", "give the one that is to be turned")
        text = body.task_config_file if body.task is None else task_as_file(_unmasked(body.task))
        config = self._read.task(self._file("the task file", text or ""), self._sources())[0]
        told = task_as_shape(config, self._sources())
        _demand_all(f"task {config.name}", told, "dmctl start-task <file>")
        return ConverterResponse(task=without_secrets(told.task), task_config_file=text or "")

    # What is known of tasks.

    def _names(self) -> set[str]:
        here = self._loop.call(lambda: [*self._supervisor.tasks])
        elsewhere = [] if self._supervisor.alone else [task for task, _ in self._registry.subtasks()]
        return {*here, *elsewhere, *self._registry.prepared_tasks()}

    def _known(self, name: str) -> KnownTask:
        """The task of this name; raises DMError."""

        def look() -> KnownTask | None:
            task = self._supervisor.tasks.get(name)
            if task is None:
                return None
            return KnownTask(task.file, task.config, {one: job.subtask.stage for one, job in task.jobs.items()})

        known, stored = self._loop.call(look), self._stored(name)
        if known is not None:
            return replace(known, stages={**{source: seen.stage for source, seen in stored.items()}, **known.stages})
        file = (self._registry.tasks() if stored else self._registry.prepared_tasks()).get(name)
        if file is None:
            raise DMError("task-unknown", task=name)
        stages = {source: seen.stage for source, seen in stored.items()}
        try:
            return KnownTask(file, self._read.task(file, self._sources())[0], stages)
        except DMError as error:
            return KnownTask(file, error, stages)

    def all_told(self) -> Iterator[tuple[str, DMTask | DMError]]:
        """All tasks that the shape can say whole; of the others why not."""
        for name in sorted(self._names()):
            try:
                yield name, self._demand_told(name, self._known(name))
            except DMError as error:
                yield name, error

    def _demand_told(self, name: str, known: KnownTask) -> DMTask:
        told = task_as_shape(known.understood, self._sources())
        _demand_all(f"task {name}", told, "dmctl update-task <file>")
        return told.task

    def _told(self, name: str, known: KnownTask, statuses: list[SubTaskStatus] | None) -> DMTask:
        told = task_as_shape(known.understood, self._sources())
        shown: dict[str, Any] = {"status_list": statuses, "keys_without_field": [*told.keys] or None}
        return without_secrets(told.task).model_copy(update=shown)

    def _operated(self, name: str, checked: str) -> TaskAndCheck:
        task = self._told(name, self._known(name), None)
        return TaskAndCheck.model_validate(
            {**task.model_dump(by_alias=True, exclude_none=True), "task": task, "check_result": checked}
        )

    def _checked(self, file: ConfigFile) -> str:
        """What the prechecks say that is no obstacle, a line each; raises DMError for one that is."""
        answer = cast("dict[str, Any]", self._do(CheckTask(file=file, start_time=None)))
        if not answer["summary"]["passed"]:
            failed = [each for each in answer["results"] if each["state"] == "fail"]
            items = "; ".join(_said(each) for each in failed)
            name = self._read.task(file, None)[0].name
            raise PrecheckFailed(name, items, {"results": answer["results"], "summary": answer["summary"]})
        remarks = [_said(each) for each in answer["results"] if each["state"] != "success"]
        return "\n".join([*answer["warnings"], *remarks])

    def _statuses(self, name: str, known: KnownTask, sources: Sequence[str]) -> list[SubTaskStatus]:
        wanted = sources_of(known.config, sources) if isinstance(known.config, TaskConfig) else [*known.stages]
        running = tuple(source for source in wanted if source in known.stages)
        told = dict[str, SubTaskStatus]()
        if running:
            answer = self._do(QueryStatus(task=name, source=running))
            for line in cast("list[dict[str, Any]]", answer["sources"]):
                source = line["sourceStatus"]["source"]
                worker, stopped = line["sourceStatus"]["worker"], self._stopped(name, source)
                told[source] = _status_of(name, source, worker, line["subTaskStatus"][0], stopped=stopped)
        return [told[each] if each in told else _not_started(name, each, self._worker(each)) for each in wanted]

    def _stopped(self, task: str, source: str) -> bool:
        """Whether a person has had it rest."""
        return self._wanted(task, source) == ("Paused", "paused")


def _demand_all(what: str, told: ShapedTask, instead: str) -> None:
    if told.keys:
        raise DMError("openapi-without-field", what=what, keys=", ".join(told.keys), instead=instead)


def _said(result: Mapping[str, Any]) -> str:
    errors = "; ".join(str(each["short_error"]) for each in result["errors"])
    way_out = f" ({result['instruction']})" if result["instruction"] else ""
    return f"{result['name']} of {result['extra']}: {errors}{way_out}"


def _not_started(task: str, source: str, worker: str) -> SubTaskStatus:
    """Of one that was created only."""
    return SubTaskStatus(name=task, source_name=source, worker_name=worker, stage="Stopped", unit="InvalidUnit")


def _status_of(task: str, source: str, worker: str, said: Mapping[str, Any], *, stopped: bool) -> SubTaskStatus:
    """Of one that `query-status` tells of; `stopped`: a person has had it rest, which DM calls so."""
    return SubTaskStatus(
        name=task,
        source_name=source,
        worker_name=worker,
        stage="Stopped" if stopped else said["stage"],
        unit=said["unit"],
        unresolved_ddl_lock_id=said["unresolvedDDLLockID"],
        load_status=_load(said["load"]) if "load" in said else None,
        sync_status=_sync(said["sync"]) if "sync" in said else None,
        dump_status=_dump(said["dump"]) if "dump" in said else None,
        error_msg=error_texts(said["result"]),
    )


def _number(said: Mapping[str, Any], key: str) -> int:
    return int(float(said.get(key) or 0))


def _load(said: Mapping[str, Any]) -> LoadStatus:
    return LoadStatus(
        finished_bytes=_number(said, "finishedBytes"),
        total_bytes=_number(said, "totalBytes"),
        progress=str(said.get("progress", "")),
        meta_binlog=str(said.get("metaBinlog", "")),
        meta_binlog_gtid=str(said.get("metaBinlogGTID", "")),
    )


def _dump(said: Mapping[str, Any]) -> DumpStatus:
    return DumpStatus(
        total_tables=_number(said, "totalTables"),
        completed_tables=float(said.get("completedTables") or 0),
        finished_bytes=float(said.get("finishedBytes") or 0),
        finished_rows=float(said.get("finishedRows") or 0),
        estimate_total_rows=float(said.get("estimateTotalRows") or 0),
    )


def _sync(said: Mapping[str, Any]) -> DMSyncStatus:
    lag = said.get("secondsBehindMaster")
    return DMSyncStatus(
        total_events=_number(said, "totalEvents"),
        total_tps=_number(said, "totalTps"),
        recent_tps=_number(said, "recentTps"),
        master_binlog=str(said.get("masterBinlog", "")),
        master_binlog_gtid=str(said.get("masterBinlogGtid", "")),
        syncer_binlog=str(said.get("syncerBinlog", "")),
        syncer_binlog_gtid=str(said.get("syncerBinlogGtid", "")),
        blocking_ddls=[str(each) for each in said.get("blockingDDLs") or ()],
        unresolved_groups=[_group(each) for each in said.get("unresolvedGroups") or ()],
        synced=bool(said.get("synced")),
        binlog_type=str(said.get("binlogType", "")),
        seconds_behind_master=UNKNOWN_LAG if lag is None else int(float(lag)),
    )


def _group(said: Mapping[str, Any]) -> ShardingGroup:
    return ShardingGroup(
        target=str(said.get("target", "")),
        ddl_list=[str(each) for each in said.get("DDLs") or ()],
        first_location=str(said.get("firstLocation", said.get("firstPos", ""))),
        synced=[str(each) for each in said.get("synced") or ()],
        unsynced=[str(each) for each in said.get("unsynced") or ()],
    )
