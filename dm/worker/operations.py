"""The verbs of tasks, and the way to all others; called from the API's threads.

Each goes from its arguments to DM's JSON answer. What can be slow (reading files, talking to servers) happens on the
caller's thread; what changes state happens on the loop's. A verb that changes something answers when the change is on
disk, and, for pause and stop, when the units rest.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

import structlog

from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.position import TimePlace
from dm.progress.tables import share_name
from dm.relaylog.hold import Hold, forget_others
from dm.syncer.stream.until import Until
from dm.task.final_place import FinalPlace
from dm.task.join_requests import JoinRequests
from dm.task.payload import validator_hold
from dm.task.precheck.result import CheckResult, of_no_task, summary
from dm.task.shard_locks import ShardLocks
from dm.task.start_time import StartTime, before_all_binlogs
from dm.task.stored_progress import StoredProgress
from dm.task.subtask import UNITS_OF_MODE
from dm.task.until import AskedEnd, is_time
from dm.task.validation import Validations
from dm.unit import JSON
from dm.worker.binlog_verbs import BinlogVerbs, ProgressAtTarget
from dm.worker.config_verbs import ConfigVerbs
from dm.worker.configuration import ConfigReader, sources_of, syncs
from dm.worker.differences import differences
from dm.worker.directory import directories
from dm.worker.errand_verbs import ErrandVerbs
from dm.worker.errands import Errands
from dm.worker.forgotten_verbs import ForgottenVerbs, Removal
from dm.worker.job import Job
from dm.worker.join_verbs import JoinVerbs
from dm.worker.known import Source, Task
from dm.worker.loop import Loop
from dm.worker.obstacles import held_up, resting_relay
from dm.worker.query_status import all_tasks, task_status
from dm.worker.registry import ConfigFile, SubtaskRecord
from dm.worker.relay_verbs import RelayVerbs
from dm.worker.replay_verbs import ReplayVerbs
from dm.worker.shard_verbs import ShardVerbs
from dm.worker.silent_target import unanswered
from dm.worker.source_verbs import SourceVerbs
from dm.worker.spark_ahead import spark_ahead
from dm.worker.supervisor import Supervisor
from dm.worker.update_verbs import UpdateVerbs
from dm.worker.validation_verbs import ValidationVerbs

FRESH_SECONDS = 5.0  # as long as DM waits for a source
REST_SECONDS = 20.0  # longer than a host that does not come to rest is left alive
BEGIN_SECONDS = 30.0  # longer than a server that says nothing goes unnoticed

Answer = dict[str, JSON]
C = TypeVar("C")


class Check(Protocol):
    """The prechecks."""

    def __call__(
        self,
        config: TaskConfig,
        sources: Sequence[str],
        /,
        *,
        anew: bool = False,
        at_time: bool = False,
        work: Path | None = None,
        relays: Mapping[str, Path] | None = None,
    ) -> list[CheckResult]:
        """Everything found about a task on these sources, to go on, to begin anew, or at a time."""
        ...


@dataclass(frozen=True, slots=True)
class Servers:
    """What the verbs ask of database servers."""

    verify_source: Callable[[SourceConfig], list[str]]  # gives warnings; raises when the file can't be right
    check: Check
    forget_progress: Callable[[SubtaskConfig, Path], None]  # in the target, and in the work directory
    place_of: Callable[[SubtaskConfig, StartTime, Path], TimePlace]  # in the relay's files or at the source
    begin_at: Callable[[SubtaskConfig, TimePlace], list[str]]  # makes it the checkpoint; gives warnings
    until_of: Callable[[SubtaskConfig, AskedEnd, Path], Until]  # where it is to end; raises when it has come further
    final_place: Callable[[SubtaskConfig], FinalPlace]  # where a subtask that was stopped is
    progress: ProgressAtTarget
    demand_readable: Callable[[SubtaskConfig], None]  # raises when the source lacks what the task has yet to apply
    hold_place: Callable[[SubtaskConfig, Path, Path], None]  # of relay files; before the relay may leave them behind
    locks: ShardLocks = field(default_factory=ShardLocks)
    validations: Validations = field(default_factory=Validations)
    joins: JoinRequests = field(default_factory=JoinRequests)
    stored: StoredProgress = field(default_factory=StoredProgress)


class Operations:
    """The verbs of tasks, with those of sources, relays, single events, the configuration and comparisons."""

    def __init__(self, loop: Loop, supervisor: Supervisor, servers: Servers) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._servers = servers
        self._read = ConfigReader(supervisor.home.secret_key)
        self._starting: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # by task
        self.sources = SourceVerbs(loop, supervisor, self._read, servers.verify_source)
        self.relays = RelayVerbs(loop, supervisor, servers.demand_readable)
        self.binlog = BinlogVerbs(loop, supervisor, servers.progress)
        self.config = ConfigVerbs(loop, supervisor)
        self.shards = ShardVerbs(loop, supervisor, servers.locks)
        self.validation = ValidationVerbs(loop, supervisor, servers.validations, servers.joins)
        self.joins = JoinVerbs(loop, supervisor, servers.joins)
        self.updates = UpdateVerbs(loop, supervisor, servers.joins, self)
        errands = Errands(loop, supervisor.home.log_of)
        self.errands = ErrandVerbs(loop, supervisor, errands, self.parse_task)
        self.replays = ReplayVerbs(loop, supervisor, errands)
        removal = Removal(servers.forget_progress, servers.stored)
        self.forgotten = ForgottenVerbs(loop, supervisor, self._read, removal, errands.busy)

    def take_up(self) -> None:
        """Bring back what the registry holds, each subtask as it is wanted."""
        self.config.take_up()
        supervisor = self._supervisor
        registry = supervisor.registry
        sources = {
            name: Source(
                record.file, _or_error(self._read.source, record.file), record.relay_asked, record.relay_intent
            )
            for name, record in registry.sources().items()
        }
        configs = {name: source.config for name, source in sources.items() if isinstance(source.config, SourceConfig)}
        tasks = {
            name: Task(file, _or_error(lambda one: self._read.task(one, configs)[0], file))
            for name, file in registry.tasks().items()
        }
        records = registry.subtasks()
        validated = frozenset(registry.validators())
        self._restore_holds(sources, tasks, records, validated)

        def add() -> None:
            for name, source in sources.items():
                supervisor.add_source(name, source)
            for name, task in tasks.items():
                supervisor.add_task(name, task, {one: seen for (of, one), seen in records.items() if of == name})

        self._loop.call(add)

    def _restore_holds(
        self,
        sources: Mapping[str, Source],
        tasks: Mapping[str, Task],
        records: Mapping[tuple[str, str], SubtaskRecord],
        validated: frozenset[tuple[str, str]],
    ) -> None:
        """Before a relay runs: every task holds its files, and no task that is gone does."""
        for name, source in sources.items():
            directory = self._supervisor.relay_directory(name, source)
            there = frozenset(task for task, of in records if of == name and syncs(tasks[task].config))
            validating = frozenset(validator_hold(task) for task, of in validated if of == name)
            try:
                forget_others(directory, there | validating | {share_name(task) for task in there})
                for task in there:
                    Hold(directory, task).create()
            except (DMError, OSError) as error:
                # Not the end of the daemon: whoever can't hold its files is not started, and says why.
                structlog.get_logger().warning("holds of relay files", source=name, error=str(error))

    def encrypt(self, text: str) -> Answer:
        """`encrypt`: the form in which files may hold a password."""
        return {"result": True, "msg": "", "cipherText": self._read.encrypted(text)}

    def check_task(self, file: ConfigFile, *, start_time: str | None = None) -> Answer:
        """`check-task`: the prechecks and, with a start time, where the task would begin; changes nothing."""
        config, warnings = self.parse_task(file)
        wanted = sources_of(config, ())
        when = None if start_time is None else StartTime.parse(start_time)
        results = self._check(config, wanted, at_time=when is not None)
        starts: dict[str, JSON] = {}
        if when is not None and all(result.state != "failure" for result in results):
            directories = self._loop.call(lambda: {name: self._supervisor.relay_directory(name) for name in wanted})
            for source in wanted:
                place = self._servers.place_of(config.subtask(source), when, directories[source])
                starts[source] = str(place.position)
                if not place.known:
                    warnings.append(before_all_binlogs(source, place.position))
        return {"result": True, "msg": "", **summary(results), "warnings": [*warnings], "startPositions": starts}

    def start_task(
        self,
        file: ConfigFile,
        sources: Sequence[str],
        *,
        remove_meta: bool,
        start_time: str | None = None,
        until: str | None = None,
    ) -> Answer:
        """`start-task`."""
        config, warnings = self.parse_task(file)
        wanted = sources_of(config, sources)
        when = None if start_time is None else StartTime.parse(start_time)
        if until is not None and len(wanted) > 1 and not is_time(until):
            raise DMError("until-of-several-sources", task=config.name, sources=", ".join(wanted))
        if when is not None and remove_meta and UNITS_OF_MODE[config.task_mode][0] != "Sync":
            raise DMError("start-time-with-load", task=config.name, source=", ".join(wanted))
        self._loop.call(lambda: self._may_start(file, config, wanted, remove_meta=remove_meta))
        with spark_ahead(self._loop, self._supervisor, config, wanted, anew=remove_meta):
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
        results = self._check(config, wanted, anew=remove_meta, at_time=when is not None)
        _demand_passed(config.name, results)

        def add() -> list[Job]:
            self._may_start(file, config, wanted, remove_meta=False)
            self._supervisor.registry.put_task(config.name, file, {source: ends.get(source) for source in wanted})
            for source in wanted if syncs(config) else ():  # it begins at a place of the source as it is now
                self._supervisor.relays.renew(source)
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

    def demand_checked(self, config: TaskConfig, sources: Sequence[str]) -> None:
        """The prechecks of a task on these sources; raises DMError."""
        _demand_passed(config.name, self._check(config, sources))

    def _check(
        self, config: TaskConfig, sources: Sequence[str], *, anew: bool = False, at_time: bool = False
    ) -> list[CheckResult]:
        """What servers say, and this machine's directories."""
        work = self._supervisor.home.work / config.name
        asked = _without_meta(config) if at_time else config
        relays = self._loop.call(lambda: {source: self._supervisor.relay_directory(source) for source in sources})
        may_read = self._supervisor.relays.may_read
        read = self._loop.call(lambda: {one: relays[one] for one in sources if may_read(one, config)})
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
        with self._starting[config.name]:
            supervisor = self._supervisor
            directories = self._loop.call(lambda: {source: supervisor.relay_directory(source) for source in sources})
            try:
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
        known = self._supervisor.tasks.get(config.name)
        if known is None:
            return
        taken = list(known.jobs) if remove_meta else [source for source in wanted if source in known.jobs]
        if taken:
            raise DMError("task-exists", task=config.name, sources=", ".join(taken))
        others = [source for source in known.jobs if source not in wanted]
        sources = self._supervisor.source_configs()
        differing = sorted({key for source in others for key in differences(known, file, config, source, sources)})
        if differing:
            raise DMError("task-differs", task=config.name, sources=", ".join(others), keys=", ".join(differing))

    def pause_task(self, name: str, sources: Sequence[str]) -> Answer:
        """`pause-task`: answers when the units rest."""
        jobs = self._operate(name, sources, lambda job: job.subtask.pause())
        self._until(name, jobs, "Paused", lambda job: job.subtask.stage != "Pausing")
        return self._done(name, jobs)

    def resume_task(self, name: str, sources: Sequence[str]) -> Answer:
        """`resume-task`: answers when the units work; a subtask that does not get so far is said with its error."""
        return self._begun(name, self._operate(name, sources, self._supervisor.resume_job))

    def stop_task(self, name: str, sources: Sequence[str], *, remove_meta: bool = False) -> Answer:
        """`stop-task`: answers when the units rest; progress stays in the target, or is removed on demand."""
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
            self.forgotten.forget(task.config, lines)
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

    def query_status(self, name: str | None, sources: Sequence[str]) -> Answer:
        """`query-status`."""
        if name is None:
            return self._loop.call(lambda: all_tasks(self._supervisor, sources))
        asked = self._loop.call(lambda: self._asked_for_status(name, sources))
        # In time or not: a source that does not answer must not keep the status of everything else from being shown.
        self._loop.wait_until(lambda: all(job.fresh(request) for job, request in asked), FRESH_SECONDS)
        requests = {job.source: request for job, request in asked if job.task is not None}
        return self.replays.told(
            name, self._loop.call(lambda: task_status(self._supervisor, name, list(sources), requests))
        )

    def _asked_for_status(self, name: str, sources: Sequence[str]) -> list[tuple[Job, int]]:
        """The runs of a task, and the relays that they read from: an outage that is over is not to be shown."""
        jobs = self._supervisor.jobs(name, sources)
        relays = [self._supervisor.sources[job.source].relay for job in jobs]
        return [(job, job.refresh()) for job in (*jobs, *relays) if job is not None]

    def processes(self) -> dict[str, int]:
        """The process ids of the unit hosts, by host name."""
        return self._loop.call(self._supervisor.hosts.processes)

    def task_name_of(self, file: ConfigFile) -> str:
        """The name in a task file, so that verbs take the file in place of the name."""
        return self.parse_task(file)[0].name

    def parse_task(self, file: ConfigFile) -> tuple[TaskConfig, list[str]]:
        """What a file says, and warnings; raises DMError."""
        known = self._loop.call(lambda: {name: source.config for name, source in self._supervisor.sources.items()})
        return self._read.task(
            file, {name: config for name, config in known.items() if isinstance(config, SourceConfig)}
        )

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
        return {"result": True, "msg": "", "taskName": name, "sources": lines}

    def _done(self, name: str, jobs: Sequence[Job]) -> Answer:
        def answer() -> list[JSON]:
            return [{"result": True, "msg": "", "source": job.source, "stage": job.subtask.stage} for job in jobs]

        return {"result": True, "msg": "", "taskName": name, "sources": self._loop.call(answer)}


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
        error, detail = relay.subtask.errors[0], (relay.subtask.result() or {}).get("detail", "")
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


def _or_error(parse: Callable[[ConfigFile], C], file: ConfigFile) -> C | DMError:
    try:
        return parse(file)
    except DMError as error:
        return error
