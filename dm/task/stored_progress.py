"""What targets have of tasks, for verbs that list and remove what forgotten tasks have left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from dm.config import TaskConfig
from dm.downstream.connection import TargetConnection
from dm.progress.stored_tasks import StoredTask, remove_task, stored_tasks


@dataclass(frozen=True, slots=True)
class Place:
    """A schema of a target where tasks keep their progress; `of` is a task that has it there."""

    of: TaskConfig

    @property
    def name(self) -> str:
        """The address and the schema."""
        return f"{self.of.target_database.address}/{self.of.meta_schema}"


def _listed(place: Place) -> Sequence[StoredTask]:
    with closing(TargetConnection(place.of.target_database)) as connection:
        return stored_tasks(connection, place.of.meta_schema)


def _remove(place: Place, task: str) -> Sequence[str]:
    with closing(TargetConnection(place.of.target_database)) as connection:
        return [table.sql for table in remove_task(connection, place.of.meta_schema, task)]


@dataclass(frozen=True, slots=True)
class StoredProgress:
    """The questions, each with a connection of its own; raise DMError."""

    listed: Callable[[Place], Sequence[StoredTask]] = _listed
    remove: Callable[[Place, str], Sequence[str]] = _remove  # gives the tables that stay
