"""The runs beside the units of tasks: validators, and loads of tables that join a stream.

A validator is a subtask of one unit, in a process of its own. It belongs to a task on a source and goes with it; a task
that rests lets it finish what there is. It begins when the task syncs, since before that nothing is applied that it
could look at.

Tables are loaded beside a task's stream (`dm.progress.joining.table_joining`) by one run per subtask at most, and each
branch that comes back (`dm.progress.joining.branches`) has a run. Nothing of this is in the registry: the row at the
target says what is to be done, the stream's status shows it, and so a daemon that is started anew, or another one,
takes it up. What a person wants of the subtask holds for its runs, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Protocol

import structlog

from dm.clock import Clock
from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.position import Position
from dm.sourcelog.relaylog.hold import Hold
from dm.task.payload import ValidatorPayload, validator_directory, validator_hold
from dm.task.subtask import VALIDATOR_UNITS, Subtask
from dm.unit import JSON, UnitName
from dm.worker.home import Home
from dm.worker.hosts import Hosts
from dm.worker.job import Job
from dm.worker.registry import Registry, ValidatorRecord


class Joins:
    """All of them, the share of a subtask and its branches; belongs to the loop's thread."""

    def __init__(self, make: Callable[[str, str, str], Job]) -> None:
        self._make = make
        self._all: dict[tuple[str, str, str], Job] = {}  # by task, source and number

    def jobs(self) -> Iterator[Job]:
        """Those that there are."""
        return iter(self._all.values())

    def of(self, task: str, source: str) -> list[Job]:
        """Those of a subtask."""
        return [job for key, job in self._all.items() if key[:2] == (task, source)]

    def tick(self, subtasks: Mapping[Key, Job]) -> None:
        """Start what the streams' status asks for, end what nobody wants, try again what rests on an error."""
        for key, job in list(self._all.items()):
            main = subtasks.get(key[:2])
            if job.subtask.stage == "Stopped":
                del self._all[key]
            elif main is None or _gives_up(main.subtask):
                job.subtask.stop()
            elif job.subtask.stage == "Finished" and (job.branch or key[2] not in _numbers(main)):
                del self._all[key]  # a branch that has come to rest may be released again under its number
            else:
                job.subtask.tick()
        for (task, source), main in subtasks.items():
            if main.subtask.stage != "Running":
                continue
            for number, branch in _numbers(main).items():
                if (task, source, number) not in self._all:
                    self._all[task, source, number] = job = self._make(task, source, number if branch else "")
                    job.subtask.start()

    def resume(self, task: str, source: str) -> bool:
        """Try again what rests on an error; whether there was something."""
        paused = [job for job in self.of(task, source) if job.subtask.stage == "Paused"]
        for job in paused:
            job.resume()
        return bool(paused)

    def report(self, main: Job) -> dict[str, JSON]:
        """What a subtask's status says of them; nothing where all tables are in its stream."""
        if main.task is None or main.subtask.unit != "Sync":
            return {}
        jobs = {job.branch: job for job in self.of(main.task, main.source)}
        report: dict[str, JSON] = {}
        said = main.status.get("joining")
        if isinstance(said, dict):
            report["joining"] = {**_without_number(said), **_of_job(jobs.get(""))}
        branches: list[JSON] = [
            {**_without_number(one), **_of_job(jobs.get(str(one["number"])))} for one in _branches(main)
        ]
        return {**report, "branches": branches} if branches else report


def _gives_up(main: Subtask) -> bool:
    """Whether nothing is to join a stream: a person wants it so, or another run has the task."""
    return main.intent == "paused" or main.stage in ("Stopping", "Stopped") or (main.stage == "Paused" and main.fenced)


def _without_number(said: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in said.items() if name != "number"}


def _of_job(job: Job | None) -> dict[str, JSON]:
    if job is None:
        return {}
    return {"stage": job.subtask.stage, "result": job.subtask.result(), **_progress(job.status)}


