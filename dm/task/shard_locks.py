"""`dmctl shard-ddl-lock`: what a task's shards wait for is read at its target, and a decision is stored there.

No run has to be asked: whoever holds a shard looks at the target again and again.

The DDLs that wait in the groups of a task that merges shards, and a person's decisions about them.

DM calls a DDL that is not executed yet a lock. A decision is one transaction under the group's latch: nobody waits for
some shards at this DDL any more (`waived`), or the DDL is not executed (`skipped`). The shards' runs do the rest: one
that is there executes the DDL, and a later shard finds it executed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

from dm import faults
from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.lane_rows import transaction
from dm.progress.shards.group import DdlState, Member, ShardGroup, ShardTables, create_shard_tables, lock_id
from dm.progress.shards.members import remove_source, remove_table, waiting_tables
from dm.progress.shards.numbered_ddls import ShardGroups
from dm.progress.tables import SubtaskKey, create_tables, reads, texts
from dm.session.answers import reads_answers
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


@dataclass(frozen=True, slots=True)
class Waiting:
    """A shard of a lock."""

    member: Member
    arrived: bool
    since: datetime


@dataclass(frozen=True, slots=True)
class Lock:
    """A DDL of a target table that is not executed yet."""

    task: str
    target: TableName
    number: int
    statements: tuple[str, ...]
    owner: str  # the source that arrived first
    since: datetime
    shards: tuple[Waiting, ...]
    absent: tuple[str, ...]  # sources that have not joined yet

    @property
    def id(self) -> str:
        """As DM names it."""
        return lock_id(self.task, self.target)

    @property
    def synced(self) -> tuple[str, ...]:
        """The sources whose shards have all arrived."""
        return tuple(sorted({each.member.source_id for each in self.shards} - set(self.unsynced)))

    @property
    def unsynced(self) -> tuple[str, ...]:
        """The other sources."""
        missing = {each.member.source_id for each in self.shards if not each.arrived}
        return tuple(sorted(missing | set(self.absent)))


@reads(lambda key: ShardTables.of(key).ddl)
def read_locks(connection: TargetConnection, key: SubtaskKey) -> list[Lock]:
    """All locks of a task; raises DMError."""
    tables = ShardTables.of(key)
    rows = connection.query(
        "SELECT d.t_schema, d.t_table, d.number, d.statements, d.owner, UNIX_TIMESTAMP(d.create_time)"
        f" FROM {tables.ddl.sql} d JOIN {tables.group.sql} g ON g.t_schema = d.t_schema AND g.t_table = d.t_table"
        " WHERE d.number > g.executed ORDER BY d.t_schema, d.t_table"
    )
    absent = tuple(
        str(row[0]) for row in connection.query(f"SELECT id FROM {tables.source.sql} WHERE NOT joined ORDER BY id")
    )
    locks = []
    for schema, table, number, statements, owner, since in rows:
        target = TableName(str(schema), str(table))
        group, moments = ShardGroups(key).group(connection, target), _moments(connection, tables, target)
        shards = [
            Waiting(each, each.ready >= int(number), moments[each.source_id, each.table])
            for each in group.members
            if (each.source_id, each.table) in moments
        ]
        locks.append(
            Lock(
                key.task, target, int(number), texts(statements), str(owner).partition(" ")[0],
                _moment(since), tuple(shards), absent,
            )
        )  # fmt: skip
    return locks


@reads_answers
def _moments(
    connection: TargetConnection, tables: ShardTables, target: TableName
) -> dict[tuple[str, TableName], datetime]:
    rows = connection.query(
        f"SELECT id, s_schema, s_table, UNIX_TIMESTAMP(since) FROM {tables.table.sql}"
        " WHERE t_schema = %s AND t_table = %s",
        tuple(target),
    )
    return {(str(row[0]), TableName(str(row[1]), str(row[2]))): _moment(row[3]) for row in rows}


def _moment(seconds: object) -> datetime:
    return datetime.fromtimestamp(float(str(seconds)), UTC)


@reads(lambda key: ShardTables.of(key).group)
def find_target(connection: TargetConnection, key: SubtaskKey, wanted: str) -> TableName | None:
    """The target table of a lock's ID, even if nothing waits there."""
    rows = connection.query(f"SELECT t_schema, t_table FROM {ShardTables.of(key).group.sql}")
    targets = (TableName(str(row[0]), str(row[1])) for row in rows)
    return next((target for target in targets if lock_id(key.task, target) == wanted), None)


@reads(lambda key: ShardTables.of(key).ddl)
def unlock(
    connection: TargetConnection, key: SubtaskKey, target: TableName, chosen: Callable[[Member], bool], *, skip: bool
) -> ShardGroup:
    """Waive these shards at the open DDL; with `skip`, have the DDL not executed. Returns the group; raises DMError."""
    tables, groups = ShardTables.of(key), ShardGroups(key)
    with transaction(connection):
        executed = groups.latched(connection, target)
        number = executed + 1
        rows = connection.query(
            f"SELECT state FROM {tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*target, number),
        )
        if not rows:
            raise DMError("shard-lock-not-found", lock=lock_id(key.task, target))
        if skip and str(rows[0][0]) in (DdlState.BEGUN, DdlState.EXECUTING):
            raise DMError("shard-lock-resolving", lock=lock_id(key.task, target))
        for member in groups.group(connection, target, executed).missing(number):
            if chosen(member):
                connection.execute(
                    f"UPDATE {tables.table.sql} SET waived = %s, since = since"
                    " WHERE id = %s AND s_schema = %s AND s_table = %s",
                    (number, member.source_id, *member.table),
                )
        if skip:
            connection.execute(
                f"UPDATE {tables.ddl.sql} SET skipped = 1 WHERE t_schema = %s AND t_table = %s AND number = %s",
                (*target, number),
            )
        group = groups.group(connection, target, executed)
        faults.hit("unlock.stored")
    faults.hit("unlock.committed")
    return group


def give_up(
    connection: TargetConnection, key: SubtaskKey, table: TableName | None = None
) -> list[tuple[TableName, Position]]:
    """Remove a source, or one of its tables, from all groups; returns the lost tables and where their rows begin."""
    with transaction(connection):
        lost = waiting_tables(connection, key)
        if table is None:
            remove_source(connection, key)
        else:
            remove_table(connection, key, table)
        faults.hit("unlock.given_up")
    faults.hit("unlock.committed")
    return [each for each in lost if table in (None, each[0])]
