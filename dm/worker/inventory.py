"""The sources and tasks that the daemon has in memory, found by name.

`registry.py` keeps on disk what must outlive the daemon; here are the files as they are understood, and the jobs that
run. All methods are called on the loop's thread (dm/worker/loop.py), so nothing is locked.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.config.subtask import RunBy
from dm.errors import DMError
from dm.verbs.declaration import ConfigFile
from dm.worker.home import Home
from dm.worker.job import Job
from dm.worker.registry import RelayIntent


@dataclass
class Source:
    """An upstream server as it is known here."""

    file: ConfigFile
    config: SourceConfig | DMError  # the error when a file that was stored can't be understood any more
    relay_asked: bool | None = None  # by start-relay, not by stop-relay; None: its file decides
    relay_intent: RelayIntent = "running"
    relay: Job | None = None
    here: bool = True  # whether this host runs its relay and its subtasks


@dataclass
class Task:
    """A task and its subtasks by source."""

    file: ConfigFile
    config: TaskConfig | DMError
    jobs: dict[str, Job] = field(default_factory=dict)


class Inventory:
    """All sources and tasks by name; each raises DMError for a name that is not known."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.run_by = RunBy(host=socket.gethostname(), home=str(home.directory))
        self.sources: dict[str, Source] = {}
        self.tasks: dict[str, Task] = {}  # those with a subtask here
        self.worker = socket.gethostname()  # what this host is called
        self.alone = True  # no other host has sources of this registry

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
        return self.run_here(config.subtask(source, self.source_configs()))

    def run_here(self, config: SubtaskConfig) -> SubtaskConfig:
        """The same, for a unit of this daemon."""
        return config.model_copy(update={"run_by": self.run_by})

    def source_config(self, source: str) -> SourceConfig | DMError:
        """A source's file, or what is wrong with it."""
        return self.sources[source].config

    def relay_runs(self, source: str) -> bool:
        """Whether a relay pulls the source's binlog; raises DMError."""
        return self.source(source).relay is not None

    def source_configs(self) -> dict[str, SourceConfig]:
        """The sources whose files are understood."""
        return {name: one.config for name, one in self.sources.items() if isinstance(one.config, SourceConfig)}

    def relay_directory(self, name: str, source: Source | None = None) -> Path:
        """Where a source's relay files are; in a directory that its file names, each source has a part of its own.

        Raises DMError: a task's file may name a source that is gone, where no subtask of the task is left on it.
        """
        source = source or self.source(name)
        if isinstance(source.config, SourceConfig) and source.config.relay_dir:
            return Path(source.file.directory) / source.config.relay_dir / name
        return self.home.relay(name)

    def relays(self, sources: Iterable[str]) -> dict[str, Path]:
        """The relay directories of these sources, as far as there are relays."""
        return {name: self.relay_directory(name) for name in sources if self.relay_runs(name)}

    def tasks_of(self, source: str) -> list[str]:
        """The tasks that have a subtask on the source."""
        return [name for name, task in self.tasks.items() if source in task.jobs]
