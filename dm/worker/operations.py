"""All verbs together, and what a daemon that starts takes up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import structlog

from dm.config import SourceConfig
from dm.errors import DMError
from dm.progress.tables import share_name
from dm.sourcelog.relaylog.hold import Hold, forget_others
from dm.task.payload import validator_hold
from dm.verbs.declaration import ConfigFile, Verb
from dm.worker.configuration import ConfigReader, syncs
from dm.worker.cutovers import CutOvers
from dm.worker.errands import Errands
from dm.worker.loop import Loop
from dm.worker.registry import Source, SubtaskRecord, Task
from dm.worker.supervisor import Supervisor
from dm.worker.verbs.binlog import BinlogVerbs
from dm.worker.verbs.config import ConfigVerbs
from dm.worker.verbs.cutover import CutOverVerbs
from dm.worker.verbs.errands import ErrandVerbs, ReplayVerbs
from dm.worker.verbs.forgotten import ForgottenVerbs
from dm.worker.verbs.objects import ObjectVerbs
from dm.worker.verbs.shard_ddl_lock import ShardVerbs
from dm.worker.verbs.sources import ProgramVerbs, RelayVerbs, SourceVerbs
from dm.worker.verbs.tasks import TaskVerbs
from dm.worker.verbs.tokens import TokenVerbs
from dm.worker.verbs.updates import JoinVerbs, UpdateVerbs
from dm.worker.verbs.validation import ValidationVerbs
from dm.worker.work import Means, Servers, VerbWork, Work, work_of

C = TypeVar("C")

_OTHERS: Final[tuple[type[VerbWork], ...]] = (
    ProgramVerbs, SourceVerbs, RelayVerbs, BinlogVerbs, ShardVerbs, ValidationVerbs, JoinVerbs, ErrandVerbs,
    ReplayVerbs, ObjectVerbs, ForgottenVerbs, TokenVerbs,
)  # fmt: skip


class Operations:
    """The verbs of one daemon; `shutdown` asks it to end."""

    def __init__(self, loop: Loop, supervisor: Supervisor, servers: Servers, shutdown: Callable[[], None]) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._read = ConfigReader(supervisor.home.secret_key)
        errands, self._cut_overs = Errands(loop, supervisor.home.log_of), CutOvers(supervisor.home.work)
        means = Means(loop, supervisor, servers, self._read, errands, self._cut_overs, shutdown)
        tasks, self.config = TaskVerbs(means), ConfigVerbs(means)
        self._cut_over = CutOverVerbs(means, tasks)
        self.work: Mapping[type[Verb], Work] = work_of(
            tasks, UpdateVerbs(means, tasks), self.config, self._cut_over, *(kind(means) for kind in _OTHERS)
        )

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
        self._cut_overs.take_up(self._cut_over.driver)

    def end(self) -> None:
        """Leave cut-overs to the next daemon."""
        self._cut_overs.end()

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


def _or_error(parse: Callable[[ConfigFile], C], file: ConfigFile) -> C | DMError:
    try:
        return parse(file)
    except DMError as error:
        return error
