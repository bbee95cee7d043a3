"""`diff`, `flashback`, `replay` and `heal`: what is to be run, from what the daemon knows of a task.

They answer with a number, by which a person asks how far it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.task.payload import DiffPayload, FlashbackPayload, HealPayload, ReplayPayload, replay_directory, sync_directory
from dm.task.start_and_end import is_time
from dm.tools.errands import (
    DiffRequest,
    FlashbackRequest,
    HealedSubtask,
    HealRequest,
    RelayedSubtask,
    ReplayRequest,
)
from dm.unit import JSON, UnitName
from dm.verbs.errands import Diff, Flashback, Heal, Replay, RunStatus, StopRun
from dm.worker.configuration import ConfigReader, sources_of, syncs
from dm.worker.errands import Errands
from dm.worker.job import Job
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor
from dm.worker.verb_work import Answer, VerbWork, does
from dm.worker.verbs.updates import demand_unvalidated

_AT_REST: Final = ("Paused", "Stopped")
_TOLD: Final[Mapping[str, UnitName]] = {"replay": "Replay", "heal": "Heal"}


class ErrandVerbs(VerbWork):
    """Comparisons and flashbacks, and how far each run is."""

    @does(RunStatus)
    def status(self, asked: RunStatus) -> Answer:
        """How far it is."""
        return self._errands.status(asked.number)

    @does(StopRun)
    def stop(self, asked: StopRun) -> Answer:
        """End it."""
        return self._errands.stop(asked.number)

    @does(Diff)
    def diff(self, asked: Diff) -> Answer:
        """Compare what a task migrates; the one in a file, or one that is known."""
        asked.demand_consistent()
        task = asked.task
        given = None if asked.file is None else self.parse_task(asked.file)[0]

        def configured() -> tuple[TaskConfig, dict[str, SourceConfig], tuple[str, ...], dict[str, JSON]]:
            supervisor = self._supervisor
            name = task if given is None else given.name
            known = supervisor.task(name) if given is None or name in supervisor.tasks else None
            config = given or (known.config if known is not None else None)
            if isinstance(config, DMError):
                raise config
            assert config is not None
            jobs = [] if known is None else known.jobs.values()
            stored = supervisor.registry.subtasks().items()  # also of what other members run
            at = {source: (seen.stage, seen.unit) for (task, source), seen in stored if task == config.name}
            at |= {job.source: (job.subtask.stage, job.subtask.unit) for job in jobs}
            follows = tuple(source for source, (stage, unit) in at.items() if stage == "Running" and unit == "Sync")
            behind: dict[str, JSON] = {
                source: f"{stage} {unit or ''}".strip()
                for source, (stage, unit) in at.items()
                if source not in follows and stage != "Finished"
            }
            return config, supervisor.source_configs(), follows, behind

        config, sources, follows, behind = self._loop.call(configured)
        subtasks = [config.subtask(source, sources) for source in config.source_ids]
        number, work = self._errands.number(), self._supervisor.home.work / config.name
        # A source can't be called like these directories.
        options = DiffRequest(
            asked.tables, asked.where, asked.ignore_columns, asked.fix_sql, asked.rows, asked.threads, asked.max_load,
            asked.shown, asked.memory << 20, asked.resume, asked.snapshots, follows, asked.recent,
        )  # fmt: skip
        relays = self._loop.call(lambda: self._supervisor.relays(config.source_ids)) if asked.recent else {}
        own = {(config.name, source) for source in config.source_ids}
        others = _others(self._loop, self._supervisor, self._read, own) if asked.fix_sql else ()
        payload = DiffPayload(tuple(subtasks), options, work / f".diff-{number}", work / ".diff", relays, others)
        with self._exclusion.tasks(config.name):
            self._errands.begin(number, config.name, "Diff", payload.to_wire())
        return {"number": number, "task": config.name, "behind": behind}

    @does(Flashback)
    def flashback(self, asked: Flashback) -> Answer:
        """Write the SQL that takes back what a stretch of the relay has done."""

        def configured() -> tuple[TaskConfig, dict[str, SourceConfig], dict[str, Path]]:
            supervisor = self._supervisor
            config = supervisor.task(asked.task).config
            if isinstance(config, DMError):
                raise config
            relays = {source: supervisor.relay_directory(source) for source in sources_of(config, asked.sources)}
            return config, supervisor.source_configs(), relays

        config, known, relays = self._loop.call(configured)
        if not syncs(config):
            raise DMError("flashback-without-sync", task=config.name, mode=config.task_mode)
        if len(relays) > 1 and not all(is_time(text) for text in (asked.begin, asked.end) if text):
            raise DMError("flashback-of-several-sources", task=config.name, sources=", ".join(relays))
        number = self._errands.number()
        payload = FlashbackPayload(
            tuple(RelayedSubtask(config.subtask(source, known), relay) for source, relay in relays.items()),
            FlashbackRequest(asked.begin, asked.end, asked.tables, asked.directory),
            self._supervisor.home.work / config.name / f".flashback-{number}",
        )
        with self._exclusion.tasks(config.name):
            self._errands.begin(number, config.name, "Flashback", payload.to_wire())
        return {"number": number, "task": config.name}


class ReplayVerbs(VerbWork):
    """Replays of all tasks."""

    @does(Replay)
    def replay(self, asked: Replay) -> Answer:
        """The backlog of a paused task goes to a unit host of its own; raises DMError."""
        with self._exclusion.tasks(asked.task):
            return self._replay(asked)

    def _replay(self, asked: Replay) -> Answer:
        task = asked.task
        if not asked.cancel:
            self._means.cut_overs.demand_not_held(task)
        subtask, relay = self._loop.call(lambda: self._at_rest(task))
        for number in self._errands.running(task, "Replay"):
            if not asked.cancel:
                raise DMError("replay-running", task=task)
            self._errands.stop(number)
        work = self._supervisor.home.work / task
        request = ReplayRequest(
            subtask, relay, sync_directory(work, subtask.source_id), replay_directory(work, subtask.source_id),
            asked.until, asked.cancel,
        )  # fmt: skip
        number = self._errands.number()
        # A source can't be called like this directory.
        self._errands.begin(number, task, "Replay", ReplayPayload(request, work / f".replay-{number}").to_wire())
        return {"number": number, "task": task}

    def _at_rest(self, name: str) -> tuple[SubtaskConfig, Path]:
        supervisor = self._supervisor
        task = supervisor.task(name)
        if isinstance(task.config, DMError):
            raise task.config
        if len(task.jobs) != 1:
            raise DMError("replay-unsuited", task=name, why="it has several sources, whose changes have an order")
        ((source, job),) = task.jobs.items()
        if stage := _at_work(job):
            raise DMError("replay-not-paused", task=name, source=source, stage=stage)
        if job.until is not None:
            raise DMError("replay-unsuited", task=name, why=f"it is to end at {job.until}")
        return task.config.subtask(source, supervisor.source_configs()), supervisor.relay_directory(source)


def _at_work(job: Job) -> str:
    """What a subtask does instead of resting after its load; empty where it rests."""
    if job.subtask.unit == "Sync" and job.subtask.stage in _AT_REST and job.host_run is None:
        return ""
    return f"{job.subtask.stage}, unit {job.subtask.unit or 'none'},"


class HealVerbs(VerbWork):
    """Heals of all tasks."""

    @does(Heal)
    def heal(self, asked: Heal) -> Answer:
        """The rows of paused subtasks go to a unit host of their own; raises DMError."""
        with self._exclusion.tasks(asked.task):
            return self._heal(asked)

    def _heal(self, asked: Heal) -> Answer:
        task = asked.task
        self._means.cut_overs.demand_not_held(task)
        number, work = self._errands.number(), self._supervisor.home.work / task
        request, rests = self._loop.call(lambda: self._request(asked, work))
        own = {pair for pair in self._supervisor.registry.subtasks() if pair[0] == task}
        others = _others(self._loop, self._supervisor, self._read, own)
        request = replace(request, others=(*request.others, *others))
        for other in (name for name in ("Heal", "Replay") if self._errands.running(task, name)):
            raise DMError("heal-running" if other == "Heal" else "replay-running", task=task)
        demand_unvalidated(self._loop, self._supervisor, task, [each.subtask.source_id for each in request.healed])
        # A source can't be called like this directory.
        self._errands.begin(number, task, "Heal", HealPayload(request, work / f".heal-{number}").to_wire())
        return {"number": number, "task": task, "restingRelays": rests}

    def _request(self, asked: Heal, work: Path) -> tuple[HealRequest, list[JSON]]:
        """What is to be done, and the sources whose relays rest; a source without a subtask is one of the others."""
        supervisor, name = self._supervisor, asked.task
        task = supervisor.task(name)
        if isinstance(task.config, DMError):
            raise task.config
        if asked.source and asked.source not in task.jobs:
            raise DMError("task-not-on-source", task=name, source=asked.source, sources=", ".join(task.jobs))
        known, healed, rests = supervisor.source_configs(), list[HealedSubtask](), list[JSON]()
        there = [source for source in task.config.source_ids if source in task.jobs]
        for source in [asked.source] if asked.source else there:
            job = task.jobs[source]
            if stage := _at_work(job):
                raise DMError("heal-not-paused", task=name, source=source, stage=stage)
            if job.until is not None:
                way = "start it without an end"
                raise DMError("heal-unsuited", task=name, why=f"it is to end at {job.until}", way=way)
            relay = supervisor.sources[source].relay
            directory = None if relay is None else supervisor.relay_directory(source)
            healed.append(HealedSubtask(task.config.subtask(source, known), directory, sync_directory(work, source)))
            if relay is not None and relay.subtask.stage == "Paused":
                rests.append(source)
        others = set(task.config.source_ids).difference(each.subtask.source_id for each in healed)
        for other in others:
            supervisor.source(other)  # raises where it is gone: it can't be asked which tables have its rows
        request = HealRequest(
            tuple(healed), tuple(task.config.subtask(other, known) for other in sorted(others)),
            asked.dry_run, asked.recreate, asked.rows, asked.threads,
        )  # fmt: skip
        return request, rests


def _others(
    loop: Loop, supervisor: Supervisor, read: ConfigReader, own: Collection[tuple[str, str]]
) -> tuple[SubtaskConfig, ...]:
    """All other subtasks that are registered, also by other members; raises DMError where one can't be understood."""
    registry = supervisor.registry
    known = loop.call(lambda: {name: source.config for name, source in supervisor.sources.items()})
    understood = {name: config for name, config in known.items() if isinstance(config, SourceConfig)}
    sources = dict[str, list[str]]()
    for name, source in registry.subtasks():
        if (name, source) in own:
            continue
        config = known.get(source, DMError("source-unknown", source=source))
        if isinstance(config, DMError):
            raise config
        sources.setdefault(name, []).append(source)
    found, files = list[SubtaskConfig](), registry.tasks()
    for name, there in ((name, there) for name, there in sources.items() if name in files):  # else it has ended
        other = read.task(files[name], understood)[0]
        found += [other.subtask(source, understood) for source in there if source in other.source_ids]
    return tuple(found)


def with_errands(errands: Errands, task: str, answer: Answer) -> Answer:
    """A task's status, with how far its last replay and its last heal are."""
    sources = answer.get("sources")
    for key, unit in _TOLD.items():
        report = errands.last(task, unit)
        if report is None or not isinstance(sources, list):
            continue
        for one in sources:
            if isinstance(one, dict):
                _add(one, key, report)
    return answer


def _add(source: Mapping[str, JSON], key: str, report: Mapping[str, JSON]) -> None:
    status, subtasks = source.get("sourceStatus"), source.get("subTaskStatus")
    if not isinstance(status, dict) or not isinstance(subtasks, Sequence) or isinstance(subtasks, str):
        return
    if status.get("source") in _sources(report, status):
        for subtask in subtasks:
            if isinstance(subtask, dict):
                subtask[key] = dict(report)


def _sources(report: Mapping[str, JSON], status: Mapping[str, JSON]) -> list[JSON]:
    """Of which sources it tells: a heal may be of several."""
    several = report.get("sources")
    if isinstance(several, list):
        return [each.get("source") for each in several if isinstance(each, dict)]
    return [report.get("source", status.get("source"))]