def _branches(main: Job) -> list[Mapping[str, JSON]]:
    said = main.status.get("branches")
    return [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []


def _numbers(main: Job) -> dict[str, bool]:
    """What is to have a run beside a stream, as its status says; of each whether it is a branch."""
    if main.subtask.unit != "Sync":
        return {}
    said = main.status.get("joining")
    share = {str(said["number"]): False} if isinstance(said, dict) else {}
    return share | {str(one["number"]): True for one in _branches(main) if one["phase"] not in AT_REST}


_SHOWN = ("unit", "waiting", "progress", "finishedRows", "estimateTotalRows", "etaSeconds", "syncerBinlog")


def _progress(status: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: status[name] for name in _SHOWN if name in status}


Mode = Literal["full", "fast"]
Key = tuple[str, str]  # task and source
AT_REST: Final = ("asked", "aside", "dropped")
"""Phases of a branch in which it has no run."""

WAITS = "waits until the task syncs"


class Tasks(Protocol):
    """What validators need of the supervisor."""

    home: Home
    registry: Registry
    hosts: Hosts
    clock: Clock

    def subtask_config(self, task: str, source: str, /) -> SubtaskConfig:
        """A task on a source; raises DMError."""

    def task_job(self, task: str, source: str, /) -> Job | None:
        """The subtask."""

    def relay_directory(self, name: str, /) -> Path:
        """Where a source's relay files are."""

    def relay_runs(self, source: str, /) -> bool:
        """Whether a relay pulls the source's binlog."""

    def renew_relay(self, name: str, /) -> None:
        """Have a relay connect anew."""

    def new_subtask(
        self, job: Job, label: str, units: tuple[UnitName, ...], config: SourceConfig | DMError, /
    ) -> Subtask:
        """With the source's rules for trying again."""

    def source_config(self, source: str, /) -> SourceConfig | DMError:
        """A source's file."""


@dataclass
class Validator:
    """One of them."""

    record: ValidatorRecord
    job: Job
    new_errors: JSON = None  # as a verb has read them at the target since its last run


class Validators:
    """All of them; on the loop's thread."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self.clock = tasks.clock
        self.hosts = tasks.hosts
        self._all: dict[Key, Validator] = {}
        self._ending: list[tuple[Job, Hold]] = []  # of tasks that are gone; they move their holds once more
        self._log = structlog.get_logger()

    # what there is

    def get(self, task: str, source: str) -> Validator | None:
        """The validator of a task on a source."""
        return self._all.get((task, source))

    def status(self, task: str, source: str) -> dict[str, JSON] | None:
        """DM's fields, as far as the run has said them; None where there is no validator."""
        found = self._all.get((task, source))
        if found is None:
            return None
        subtask = found.job.subtask
        waits = found.record.running and subtask.stage == "New"
        said = {name: value for name, value in found.job.status.items() if name != "mode"}
        if subtask.stage != "Running":
            said.pop("detail", None)  # it was about a run that is over
            if found.new_errors is not None:
                said["newErrors"] = found.new_errors
        return {
            "task": task,
            "source": source,
            "mode": found.record.mode,
            "stage": "Running" if subtask.stage == "Running" else "Stopped",
            "detail": WAITS if waits else "",
            **said,
            "result": subtask.result() if found.record.running else None,
        }

    def keep_count(self, task: str, source: str, new_errors: JSON) -> None:
        """How many errors there are that nobody has dealt with, of a validator that can't say it."""
        found = self._all.get((task, source))
        if found is not None and found.job.subtask.stage != "Running":
            found.new_errors = new_errors

    # what a person wants

    def add_task(self, task: str, config: TaskConfig | DMError, sources: Sequence[str]) -> None:
        """A task is there on these sources: with the validators that it had, or that its file asks for."""
        stored = self._tasks.registry.validators()
        for source in sources:
            record = stored.get((task, source))
            if record is None and isinstance(config, TaskConfig):
                mode = self._tasks.subtask_config(task, source).validator.mode
                if mode != "none" and "Sync" in _units(self._tasks.task_job(task, source)):
                    record = ValidatorRecord(mode, running=True)
                    self._tasks.registry.put_validator(task, source, record)
            if record is not None:
                self._add(task, source, record)

    def begin(self, task: str, source: str, mode: Mode, start: Position | None) -> None:
        """Have a new one."""
        record = ValidatorRecord(mode, running=True, start=start)
        self._tasks.registry.put_validator(task, source, record)
        self._add(task, source, record)

    def let_run(self, task: str, source: str, *, running: bool) -> None:
        """Let it go on, or rest."""
        found = self._all[task, source]
        record = replace(found.record, running=running)
        self._tasks.registry.put_validator(task, source, record)
        found.record = record
        if running and found.job.subtask.stage == "Paused":  # on an error
            found.job.subtask.resume()
        elif running:
            found.job.subtask.stage = "New"
        elif found.job.subtask.stage not in ("New", "Stopped", "Stopping"):
            found.job.subtask.stop()
        else:
            found.job.subtask.stage = "Stopped"

    def remove(self, task: str, source: str) -> None:
        """The task leaves the source; what was validated stays stored at the target."""
        found = self._all.pop((task, source), None)
        if found is None:
            return
        if found.job.subtask.stage not in ("New", "Stopped"):
            found.job.subtask.stop()
            self._ending.append((found.job, self._hold(task, source)))
        else:
            self._hold(task, source).remove()

    def read_from_source(self, source: str) -> None:
        """No relay pulls any more: whoever reads its files begins anew without them."""
        for (_, of), found in self._all.items():
            if of == source and found.job.reads_relay:
                found.job.remote = True
                found.job.subtask.restart()

    # the passing of time

    def tick(self) -> bool:
        """Begin where the task syncs, try again what failed; whether something is to be done soon."""
        for (task, source), found in self._all.items():
            of_task = self._tasks.task_job(task, source)
            subtask = found.job.subtask
            if found.record.running and subtask.stage == "New" and of_task is not None:
                if of_task.subtask.unit == "Sync" and of_task.subtask.stage in ("Running", "Paused"):
                    subtask.start()
            elif found.record.running and subtask.stage == "Stopped":
                subtask.stage = "New"
            subtask.tick()
            self.launch_if_ready(found.job)
        for job, hold in [each for each in self._ending if each[0].subtask.stage == "Stopped"]:
            self._ending.remove((job, hold))
            if job.task is not None and (job.task, job.source) not in self._all:
                hold.remove()
        jobs = [found.job for found in self._all.values()]
        return bool(self._ending) or any(job.waiting is not None or job.subtask.waits for job in jobs)

    # as the owner of its jobs

    def locate(self, job: Job, run: int) -> None:
        """Nothing to find: there is one unit."""
        raise AssertionError("a validator has one unit")

    def renew_relay(self, source: str) -> None:
        """Have the source's relay connect anew."""
        self._tasks.renew_relay(source)

    def launch_if_ready(self, job: Job) -> None:
        """Start the run that waits, unless an earlier one has yet to come to rest."""
        assert job.task is not None
        host = f"validator:{job.task}:{job.source}"
        if job.waiting is None or self.hosts.busy(host):
            return
        run, unit = job.waiting
        job.waiting = None
        self._all[job.task, job.source].new_errors = None
        job.began = self.clock.monotonic()
        job.reads_relay = self._tasks.relay_runs(job.source) and not job.remote
        try:
            hold = self._hold(job.task, job.source)
            if not hold.exists():
                hold.create()
            job.host_run = self.hosts.launch(host, unit, self._payload(job), job)
        except DMError as error:
            job.subtask.failed(run, error)
        except OSError as error:
            how = f"it could not be started: {error}"
            job.subtask.failed(run, DMError("host-died", host=host, how=how, log=self._tasks.home.log_of(host)))

    def _payload(self, job: Job) -> Mapping[str, JSON]:
        assert job.task is not None
        record = self._all[job.task, job.source].record
        config = self._tasks.subtask_config(job.task, job.source)
        validator = config.validator.model_copy(update={"mode": record.mode})
        directory = self._tasks.relay_directory(job.source)
        return ValidatorPayload(
            config.model_copy(update={"validator": validator}),
            directory if job.reads_relay else None,
            validator_directory(self._tasks.home.work / job.task, job.source),
            directory,
            record.start,
        ).to_wire()

    def _add(self, task: str, source: str, record: ValidatorRecord) -> None:
        job = Job(self, source, task)
        label = f"the validator of task {task} on source {source}"
        job.subtask = self._tasks.new_subtask(job, label, VALIDATOR_UNITS, self._tasks.source_config(source))
        job.subtask.changed = _telling(self._log, job)
        job.subtask.stage = "New" if record.running else "Stopped"
        self._all[task, source] = Validator(record, job)

    def _hold(self, task: str, source: str) -> Hold:
        return Hold(self._tasks.relay_directory(source), validator_hold(task))


def _units(job: Job | None) -> tuple[UnitName, ...]:
    return () if job is None else job.subtask.units


def _telling(log: structlog.stdlib.BoundLogger, job: Job) -> Callable[[], None]:
    return lambda: log.info("validator", label=job.subtask.label, stage=job.subtask.stage)
