"""Stored or sent files to configuration: the one way in for both.

Whether the directories of relay and dump files can be used, asked before anything relies on them.

A directory that is needed no more must not keep a task from going on: a task that has loaded already needs no place for
dump files. Who asks the target for that is asked only where a directory can't be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dm.config import SourceConfig, SubtaskConfig, TaskConfig, read_source, read_task
from dm.config.secret import SecretKey
from dm.dumpfiles.storage import unusable
from dm.errors import DMError
from dm.task.payload import dump_storage
from dm.task.precheck.context import CheckResult
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import UnitName
from dm.verbs.declaration import ConfigFile
from dm.worker.inventory import Task


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


FirstUnit = Callable[[SubtaskConfig], UnitName | None]


def demand_relay_directory(source: str, directory: Path) -> None:
    """Raise DMError when relay files can't be stored there."""
    why = unusable(directory)
    if why:
        raise DMError("relay-directory-unusable", source=source, directory=directory, cause=why)


def directories(config: SubtaskConfig, work: Path, relay: Path, first_unit: FirstUnit | None) -> Iterator[CheckResult]:
    """What is wrong with the directories that the subtask will write to; `first_unit` says with what it goes on."""
    units = UNITS_OF_MODE[config.mode]
    if units[0] == "Sync":
        return
    subject = f"source {config.source_id}"
    if "Dump" in units:
        error = dump_storage(config, work).refusal()
        if error is not None and _copies(config, first_unit):
            text = f"{error.message}: {error.cause}" if error.cause else error.message
            yield CheckResult("dump_directory", subject, "failure", text, error.workaround)
    if "Sync" in units:
        why = unusable(relay)
        if why:
            error = DMError("relay-directory-unusable", source=config.source_id, directory=relay)
            yield CheckResult("relay_directory", subject, "failure", f"{error.message}: {why}", error.workaround)


def _copies(config: SubtaskConfig, first_unit: FirstUnit | None) -> bool:
    if first_unit is None:
        return True
    try:
        return first_unit(config) == "Dump"
    except DMError:
        return True  # what keeps the target from telling is a finding of its own


_FILE_KEYS: Final = {
    "target": "target-database",
    "mode": "task-mode",
    "dumper": "mydumpers",
    "loader": "loaders",
    "syncer": "syncers",
    "validator": "validators",
    "expression_filters": "expression-filter",
    "order": "merge-order",
}
"""Keys of a task file that a subtask has under another name."""

_PLACES: Final = {"session_places"}
_NOT_COMPARED: Final[dict[str, Any]] = {
    "sole_source": True, "neighbours": True, "shard_sources": True, "order": {"sources"},  # of other sources
    "target": _PLACES, "source": {"endpoint": _PLACES}, "expression_filters": {"__all__": {"places"}},  # in the file
}  # fmt: skip


def differences(
    known: Task, file: ConfigFile, config: TaskConfig, source: str, sources: Mapping[str, SourceConfig]
) -> list[str]:
    """By what a task would be another one on a source that it runs on already."""
    if source not in config.source_ids:
        return [f"`mysql-instances` without {source}"]
    if isinstance(known.config, DMError) or source not in sources:
        return [] if known.file.text == file.text else ["its file can't be read any more, and this is another one"]
    before, after = (
        one.subtask(source, sources).model_dump(exclude=_NOT_COMPARED, context={"reveal": True})
        for one in (known.config, config)
    )
    return [f"`{_FILE_KEYS.get(key, key.replace('_', '-'))}`" for key in before if before[key] != after[key]]
