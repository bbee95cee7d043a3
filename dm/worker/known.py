"""Sources and tasks as the daemon knows them: their files, what these say, and the jobs that run for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dm.config import SourceConfig, TaskConfig
from dm.errors import DMError
from dm.worker.job import Job
from dm.worker.registry import ConfigFile, RelayIntent


@dataclass
class Source:
    """An upstream server as it is known here."""

    file: ConfigFile
    config: SourceConfig | DMError  # the error when a file that was stored can't be understood any more
    relay_asked: bool | None = None  # by start-relay, not by stop-relay; None: its file decides
    relay_intent: RelayIntent = "running"
    relay: Job | None = None


@dataclass
class Task:
    """A task and its subtasks by source."""

    file: ConfigFile
    config: TaskConfig | DMError
    jobs: dict[str, Job] = field(default_factory=dict)
