"""`dmctl shard-ddl-lock`: what a task's shards wait for is read at its target, and a decision is stored there.

No run has to be asked: whoever holds a shard looks at the target again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.shards.group import Member
from dm.progress.shards.locks import Lock, find_target, give_up, read_locks, unlock
from dm.progress.shards.tables import create_shard_tables
from dm.progress.tables import SubtaskKey, create_tables
from dm.task.progress import key_of
from dm.unit import JSON

NO_LOCK = "no DDL lock exists"  # in DM's words


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person says about a lock."""

    lock: str
    sources: tuple[str, ...] = ()  # whose shards are meant; all when none is named
    table: TableName | None = None  # of a source
    skip: bool = False
    force_remove: bool = False

    def means(self, member: Member) -> bool:
        """Whether the decision is about a shard."""
        return member.source_id in (self.sources or (member.source_id,)) and self.table in (None, member.table)


def locks(config: SubtaskConfig) -> list[JSON]:
    """The locks of a task, as DM shows them, with the shards beside; raises DMError."""
    with closing(TargetConnection(config.target)) as connection:
        create_shard_tables(connection, key_of(config))
        return [_shown(lock, config.shard_mode) for lock in read_locks(connection, key_of(config))]


def _shown(lock: Lock, mode: str) -> JSON:
    shards: list[JSON] = [
        {
            "source": each.member.source_id, "table": each.member.table.sql, "arrived": each.arrived,
            "waived": each.member.waived >= lock.number, "since": each.since.isoformat(sep=" ", timespec="seconds"),
        }
        for each in lock.shards
    ]  # fmt: skip
    return {
        "ID": lock.id,
        "task": lock.task,
        "mode": mode,
        "owner": lock.owner,
        "DDLs": list[JSON](lock.statements),
        "synced": list[JSON](lock.synced),
        "unsynced": list[JSON](lock.unsynced),
        "since": lock.since.isoformat(sep=" ", timespec="seconds"),
        "shards": shards,
        "sourcesMissing": list[JSON](lock.absent),
    }


def decide(config: SubtaskConfig, decision: Decision) -> str:
    """Carry a decision out; gives what is to be said of it. Raises DMError."""
    key = key_of(config)
    with closing(TargetConnection(config.target)) as connection:
        create_tables(connection, key)
        create_shard_tables(connection, key)
        target = find_target(connection, key, decision.lock)
        if target is None:
            raise DMError("shard-lock-not-found", lock=decision.lock)
        if decision.force_remove and decision.sources:
            return "; ".join(_given_up(connection, key, source, decision.table) for source in decision.sources)
        group = unlock(connection, key, target, decision.means, skip=decision.skip)
        missing = group.missing(group.executed + 1)
        words = [f"{each.source_id} {each.table.sql}" for each in missing]
        words += [] if group.joined else ["sources that have not run yet: start them, or take them out of the file"]
        return f"still waited for: {', '.join(words)}" if words else ""


def _given_up(connection: TargetConnection, key: SubtaskKey, source: str, table: TableName | None) -> str:
    lost = give_up(connection, SubtaskKey(key.meta_schema, key.task, source), table)
    places = ", ".join(f"{each.sql} from {place}" for each, place in lost)
    who = f"source {source}" if table is None else f"{table.sql} of source {source}"
    return f"{who} is no member any more" + (f"; rows are given up: {places}" if places else "")


@dataclass(frozen=True, slots=True)
class ShardLocks:
    """The two, for whoever is not to know databases."""

    locks: Callable[[SubtaskConfig], list[JSON]] = locks
    decide: Callable[[SubtaskConfig, Decision], str] = decide
