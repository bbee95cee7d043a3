"""Sources, tasks and their subtasks as they run: what a verb or an event means for all of them together.

All methods run on the loop's thread (dm/worker/loop.py). dm/task/subtask.py decides what a single subtask does. This
module decides what concerns several: which relays must run, which runs wait for them, and what the registry keeps.

A relay runs if a person asked for it, or, without such a request, if the source's file enables it. It also runs while a
task with a full load needs it, even against a person's wish: the binlog must be pulled from before the dump starts, or
the source could purge it during the dump. So a dump begins only when the relay receives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

import structlog

from dm.clock import Clock
from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.progress.tables import share_name
from dm.sourcelog.relaylog.hold import Hold
from dm.task.backoff import Backoff
from dm.task.payload import RelayPayload, UnitPayload, join_directory, validator_hold
from dm.task.subtask import JOIN_UNITS, RELAY_UNITS, UNITS_OF_MODE, Intent, Subtask
from dm.unit import JSON, UnitName
from dm.worker.home import Home
from dm.worker.hosts import Hosts, spark_host, sync_host
from dm.worker.inventory import Inventory, Source, Task
from dm.worker.job import Job
from dm.worker.registry import Registry, RelayIntent, SubtaskRecord
from dm.worker.side_runs import Joins, Validators

Locate = Callable[[SubtaskConfig], UnitName | None]


class Supervisor(Inventory):
    """Starts, stops and keeps the subtasks and relays of one daemon."""

    def __init__(
        self,
        home: Home,
        registry: Registry,
        hosts: Hosts,
        post: Callable[[Callable[[], None]], None],
        clock: Clock,
        first_unit: Locate,
    ) -> None:
        super().__init__(home)
        self.registry = registry
        self.hosts = hosts
        self.clock = clock
        self._post = post
        self.first_unit = first_unit
        self.joins = Joins(self._join_job)
        self._log = structlog.get_logger()
        self.validators = Validators(self)
        self.mine: Callable[[str], bool | None] | None = None  # in a cluster: whether a source is this member's
        self._seen: Callable[[Job], None] = lambda _: None
        self._heard: Callable[[Job], None] = lambda _: None

    def watch(self, seen: Callable[[Job], None], heard: Callable[[Job], None]) -> None:
        """Tell of each change of a stage, and of each status, of what is added from now on."""
        self._seen, self._heard = seen, heard

    # from the registry, at start

    def add_source(self, name: str, source: Source, *, here: bool | None = None) -> None:
        """Know a source; its relay starts if it is needed. `here`: whether this host runs it, if that changes."""
        known = self.sources.get(name)
        source.here = here if here is not None else self.alone if known is None else known.here
        if known is not None:
            source.relay = known.relay
        if known is not None and known.here:  # else the registry knows better
            source.relay_asked, source.relay_intent = known.relay_asked, known.relay_intent
        self.sources[name] = source
        if known is not None and source.relay_asked is False and _by_file(source) and not _by_file(known):
            self._note_relay(name, None, "running")  # what a person has said last
        if source.relay is not None and source.relay.subtask.stage in ("Running", "Pausing"):
            source.relay.subtask.stop()  # `tick` starts it again, with the new file
        self.tick_relay(name)

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
            self.tick_relay(source)
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

    def let_go(self, name: str) -> None:
        """Bring everything of a source to rest, for another host: nothing changes but that it does not run here."""
        source = self.source(name)
        source.here = False
        for task in self.tasks_of(name):
            self.validators.remove(task, name)
            self.tasks[task].jobs[name].subtask.stop()
        self.tick_relay(name)
        self.forget_stopped()

    def busy(self, name: str) -> bool:
        """Whether something of a source has yet to come to rest."""
        relay = self.sources[name].relay
        return bool(self.tasks_of(name)) or (relay is not None and relay.subtask.stage != "Stopped")

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

    def hold_files(self, name: str, source: Source) -> None:
        """Have the tasks on a source hold its relay files where it will have them; raises DMError."""
        for task in self.tasks_of(name):
            if _syncs(self.tasks[task].jobs[name]):
                Hold(self.relay_directory(name, source), task).create()
                if self.validators.get(task, name) is not None:
                    Hold(self.relay_directory(name, source), validator_hold(task)).create()

    def set_relay(self, name: str, *, asked: bool, intent: RelayIntent) -> None:
        """Note what a person wants of a relay, and do it."""
        self._note_relay(name, asked, intent)
        self.tick_relay(name)

    def _note_relay(self, name: str, asked: bool | None, intent: RelayIntent) -> None:
        source = self.source(name)
        wanted = (asked, intent)
        if wanted != (source.relay_asked, source.relay_intent):
            self.registry.set_relay(name, asked=wanted[0], intent=wanted[1])
            source.relay_asked, source.relay_intent = wanted

    # the passing of time

    def tick(self) -> bool:
        """Auto-resume, runs that wait, relays that came to be needed or not; whether something is to be done soon."""
        for name, source in self.sources.items():
            self.tick_relay(name)
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

    def tick_relay(self, name: str) -> None:
        """Start the source's relay if it is needed and not there, stop it if it is there and not needed."""
        source = self.sources[name]
        if source.relay is not None and source.relay.subtask.stage == "Stopped":
            source.relay = None
        if self.relay_wanted(name):
            if source.relay is None and isinstance(source.config, SourceConfig):
                source.relay = self._relay_job(name, source.config)
                if source.relay_intent == "stopped":  # a load needs it, and keeps it
                    self._note_relay(name, source.relay_asked, "running")
                if source.relay_intent == "paused":
                    source.relay.subtask.rest()
                else:
                    source.relay.subtask.start()
        elif source.relay is not None and source.relay.subtask.stage != "Stopping":
            source.relay.subtask.stop()
            self._read_from_source(name)

    def renew_relay(self, name: str) -> None:
        """Have the relay connect anew, also one that rests on an error: then it looks whether its files are right."""
        source = self.sources[name]
        if source.relay is not None and source.relay_intent == "running":
            source.relay.subtask.restart()
            if source.relay.subtask.stage == "Paused":
                source.relay.subtask.resume()

    def _read_from_source(self, name: str) -> None:
        """Have syncers that read the relay's files begin anew without them: nothing is added there any more."""
        for task in self.tasks.values():
            job = task.jobs.get(name)
            if job is not None and job.reads_relay and job.subtask.unit == "Sync":
                job.remote = True
                job.subtask.restart()
        self.validators.read_from_source(name)

    def relay_wanted(self, name: str) -> bool:
        """Whether the relay of a source should be there."""
        source = self.sources[name]
        if not source.here:
            return False
        asked = _by_file(source) if source.relay_asked is None else source.relay_asked
        return asked or bool(self.tasks_needing_relay(name))

    def may_read_relay(self, name: str, config: TaskConfig) -> bool:
        """Whether a task that starts now will read the relay of a source."""
        loads = UNITS_OF_MODE[config.task_mode][0] != "Sync" and self.sources[name].relay_intent != "stopped"
        return loads or self.relay_wanted(name)

    def tasks_needing_relay(self, source: str) -> list[str]:
        """The tasks whose full load needs the binlog to be pulled meanwhile; they go on reading what was pulled.

        Where a person has stopped the relay, only those whose load is under way.
        """
        stopped = self.sources[source].relay_intent == "stopped"
        return [
            name
            for name, task in self.tasks.items()
            if (job := task.jobs.get(source)) is not None
            and job.subtask.units[0] != "Sync"
            and _syncs(job)
            and (not stopped or job.loads)
        ]

    def tasks_loading(self, source: str) -> list[str]:
        """The tasks on a source that will follow it from before their load, which has not ended."""
        return [name for name in self.tasks_of(source) if (job := self.tasks[name].jobs[source]).loads and _syncs(job)]

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
            self.tick_relay(job.source)  # it may have been stopped by a person, until now that a load begins
        if job.task is not None and not self._relay_serves(job, unit):
            job.subtask.detail = self._waits_for_relay(job.source)
            return
        if unit in ("Sync", "Relay", "Join") and self.hosts.busy(_host_name(job, unit)):
            return  # an earlier run, of a source or task that was removed meanwhile, has yet to come to rest
        job.waiting = None
        job.began = self.clock.monotonic()
        if job.subtask.detail.startswith("waits for the relay"):
            job.subtask.detail = ""
        job.reads_relay = job.task is not None and self.sources[job.source].relay is not None and not job.remote
        try:
            if job.task is not None and _syncs(job) and not (hold := self._hold(job)).exists():
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

    def _relay_serves(self, job: Job, unit: UnitName) -> bool:
        if not _syncs(job):
            return True
        relay = self.sources[job.source].relay
        if relay is None:
            return True
        if unit == "Sync" and (self.relay_directory(job.source) / "server-uuid.index").exists():
            return True  # what the relay has is read, also while the relay itself can't reach the source
        if relay.subtask.restarting:
            return False
        return relay.subtask.stage == "Running" and bool(relay.status.get("relayBinlog"))

    def _waits_for_relay(self, source: str) -> str:
        relay, what = self.sources[source].relay, f"waits for the relay of source {source} to receive"
        if relay is None or not relay.troubles:
            return what
        error = relay.troubles[0]
        return f"{what}, which has error {error['ErrCode']}: {error['Message']}"

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
            config=self.run_here(task.config.subtask(job.source, self.source_configs())),
            relay_directory=self.relay_directory(job.source) if job.reads_relay else None,
            work_directory=join_directory(work, job.source) if joins else work,
            hold_in=self.relay_directory(job.source) if joins or _syncs(job) else None,
            until=job.until,
            branch=job.branch,
        ).to_wire()

    def _hold(self, job: Job) -> Hold:
        assert job.task is not None
        return Hold(self.relay_directory(job.source), job.task)

    def _subtask_job(self, name: str, task: Task, source: str, record: SubtaskRecord) -> Job:
        job = Job(self, source, name, until=record.until, told=self._heard)
        mode = task.config.task_mode if isinstance(task.config, TaskConfig) else "incremental"
        job.subtask = self.new_subtask(
            job, f"task {name} on source {source}", UNITS_OF_MODE[mode], self.sources[source].config
        )
        job.copy.load_follows = "Load" in job.subtask.units
        job.subtask.intent = record.intent
        job.subtask.wish = lambda intent: self._keep(job, intent)
        job.subtask.changed = lambda: self._record(job)
        return job

    def _join_job(self, task: str, source: str, branch: str) -> Job:
        job = Job(self, source, task, told=self._heard, branch=branch)
        label = f"tables that join task {task} on source {source}"
        job.subtask = self.new_subtask(job, label, JOIN_UNITS, self.sources[source].config)
        job.subtask.changed = lambda: self._seen(job)
        return job

    def _relay_job(self, source: str, config: SourceConfig) -> Job:
        job = Job(self, source, None, told=self._heard)
        job.subtask = self.new_subtask(job, f"the relay of source {source}", RELAY_UNITS, config)
        job.subtask.changed = lambda: self._seen(job)
        job.subtask.wish = lambda intent: self._note_relay(source, self.sources[source].relay_asked, intent)
        return job

    def new_subtask(self, job: Job, label: str, units: tuple[UnitName, ...], config: SourceConfig | DMError) -> Subtask:
        """With the source's rules for trying again."""
        subtask = Subtask(label, units, job, self.clock)
        if self.mine is not None:
            subtask.mine = partial(self.mine, job.source)
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
        self._seen(job)
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


def _by_file(source: Source) -> bool:
    return isinstance(source.config, SourceConfig) and source.config.enable_relay


def _syncs(job: Job) -> bool:
    return "Sync" in job.subtask.units


def _host_name(job: Job, unit: UnitName) -> str:
    if unit == "Relay":
        return f"relay:{job.source}"
    if unit == "Join":
        return f"join:{job.task}:{job.source}" + (f":{job.branch[:8]}" if job.branch else "")
    if unit == "Sync":
        return sync_host(job.task, job.source)
    assert job.task is not None
    return spark_host(job.task)
