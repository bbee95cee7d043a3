"""What the registry holds comes to life: at the daemon's start, and where a source of several hosts changes its owner.

Each subtask comes into the state that is wanted of it. What is stored at the target decides where it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.progress.tables import share_name
from dm.sourcelog.relaylog.hold import Hold, forget_others
from dm.sourcelog.relaylog.layout import INDEX_NAME
from dm.task.payload import validator_hold
from dm.verbs.declaration import ConfigFile
from dm.worker.configuration import ConfigReader, syncs
from dm.worker.hosts import PATIENCE_SECONDS
from dm.worker.inventory import Source, Task
from dm.worker.loop import Loop
from dm.worker.registry import SourceRecord, SubtaskRecord
from dm.worker.supervisor import Supervisor

C = TypeVar("C")


class TakingUp:
    """Makes the supervisor fit the registry; not on the loop's thread."""

    def __init__(
        self,
        loop: Loop,
        supervisor: Supervisor,
        reader: ConfigReader,
        hold_place: Callable[[SubtaskConfig, Path, Path], None],
    ) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._read = reader
        self._hold_place = hold_place

    def take_up(self, wanted: Collection[str] | None = None) -> None:
        """Run these sources with their relays and subtasks; all that there are where none are named."""
        supervisor, registry = self._supervisor, self._supervisor.registry
        known = self._loop.call(lambda: {**supervisor.sources})
        sources = {name: self._source(record, known.get(name)) for name, record in registry.sources().items()}
        here = frozenset(sources if wanted is None else sources.keys() & {*wanted})
        configs = {name: source.config for name, source in sources.items() if isinstance(source.config, SourceConfig)}
        records = {key: seen for key, seen in registry.subtasks().items() if key[1] in here}
        named = {task for task, _ in records}
        tasks = {
            name: Task(file, _or_error(lambda one: self._read.task(one, configs)[0], file))
            for name, file in registry.tasks().items()
            if name in named
        }
        validated = frozenset(registry.validators())
        self._restore_holds({name: sources[name] for name in here}, tasks, records, validated)

        def add() -> None:
            for name in sorted(here):
                supervisor.add_source(name, sources[name], here=True)
            for name, task in tasks.items():
                subtasks = {one: seen for (of, one), seen in records.items() if of == name}
                if subtasks:
                    supervisor.add_task(name, task, subtasks)

        self._loop.call(add)

    def know(self) -> None:
        """Know sources as other hosts have made them known, changed or forgotten them."""
        supervisor = self._supervisor
        stored = supervisor.registry.sources()
        files = self._loop.call(lambda: {name: source.file for name, source in supervisor.sources.items()})
        changed = {name: self._source(record) for name, record in stored.items() if files.get(name) != record.file}

        def know() -> None:
            for name in [*supervisor.sources]:
                if name not in stored and not supervisor.busy(name):
                    del supervisor.sources[name]
            for name, source in changed.items():
                supervisor.add_source(name, source)

        if changed or files.keys() - stored.keys():
            self._loop.call(know)

    def let_go(self, source: str) -> None:
        """Bring a source's relay and subtasks to rest here, for another host."""
        supervisor = self._supervisor
        self._loop.call(lambda: supervisor.let_go(source))
        self._loop.wait_until(lambda: not supervisor.busy(source), PATIENCE_SECONDS)

    def _source(self, record: SourceRecord, known: Source | None = None) -> Source:
        """As it is stored; a file that is known is not read again."""
        same = known is not None and known.file == record.file
        config = known.config if known is not None and same else _or_error(self._read.source, record.file)
        return Source(record.file, config, record.relay_asked, record.relay_intent)

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
                new = [task for task in sorted(there) if not Hold(directory, task).exists()]
                for task in there:
                    Hold(directory, task).create()
                if new and not (directory / INDEX_NAME).exists():
                    self._hold_places([tasks[task].config for task in new], sources, name, directory)
            except (DMError, OSError) as error:
                # Not the end of the daemon: whoever can't hold its files is not started, and says why.
                structlog.get_logger().warning("holds of relay files", source=name, error=error)

    def _hold_places(
        self, configs: Sequence[TaskConfig | DMError], sources: Mapping[str, Source], source: str, relay: Path
    ) -> None:
        """Have a relay that has nothing yet begin where these tasks are: another host had their files.

        Raises DMError at the first target that can't be asked. Then the relay begins at the source's present end, and
        the syncers read from the source itself what comes before.
        """
        for config in configs:
            own = sources[source].config
            if isinstance(config, TaskConfig) and isinstance(own, SourceConfig):
                work = self._supervisor.home.work / config.name
                self._hold_place(config.subtask(source, {source: own}), work, relay)


def _or_error(parse: Callable[[ConfigFile], C], file: ConfigFile) -> C | DMError:
    try:
        return parse(file)
    except DMError as error:
        return error
