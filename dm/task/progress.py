"""What stored progress says of a subtask before it runs."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_directory import remove_files
from dm.dumpfiles.dump_files import load_plan
from dm.errors import DMError
from dm.progress.checkpoint import Checkpoint, has_checkpoint, read_checkpoint
from dm.progress.load_parts import load_is_finished
from dm.progress.restart import no_other_run
from dm.progress.tables import SubtaskKey, remove_progress
from dm.progress.validator_tables import remove_validation
from dm.task.payload import dump_storage, join_directory, sync_directory, validator_directory
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import UnitName
from dm.upstream.connection import connect
from dm.upstream.facts import binlog_files, purged_gtids, read_facts


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


def begins_anew(config: SubtaskConfig, work_directory: Path) -> bool:
    """Whether the subtask begins with a dump that no earlier run has planned: no old place means anything to it."""
    if UNITS_OF_MODE[config.mode][0] != "Dump" or first_unit(config) != "Dump":
        return False
    return load_plan(dump_storage(config, work_directory)) is None


def reading_key(connection: TargetConnection, config: SubtaskConfig) -> SubtaskKey:
    """Whose progress moves next: a second pass's, where a merge of shards has one to finish."""
    key = key_of(config)
    return key.second if config.shard_mode and has_checkpoint(connection, key.second) else key


def stored_checkpoint(config: SubtaskConfig) -> Checkpoint | None:
    """The subtask's checkpoint; None where it never had one."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        return read_checkpoint(connection, key) if has_checkpoint(connection, key) else None


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
        facts = read_facts(connection)
        names = [name for name, _ in binlog_files(connection)]
        if position.file and position.server_uuid == facts.server_uuid:
            there = position.file in names
        else:
            there = bool(position.gtid_set and facts.gtid_mode) and not (
                purged_gtids(connection, facts) - position.gtid_set
            )
    if not there:
        first = names[0] if names else "nothing"
        raise DMError("relay-holds-more", source=config.source_id, task=config.task, place=position, first=first)


def key_of(config: SubtaskConfig) -> SubtaskKey:
    """Whose progress it is."""
    return SubtaskKey(config.meta_schema, config.task, config.source_id)
