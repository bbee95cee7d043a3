"""Stored or sent files to configuration: the one way in for both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dm.config import SourceConfig, TaskConfig, read_source, read_task
from dm.worker.registry import ConfigFile


def parse_source(file: ConfigFile) -> SourceConfig:
    """The source in a file; raises ConfigErrors."""
    return read_source(file.text, file=file.name, directory=Path(file.directory), environ=file.environment)


def parse_task(file: ConfigFile, sources: Mapping[str, SourceConfig]) -> tuple[TaskConfig, list[str]]:
    """The task in a file, checked against the sources there are, and the warnings; raises ConfigErrors."""
    task = read_task(file.text, sources, file=file.name, directory=Path(file.directory), environ=file.environment)
    return task, [str(warning) for warning in task.warnings]
