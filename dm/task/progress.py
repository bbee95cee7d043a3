"""What stored progress says of a subtask before it runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import load_plan, remove_files
from dm.errors import DMError
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, has_checkpoint, no_other_run, read_checkpoint
from dm.progress.conflict_record import clear_conflicts, read_conflicts
from dm.progress.load_parts import begun_dump, load_is_finished
from dm.progress.shards.group import ShardTables
from dm.progress.shards.held_shards import earliest
from dm.progress.shards.members import waiting_tables
from dm.progress.tables import SubtaskKey, existing_tables, remove_progress
from dm.progress.validator import remove_validation
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import binlog_end, binlog_files, read_facts
from dm.sourcelog.upstream.lineage import still_has
from dm.task.payload import dump_storage, join_directory, sync_directory, validator_directory
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import JSON, UnitName


def _read_conflicts(config: SubtaskConfig, most: int) -> tuple[int, list[dict[str, JSON]]]:
    with closing(TargetConnection(config.target)) as connection:
        return read_conflicts(connection, key_of(config), most)


def _clear_conflicts(config: SubtaskConfig) -> int:
    with closing(TargetConnection(config.target)) as connection:
        return clear_conflicts(connection, [key_of(config)])


@dataclass(frozen=True, slots=True)
class RecordedConflicts:
    """The record of conflicts at the target, whether the subtask runs or not; raise DMError."""

    read: Callable[[SubtaskConfig, int], tuple[int, list[dict[str, JSON]]]] = _read_conflicts
    clear: Callable[[SubtaskConfig], int] = _clear_conflicts


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
