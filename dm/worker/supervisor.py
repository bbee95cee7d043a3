"""Sources, tasks and their subtasks as they run: what a verb or an event means for all of them together.

All methods run on the loop's thread (dm/worker/loop.py). What a single subtask does is decided in dm/task/subtask.py;
here are the things that concern more than one: whose runs wait for what, and what stays in the registry. Which relays
run is decided in dm/worker/relays.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog

from dm.clock import Clock
from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.progress.tables import share_name
from dm.relaylog.hold import Hold
from dm.task.backoff import Backoff
from dm.task.payload import RelayPayload, UnitPayload, join_directory, validator_hold
from dm.task.subtask import JOIN_UNITS, RELAY_UNITS, UNITS_OF_MODE, Intent, Subtask
from dm.unit import JSON, UnitName
from dm.worker.home import Home
from dm.worker.hosts import Hosts, spark_host
from dm.worker.job import Job
from dm.worker.joins import Joins
from dm.worker.known import Source, Task
from dm.worker.registry import Registry, SubtaskRecord
from dm.worker.relays import Relays, by_file, syncs
from dm.worker.validators import Validators

Locate = Callable[[SubtaskConfig], UnitName | None]


class Supervisor:
    """The state of one daemon."""

    def __init__(
        self,
        home: Home,
        registry: Registry,
        hosts: Hosts,
        post: Callable[[Callable[[], None]], None],
        clock: Clock,
        first_unit: Locate,
    ) -> None:
        self.home = home
        self.registry = registry
        self.hosts = hosts
        self.clock = clock
        self.sources: dict[str, Source] = {}
        self.tasks: dict[str, Task] = {}
        self._post = post
        self.first_unit = first_unit
        self.joins = Joins(self._join_job)
        self._log = structlog.get_logger()
        self.validators = Validators(self)
        self.relays = Relays(
            self.sources,
            self.tasks,
            registry,
            self._relay_job,
            self.relay_directory,
            self.validators.read_from_source,
        )

    # what there is

    def source(self, name: str) -> Source:
        """The source of this name."""
        if name not in self.sources:
            known = ", ".join(sorted(self.sources)) or "none"
            raise DMError("source-unknown", source=f"{name} (known are: {known})")
        return self.sources[name]

    def task(self, name: str) -> Task:
        """The task of this name."""
        if name not in self.tasks:
            raise DMError("task-unknown", task=name)
        return self.tasks[name]

    def jobs(self, task: str, sources: Sequence[str]) -> list[Job]:
        """The task's subtasks on these sources; on all of its sources when none is named."""
        found = self.task(task).jobs
        for source in sources:
            if source not in found:
                raise DMError("task-not-on-source", task=task, source=source, sources=", ".join(found))
        return [found[source] for source in sources or found]

    def task_job(self, task: str, source: str) -> Job | None:
        """The subtask of a task on a source."""
        found = self.tasks.get(task)
        return None if found is None else found.jobs.get(source)

    def subtask_config(self, task: str, source: str) -> SubtaskConfig:
        """A task on a source, with all names resolved; raises DMError."""
        config = self.task(task).config
        if isinstance(config, DMError):
            raise config
        return config.subtask(source, self.source_configs())

    def source_config(self, source: str) -> SourceConfig | DMError:
        """A source's file, or what is wrong with it."""
        return self.sources[source].config

    def relay_runs(self, source: str) -> bool:
        """Whether a relay pulls the source's binlog."""
        return self.sources[source].relay is not None

    def source_configs(self) -> dict[str, SourceConfig]:
        """The sources whose files are understood."""
        return {name: one.config for name, one in self.sources.items() if isinstance(one.config, SourceConfig)}

    def relay_directory(self, name: str, source: Source | None = None) -> Path:
        """Where a source's relay files are; in a directory that its file names, each source has a part of its own."""
        source = source or self.sources[name]
        if isinstance(source.config, SourceConfig) and source.config.relay_dir:
            return Path(source.file.directory) / source.config.relay_dir / name
        return self.home.relay(name)

    def hold_files(self, name: str, source: Source) -> None:
        """Have the tasks on a source hold its relay files where it will have them; raises DMError."""
        for task in self.tasks_of(name):
            if syncs(self.tasks[task].jobs[name]):
                Hold(self.relay_directory(name, source), task).create()
                if self.validators.get(task, name) is not None:
                    Hold(self.relay_directory(name, source), validator_hold(task)).create()

    def tasks_of(self, source: str) -> list[str]:
        """The tasks that have a subtask on the source."""
        return [name for name, task in self.tasks.items() if source in task.jobs]

    # from the registry, at start

    def add_source(self, name: str, source: Source) -> None:
        """Know a source; its relay starts if it is needed."""
        known = self.sources.get(name)
        if known is not None:
            source.relay = known.relay
            source.relay_asked, source.relay_intent = known.relay_asked, known.relay_intent
        self.sources[name] = source
        if known is not None and source.relay_asked is False and by_file(source) and not by_file(known):
            self.relays.note(name, None, "running")  # what a person has said last
        if source.relay is not None and source.relay.subtask.stage in ("Running", "Pausing"):
            source.relay.subtask.stop()  # `tick` starts it again, with the new file
        self.relays.tick(name)

    def add_task(self, name: str, task: Task, subtasks: Mapping[str, SubtaskRecord]) -> None:
        """Know a task on these sources and bring each subtask into the state that is wanted of it."""
        known = self.tasks.setdefault(name, task)
        alone = not isinstance(known.config, DMError) and len(known.config.source_ids) == 1
        known.file, known.config = task.file, task.config
        if alone:
            for job in known.jobs.values():
                if job.subtask.unit == "Sync":  # its plans were made for a source that nobody alters tables beside
                    job.subtask.restart()
        jobs = {source: self._subtask_job(name, known, source, record) for source, record in subtasks.items()}
        known.jobs.update(jobs)
        for source in jobs:
            self.relays.tick(source)
        for source, job in jobs.items():
            record = subtasks[source]
            if record.stage == "Finished":
                job.subtask.unit, job.subtask.stage = record.unit, "Finished"
                job.subtask.detail = str(record.result.get("detail", "")) if isinstance(record.result, dict) else ""
            elif record.intent == "paused":
                job.subtask.unit = record.unit
                job.subtask.rest()
            else:
                job.subtask.unit = record.unit
                job.subtask.start()
        self.validators.add_task(name, task.config, list(jobs))

    def stop_job(self, job: Job) -> None:
        """Stop a subtask and forget it; what it has done stays stored in the target."""
        assert job.task is not None
        self.registry.remove_subtask(job.task, job.source)
        self.validators.remove(job.task, job.source)
        job.subtask.stop()
        self.forget_stopped()

    def remove_source(self, name: str) -> None:
        """Forget a source that no task uses."""
        tasks = self.tasks_of(name)
        if tasks:
            raise DMError("source-in-use", source=name, tasks=", ".join(tasks))
        source = self.source(name)
        self.registry.remove_source(name)
        if source.relay is not None:
            source.relay.subtask.stop()
        del self.sources[name]

    # the passing of time

    def tick(self) -> bool:
        """Auto-resume, runs that wait, relays that came to be needed or not; whether something is to be done soon."""
        for name, source in self.sources.items():
            self.relays.tick(name)
            if source.relay is not None:
                source.relay.subtask.tick()
                self.launch_if_ready(source.relay)
        for task in self.tasks.values():
            for job in task.jobs.values():
                job.subtask.tick()
                self.launch_if_ready(job)
        self._tick_joins()
        self.forget_stopped()
        validating = self.validators.tick()
        self.hosts.tick()
        relays = [source.relay for source in self.sources.values() if source.relay is not None]
        jobs = [*relays, *(job for task in self.tasks.values() for job in task.jobs.values()), *self.joins.jobs()]
        return validating or self.hosts.ending or any(job.waiting is not None or job.subtask.waits for job in jobs)

    def _tick_joins(self) -> None:
        self.joins.tick({(name, source): job for name, task in self.tasks.items() for source, job in task.jobs.items()})
        for job in self.joins.jobs():
            self.launch_if_ready(job)

    def resume_job(self, job: Job) -> None:
        """A person's resume, of what is loaded beside a subtask, too; raises DMError."""
        assert job.task is not None
        if not self.joins.resume(job.task, job.source) or job.subtask.stage == "Paused":
            job.resume()

    def renew_relay(self, name: str) -> None:
        """Have the source's relay connect anew."""
        self.relays.renew(name)

    def syncers_of(self, source: str) -> list[SubtaskConfig]:
        """The subtasks that follow the source's binlog by now."""
        found = []
        for task in self.tasks.values():
            job = task.jobs.get(source)
            if job is not None and job.subtask.unit == "Sync" and isinstance(task.config, TaskConfig):
                found.append(task.config.subtask(source, self.source_configs()))
        return found

    # runs

    def launch_if_ready(self, job: Job) -> None:
        """Start the run that waits, unless the relay it needs receives nothing yet."""
        if job.waiting is None:
            return
        run, unit = job.waiting
        if job.loads:
            self.relays.tick(job.source)  # it may have been stopped by a person, until now that a load begins
        if job.task is not None and not self.relays.serves(job, unit):
            job.subtask.detail = self.relays.awaited(job.source)
            return
        if unit in ("Sync", "Relay", "Join") and self.hosts.busy(_host_name(job, unit)):
            return  # an earlier run, of a source or task that was removed meanwhile, has yet to come to rest
        job.waiting = None
        job.began = self.clock.monotonic()
        if job.subtask.detail.startswith("waits for the relay"):
            job.subtask.detail = ""
        job.reads_relay = job.task is not None and self.sources[job.source].relay is not None and not job.remote
        try:
            if job.task is not None and syncs(job) and not (hold := self._hold(job)).exists():
                hold.create()
            payload = self._payload(job)
        except DMError as error:
            job.subtask.failed(run, error)
            return
        host = _host_name(job, unit)
        try:
            job.host_run = self.hosts.launch(host, unit, payload, job)
        except OSError as error:  # no room for its log, or for a process
            how = f"it could not be started: {error}"
            job.subtask.failed(run, DMError("host-died", host=host, how=how, log=self.home.log_of(host)))

    def locate(self, job: Job, run: int) -> None:
        """Find the unit to begin with; the outcome is posted."""
        assert job.task is not None
        task, subtask = self.tasks[job.task], job.subtask
        if isinstance(task.config, DMError):
            subtask.failed(run, task.config)
            return
        config = task.config.subtask(job.source, self.source_configs())
        reached = subtask.unit  # before the daemon was started, as the registry has it

        def ask() -> None:
            try:
                unit = self._first_unit_of(config, reached)
            except DMError as error:
                failure = error
                self._post(lambda: subtask.failed(run, failure))
            except Exception as defect:
                self._log.exception("no first unit", task=job.task, source=job.source)
                broken = DMError("internal-error", what=f"looking for progress: {type(defect).__name__}: {defect}")
                self._post(lambda: subtask.failed(run, broken))
            else:
                self._post(lambda: subtask.located(run, unit))

        threading.Thread(target=ask, name=f"locate {job.task}", daemon=True).start()

    def _first_unit_of(self, config: SubtaskConfig, reached: UnitName | None) -> UnitName | None:
        unit = self.first_unit(config)
        if reached == "Sync" and unit != "Sync":  # a load over the rows of an earlier one leaves those deleted since
            raise DMError("checkpoint-gone", task=config.task, source=config.source_id)
        return unit

    def _payload(self, job: Job) -> Mapping[str, JSON]:
        source = self.sources[job.source]
        if isinstance(source.config, DMError):
            raise source.config
        if job.task is None:
            return RelayPayload(source.config, self.relay_directory(job.source)).to_wire()
        task = self.tasks[job.task]
        if isinstance(task.config, DMError):
            raise task.config
        joins = job.subtask.units == JOIN_UNITS
        work = self.home.work / job.task
        return UnitPayload(
            config=task.config.subtask(job.source, self.source_configs()),
            relay_directory=self.relay_directory(job.source) if job.reads_relay else None,
            work_directory=join_directory(work, job.source) if joins else work,
            hold_in=self.relay_directory(job.source) if joins or syncs(job) else None,
            until=job.until,
        ).to_wire()

    def _hold(self, job: Job) -> Hold:
        assert job.task is not None
        return Hold(self.relay_directory(job.source), job.task)

    def _subtask_job(self, name: str, task: Task, source: str, record: SubtaskRecord) -> Job:
        job = Job(self, source, name, until=record.until)
        mode = task.config.task_mode if isinstance(task.config, TaskConfig) else "incremental"
        job.subtask = self.new_subtask(
            job, f"task {name} on source {source}", UNITS_OF_MODE[mode], self.sources[source].config
        )
        job.copy.load_follows = "Load" in job.subtask.units
        job.subtask.intent = record.intent
        job.subtask.wish = lambda intent: self._keep(job, intent)
        job.subtask.changed = lambda: self._record(job)
        return job

    def _join_job(self, task: str, source: str) -> Job:
        job = Job(self, source, task)
        label = f"tables that join task {task} on source {source}"
        job.subtask = self.new_subtask(job, label, JOIN_UNITS, self.sources[source].config)
        return job

    def _relay_job(self, source: str, config: SourceConfig) -> Job:
        job = Job(self, source, None)
        job.subtask = self.new_subtask(job, f"the relay of source {source}", RELAY_UNITS, config)
        job.subtask.wish = lambda intent: self.relays.note(source, self.sources[source].relay_asked, intent)
        return job

    def new_subtask(self, job: Job, label: str, units: tuple[UnitName, ...], config: SourceConfig | DMError) -> Subtask:
        """With the source's rules for trying again."""
        subtask = Subtask(label, units, job, self.clock)
        if isinstance(config, SourceConfig):
            checker = config.checker
            subtask.auto_resume = checker.check_enable
            subtask.backoff = Backoff(
                minimum=checker.backoff_min,
                maximum=checker.backoff_max,
                rollback=checker.backoff_rollback,
                factor=checker.backoff_factor,
                jitter=0.25 if checker.backoff_jitter else 0.0,
            )
        return subtask

    def _record(self, job: Job) -> None:
        subtask = job.subtask
        if subtask.stage not in ("Stopping", "Stopped"):
            self._keep(job, subtask.intent)
        self._log.info("subtask", label=subtask.label, stage=subtask.stage, unit=subtask.unit, intent=subtask.intent)

    def _keep(self, job: Job, intent: Intent) -> None:
        assert job.task is not None
        subtask = job.subtask
        self.registry.record(job.task, job.source, SubtaskRecord(intent, subtask.stage, subtask.unit, subtask.result()))

    def forget_stopped(self) -> None:
        """Drop subtasks that came to rest for good, and tasks without any."""
        for name, task in list(self.tasks.items()):
            for source in [source for source, job in task.jobs.items() if job.subtask.stage == "Stopped"]:
                self._hold(task.jobs[source]).remove()
                Hold(self.relay_directory(source), share_name(name)).remove()
                del task.jobs[source]
            if not task.jobs:
                del self.tasks[name]


def _host_name(job: Job, unit: UnitName) -> str:
    if unit == "Relay":
        return f"relay:{job.source}"
    if unit == "Join":
        return f"join:{job.task}:{job.source}"
    if unit == "Sync":
        return f"sync:{job.task}:{job.source}"
    assert job.task is not None
    return spark_host(job.task)
