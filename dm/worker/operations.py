"""All verbs together, and what a daemon that starts takes up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TypeVar

import structlog

from dm.config import SourceConfig
from dm.errors import DMError
from dm.progress.tables import share_name
from dm.sourcelog.relaylog.hold import Hold, forget_others
from dm.task.payload import validator_hold
from dm.unit import JSON
from dm.verbs.declaration import ConfigFile, Verb
from dm.verbs.every import SUBJECTS
from dm.worker.configuration import ConfigReader, syncs
from dm.worker.cutovers import CutOvers
from dm.worker.dm_openapi.every import openapi_requests
from dm.worker.errands import Errands
from dm.worker.history.history import History, Values
from dm.worker.installed import installed_version
from dm.worker.inventory import Source, Task
from dm.worker.loop import Loop
from dm.worker.registry import SubtaskRecord
from dm.worker.supervisor import Supervisor
from dm.worker.verbs.config import ConfigVerbs
from dm.worker.verbs.cutover import CutOverVerbs
from dm.worker.work import Means, Servers, VerbWork, Work, work_of

C = TypeVar("C")
T = TypeVar("T")


class Operations:
    """The verbs of one daemon; `shutdown` asks it to end."""

    def __init__(self, loop: Loop, supervisor: Supervisor, servers: Servers, shutdown: Callable[[], None]) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._read = ConfigReader(supervisor.home.secret_key)
        errands, self._cut_overs = Errands(loop, supervisor.home.log_of), CutOvers(supervisor.home.work)
        self.history = History(supervisor.home.history, supervisor.clock)
        supervisor.watch(self.history.stage, self.history.heard)
        means = Means(loop, supervisor, servers, self._read, errands, self._cut_overs, self.history, shutdown)
        self.config, self._cut_over = ConfigVerbs(means), CutOverVerbs(means)
        self.work: Mapping[type[Verb], Work] = work_of(*_owners(means))
        self.openapi = openapi_requests(means, self.work)

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

        self.history.start(installed_version(), lambda: self._loop.call(self._values))
        self._loop.call(add)
        self._cut_overs.take_up(self._cut_over.driver)

    def look(self, at: Callable[[Supervisor], T]) -> T:
        """What the supervisor knows, from its thread."""
        return self._loop.call(lambda: at(self._supervisor))

    def cut_overs(self) -> Mapping[str, Mapping[str, JSON]]:
        """What is known of each cut-over, by task."""
        return self._cut_overs.all_told()

    def _values(self) -> Values:
        tasks = self._supervisor.tasks.items()
        return self.history.values({(name, source): job for name, task in tasks for source, job in task.jobs.items()})

    def end(self) -> None:
        """Leave cut-overs to the next daemon."""
        self._cut_overs.end()
        self.history.end()

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
                structlog.get_logger().warning("holds of relay files", source=name, error=error)


def _owners(means: Means) -> Iterator[VerbWork]:
    """Those of the files that are named like the declarations'."""
    for subject in SUBJECTS:
        module = import_module(f"dm.worker.verbs.{subject}")
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, VerbWork) and found.__module__ == module.__name__:
                yield found(means)


def _or_error(parse: Callable[[ConfigFile], C], file: ConfigFile) -> C | DMError:
    try:
        return parse(file)
    except DMError as error:
        return error
