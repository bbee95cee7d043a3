"""Stored or sent files to configuration: the one way in for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dm.config import SourceConfig, TaskConfig, read_source, read_task
from dm.config.secret import SecretKey
from dm.errors import DMError
from dm.task.subtask import UNITS_OF_MODE
from dm.verbs.parameters import ConfigFile


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """Reads them with the key of passwords that DM has encrypted."""

    key_file: Path

    def encrypted(self, password: str) -> str:
        """A password as a file may hold it; raises DMError `secret-key-unusable`."""
        return SecretKey.read(self.key_file).encrypt(password)

    def source(self, file: ConfigFile) -> SourceConfig:
        """The source in a file; raises ConfigErrors."""
        return read_source(
            file.text, file=file.name, directory=Path(file.directory), environ=file.environment, key_file=self.key_file
        )

    def task(self, file: ConfigFile, sources: Mapping[str, SourceConfig] | None) -> tuple[TaskConfig, list[str]]:
        """The task in a file, and the warnings; raises ConfigErrors.

        It is checked against the sources there are, or not where None are given.
        """
        task = read_task(
            file.text,
            sources,
            file=file.name,
            directory=Path(file.directory),
            environ=file.environment,
            key_file=self.key_file,
        )
        return task, [str(warning) for warning in task.warnings]


def sources_of(config: TaskConfig, wanted: Sequence[str]) -> list[str]:
    """The sources that are named, else all of the task's; raises DMError."""
    there = config.source_ids
    for source in wanted:
        if source not in there:
            raise DMError("task-not-on-source", task=config.name, source=source, sources=", ".join(there))
    return list(wanted or there)


def syncs(config: TaskConfig | DMError) -> bool:
    """Whether a task follows the binlog; one whose file can't be understood any more keeps what it needs."""
    return isinstance(config, DMError) or "Sync" in UNITS_OF_MODE[config.task_mode]
