"""Which tasks have progress in a schema of the target, and removing what is stored of one that is forgotten.

The tables of a task are named after it. Only the target knows all tasks that ever used it: of this daemon, of others,
and of DM itself, whose checkpoint has the same name. So nothing here decides that a task is forgotten: a person names
it.

A removal first takes the right to change the progress of each source; an open run, of any daemon, prevents it. One
table may stay: the record of indexes that a load has dropped and not restored. Without it, they would stay missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Final

from dm.config import TaskConfig
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.checkpoint import no_other_run
from dm.progress.shards.group import ShardTables
from dm.progress.tables import SubtaskKey, own_tables, share_name
from dm.progress.validator import ValidatorTables
from dm.session.answers import reads_answers

_SHARE: Final = share_name("")


@dataclass(slots=True)
class StoredTask:
    """What a schema has of one task."""

    task: str
    tables: list[TableName] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    updated: str = ""  # when its checkpoint was last written, in UTC; empty where it has none


@reads_answers
def stored_tasks(connection: TargetConnection, meta_schema: str) -> list[StoredTask]:
    """All tasks with tables in the schema, by name."""
    rows = connection.query("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (meta_schema,))
    endings = sorted(_endings(), key=len, reverse=True)
    found: dict[str, StoredTask] = {}
    for name in sorted(str(row[0]) for row in rows):
        ending = next((one for one in endings if name.endswith(one) and name != one), None)
        if ending is not None:
            task = name.removesuffix(ending).removesuffix(_SHARE)
            found.setdefault(task, StoredTask(task)).tables.append(TableName(meta_schema, name))
    for stored in found.values():
        _look_into(connection, SubtaskKey(meta_schema, stored.task, ""), stored)
    return [found[name] for name in sorted(found)]


def _endings() -> list[str]:
    nobody = SubtaskKey("", "", "")
    shards = ShardTables.of(nobody)
    tables = [
        nobody.stored_format,
        *own_tables(nobody),
        nobody.session,
        nobody.sources,
        shards.group,
        shards.ddl,
        *ValidatorTables.of(nobody).all,
    ]
    return [table.table for table in tables]


@reads_answers
def _look_into(connection: TargetConnection, key: SubtaskKey, task: StoredTask) -> None:
    ids: set[str] = set()
    for table in (key.checkpoint, key.worker, key.table("loader_checkpoint")):
        if table in task.tables:
            ids |= {str(row[0]) for row in connection.query(f"SELECT DISTINCT id FROM {table.sql}")}
    task.sources = sorted(one for one in ids if not one.startswith("~"))  # those of second passes are no names
    if key.checkpoint in task.tables:
        ((updated,),) = connection.query(f"SELECT MAX(update_time) FROM {key.checkpoint.sql}")
        task.updated = "" if updated is None else str(updated)


def remove_task(connection: TargetConnection, meta_schema: str, name: str) -> list[TableName]:
    """Drop the tables of a task; returns those that stay. Raises DMError while a run of it is open anywhere."""
    task = next((one for one in stored_tasks(connection, meta_schema) if one.task == name), None)
    if task is None:
        return []
    key = SubtaskKey(meta_schema, name, "")
    with ExitStack() as held:
        for source in task.sources:
            held.enter_context(no_other_run(connection, SubtaskKey(meta_schema, name, source)))
        kept = [table for table in task.tables if _has_work_left(connection, key, table)]
        for table in task.tables:
            if table not in kept:
                connection.execute(f"DROP TABLE IF EXISTS {table.sql}")
        connection.commit()
    return kept


def _has_work_left(connection: TargetConnection, key: SubtaskKey, table: TableName) -> bool:
    if table not in (key.deferral, key.share.deferral):
        return False
    return bool(connection.query(f"SELECT 1 FROM {table.sql} LIMIT 1"))


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
