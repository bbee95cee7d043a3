"""`dmctl diff` and `dmctl flashback`: what is to be run, from what the daemon knows of a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dm.config import SourceConfig, TaskConfig
from dm.diff.options import DiffOptions
from dm.errors import DMError
from dm.flashback.request import FlashbackRequest, RelayedSubtask
from dm.task.payload import DiffPayload, FlashbackPayload
from dm.task.until import is_time
from dm.unit import JSON
from dm.worker.configuration import sources_of, syncs
from dm.worker.errands import Errands
from dm.worker.loop import Loop
from dm.worker.registry import ConfigFile
from dm.worker.supervisor import Supervisor

Answer = dict[str, JSON]


class ErrandVerbs:
    """They answer with a number, by which a person asks how far it is; called from the API's threads."""

    def __init__(
        self,
        loop: Loop,
        supervisor: Supervisor,
        errands: Errands,
        parse: Callable[[ConfigFile], tuple[TaskConfig, list[str]]],
    ) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._parse = parse
        self._errands = errands
        self.status = self._errands.status
        self.stop = self._errands.stop

    def diff(self, task: str, file: ConfigFile | None, options: DiffOptions) -> Answer:
        """`diff`: compare what a task migrates; the one in a file, or one that is known."""
        given = None if file is None else self._parse(file)[0]

        def configured() -> tuple[TaskConfig, dict[str, SourceConfig], tuple[str, ...], dict[str, JSON]]:
            supervisor = self._supervisor
            name = task if given is None else given.name
            known = supervisor.task(name) if given is None or name in supervisor.tasks else None
            config = given or (known.config if known is not None else None)
            if isinstance(config, DMError):
                raise config
            assert config is not None
            jobs = [] if known is None else known.jobs.values()
            at = {job.source: (job.subtask.stage, job.subtask.unit) for job in jobs}
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
        payload = DiffPayload(
            tuple(subtasks), replace(options, follows=follows), work / f".diff-{number}", work / ".diff"
        )
        self._errands.begin(number, config.name, "Diff", payload.to_wire())
        return {"result": True, "msg": "", "number": number, "task": config.name, "behind": behind}

    def flashback(self, task: str, sources: Sequence[str], request: FlashbackRequest) -> Answer:
        """`flashback`: write the SQL that takes back what a stretch of the relay has done."""

        def configured() -> tuple[TaskConfig, dict[str, SourceConfig], dict[str, Path]]:
            supervisor = self._supervisor
            config = supervisor.task(task).config
            if isinstance(config, DMError):
                raise config
            relays = {source: supervisor.relay_directory(source) for source in sources_of(config, sources)}
            return config, supervisor.source_configs(), relays

        config, known, relays = self._loop.call(configured)
        if not syncs(config):
            raise DMError("flashback-without-sync", task=config.name, mode=config.task_mode)
        if len(relays) > 1 and not all(is_time(text) for text in (request.begin, request.end) if text):
            raise DMError("flashback-of-several-sources", task=config.name, sources=", ".join(relays))
        number = self._errands.number()
        payload = FlashbackPayload(
            tuple(RelayedSubtask(config.subtask(source, known), relay) for source, relay in relays.items()),
            request,
            self._supervisor.home.work / config.name / f".flashback-{number}",
        )
        self._errands.begin(number, config.name, "Flashback", payload.to_wire())
        return {"result": True, "msg": "", "number": number, "task": config.name}
