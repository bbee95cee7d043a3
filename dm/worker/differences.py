"""By what one task file differs from another, for a source that both have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dm.config import SourceConfig, TaskConfig
from dm.errors import DMError
from dm.verbs.parameters import ConfigFile
from dm.worker.supervisor import Task

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

_OF_OTHER_SOURCES: Final[dict[str, bool | set[str]]] = {
    "sole_source": True, "neighbours": True, "shard_sources": True, "order": {"sources"}
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
        one.subtask(source, sources).model_dump(exclude=_OF_OTHER_SOURCES, context={"reveal": True})
        for one in (known.config, config)
    )
    return [f"`{_FILE_KEYS.get(key, key.replace('_', '-'))}`" for key in before if before[key] != after[key]]
