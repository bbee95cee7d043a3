"""What stored progress says of a subtask before it runs.

Which tasks have progress in a schema of the target, and removing what is stored of one that is forgotten.

The tables of a task are named after it. Only the target knows all tasks that ever used it: of this daemon, of others,
and of DM itself, whose checkpoint has the same name. So nothing here decides that a task is forgotten: a person names
it.

A removal first takes the right to change the progress of each source; an open run, of any daemon, prevents it. One
table may stay: the record of indexes that a load has dropped and not restored. Without it, they would stay missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dm.config import SubtaskConfig, TaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import load_plan, remove_files
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, has_checkpoint, no_other_run, read_checkpoint
from dm.progress.load_parts import begun_dump, load_is_finished
from dm.progress.shards.group import ShardTables
from dm.progress.shards.holds import earliest
from dm.progress.shards.members import waiting_tables
from dm.progress.tables import SubtaskKey, existing_tables, own_tables, remove_progress, share_name
from dm.progress.validator import ValidatorTables, remove_validation
from dm.session.answers import reads_answers
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end, binlog_files, read_facts
from dm.sourcelog.upstream.lineage import still_has
from dm.task.payload import dump_storage, join_directory, sync_directory, validator_directory
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import JSON, UnitName


def first_unit(config: SubtaskConfig) -> UnitName | None:
    """The unit to begin with: a syncer that has a point goes on from it, all else begins at the beginning.

    Dump and load find out by themselves which of their chunks are done, so that one that is complete just ends. Only a
    finished load has to be asked for, since its dump files may be gone. None when nothing is left to do.
    """
    units = UNITS_OF_MODE[config.mode]
    if "Load" not in units:
        return units[0]
    connection = TargetConnection(config.target)
    try:
        if "Sync" in units:
            return "Sync" if has_checkpoint(connection, key_of(config)) else units[0]
        return None if load_is_finished(connection, key_of(config)) else units[0]
    finally:
        connection.close()


def reading_key(connection: TargetConnection, config: SubtaskConfig) -> SubtaskKey:
    """Whose progress moves next: a second pass's, where a merge of shards has one to finish."""
    key = key_of(config)
    return key.second if config.shard_mode and has_checkpoint(connection, key.second) else key


def stored_checkpoint(config: SubtaskConfig) -> Checkpoint | None:
    """The subtask's checkpoint; None where it never had one."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        return read_checkpoint(connection, key) if has_checkpoint(connection, key) else None


def places_needed(config: SubtaskConfig) -> list[Position]:
    """The places after which the subtask has yet to read the binlog, its checkpoint first; none if it has none."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        checkpoint = read_checkpoint(connection, key) if has_checkpoint(connection, key) else None
        if checkpoint is None:
            return []
        held = config.shard_mode and ShardTables.of(key).held in existing_tables(connection, key)
        waiting = waiting_tables(connection, key) if held else []
        return [checkpoint.position, *(place for _, place in waiting)]


def hold_place(config: SubtaskConfig, work_directory: Path, relay_directory: Path) -> None:
    """Have a task that is about to start hold the relay's files from its stored place on, or say that it begins.

    The relay may go on after a gap as soon as it runs, so it has to know before. Without a checkpoint a dump or a load
    that has begun, also of another program's dump, needs an unknown place, and the hold stays as it is. Raises DMError.
    """
    hold = Hold(relay_directory, config.task)
    places = places_needed(config)
    if places:
        hold.keep_from(earliest(places))
        return
    with closing(TargetConnection(config.target)) as connection:
        units = UNITS_OF_MODE[config.mode]
        loads = "Load" in units and begun_dump(connection, key_of(config))
    dumps = "Dump" in units and load_plan(dump_storage(config, work_directory)) is not None
    if not (loads or dumps):
        hold.begin()


def forget_progress(config: SubtaskConfig, work_directory: Path) -> None:
    """Drop a subtask's progress in the target, its dump files, and what its syncer holds on disk."""
    connection = TargetConnection(config.target)
    try:
        with no_other_run(connection, key_of(config)):
            remove_progress(connection, key_of(config))
            remove_validation(connection, key_of(config))
    finally:
        connection.close()
    if "Dump" in UNITS_OF_MODE[config.mode]:  # else the files are what the task is to load
        remove_files(dump_storage(config, work_directory))
    for directory in (sync_directory, validator_directory, join_directory):
        held = directory(work_directory, config.source_id)
        if held.exists():
            shutil.rmtree(held)


def demand_sole_run(config: SubtaskConfig) -> None:
    """Ask the target whether a run of this task is open, of another daemon; raises DMError where one is."""
    connection = TargetConnection(config.target)
    try:
        with no_other_run(connection, key_of(config)):
            pass
    finally:
        connection.close()


def demand_readable(config: SubtaskConfig) -> None:
    """Ask whether the source still has what the task has yet to apply; raises DMError `relay-holds-more` where not."""
    target = TargetConnection(config.target)
    with closing(target):
        known = has_checkpoint(target, key_of(config))
        checkpoint = read_checkpoint(target, key_of(config)) if known else None
    if checkpoint is None:
        return  # it begins where its file says, at the source
    position = checkpoint.position
    connection = connect(config.source.endpoint)
    with closing(connection):
        there = still_has(connection, read_facts(connection), position)
        names = [name for name, _ in binlog_files(connection)]
    if not there:
        first = names[0] if names else "nothing"
        raise DMError("relay-holds-more", source=config.source_id, task=config.task, place=position, first=first)


def key_of(config: SubtaskConfig) -> SubtaskKey:
    """Whose progress it is."""
    return SubtaskKey(config.meta_schema, config.task, config.source_id)


# What targets have of tasks, for verbs that list and remove what forgotten tasks have left.


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


@dataclass(frozen=True, slots=True)
class FinalPlace:
    """A subtask's place in both binlogs.

    These are two places in two binlogs. The checkpoint is a place in the source's binlog: everything before it is at
    the target. The end of the target's own binlog is read when the task applies nothing more. There the way back
    begins: applications write to the target only after it.
    """

    checkpoint: Position | None = None  # None: it has none
    bound: Position | None = None  # what may be applied beyond it, where a run was killed
    target: str = ""  # its address
    target_end: Position | None = None  # None: it writes no binlog, or does not tell

    def to_json(self) -> dict[str, JSON]:
        """Fields of `stop-task`."""
        return {
            "syncerBinlog": _text(self.checkpoint),
            "syncerBinlogGtid": _gtids(self.checkpoint),
            "appliedUpTo": _text(self.bound),
            "target": self.target,
            "targetBinlog": _text(self.target_end),
            "targetBinlogGtid": _gtids(self.target_end),
        }


def final_place(config: SubtaskConfig) -> FinalPlace:
    """Ask the target; raises DMError where it can't be asked for the checkpoint."""
    found = stored_checkpoint(config)
    end = _target_end(config)
    if found is None:
        return FinalPlace(target=config.target.address, target_end=end)
    return FinalPlace(found.position, found.bound, config.target.address, end)


def _target_end(config: SubtaskConfig) -> Position | None:
    """The end of the target's binlog; None where it has none, or where the account may not know it."""
    try:
        with closing(connect(config.target)) as connection:
            facts = read_facts(connection)
            return binlog_end(connection, facts) if facts.log_bin else None
    except DMError as error:
        if error.retryable:
            raise
        return None


def _text(position: Position | None) -> str:
    return "" if position is None else str(position)


def _gtids(position: Position | None) -> str:
    return "" if position is None else str(position.gtid_set)


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
