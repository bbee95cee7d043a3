"""Which sources a task that merges shards has: nothing is resolved before each of them has said which shards it has.

A source that the task file names no more is waited for no more, and its run is ended. Where rows of its shards are held
they would be lost with it, so that is a person's decision (`remove_source`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dm import faults
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import TablePoint, read_checkpoint, write_table
from dm.progress.shards.groups import JOINS_AGAIN, ShardGroups
from dm.progress.shards.holds import read_held
from dm.progress.shards.tables import ShardTables, lock_id
from dm.progress.tables import SubtaskKey


def expect_sources(connection: TargetConnection, key: SubtaskKey, sources: Sequence[str]) -> None:
    """Store which sources the task has, in the open transaction of a run; raises DMError where one left rows behind."""
    table = ShardTables.of(key).source.sql
    known = [str(row[0]) for row in connection.query(f"SELECT id FROM {table} ORDER BY id")]
    for source in sorted(sources):
        if source not in known:
            connection.execute(f"INSERT IGNORE INTO {table} (id) VALUES (%s)", (source,))
    for source in known:
        if source not in sources:
            left = SubtaskKey(key.meta_schema, key.task, source)
            _end_run(connection, left)
            waiting = waiting_tables(connection, left)
            if waiting:
                places = ", ".join(f"{name.sql} from {place}" for name, place in waiting)
                lock = lock_id(key.task, _target_of(connection, left, waiting[0][0]))
                raise DMError("shard-source-left", task=key.task, source=source, places=places, lock=lock)
            forget_source(connection, left)
            faults.hit("unlock.source_left")


def waiting_tables(connection: TargetConnection, key: SubtaskKey) -> list[tuple[TableName, Position]]:
    """The shards of a source whose rows are not all applied up to its checkpoint, and from where on they are not."""
    found = {each.table: each.place for each in read_held(connection, key)}
    second = read_checkpoint(connection, key.second)
    if second is not None:
        for table, point in second.tables.items():
            begins = point.point or second.position
            found[table] = second.position if second.position.covers(begins) else begins
    return sorted(found.items())


def _target_of(connection: TargetConnection, key: SubtaskKey, table: TableName) -> TableName:
    return next(shard.target for shard in ShardGroups(key).shards(connection) if shard.table == table)


def remove_source(connection: TargetConnection, key: SubtaskKey) -> None:
    """Take a source out of all groups, with the rows that it holds; in the open transaction of whoever decides that."""
    _end_run(connection, key)
    forget_source(connection, key)
    connection.execute(f"DELETE FROM {ShardTables.of(key).held.sql} WHERE id = %s", (key.source_id,))
    connection.execute(f"DELETE FROM {key.checkpoint.sql} WHERE id = %s", (key.second.source_id,))


def remove_table(connection: TargetConnection, key: SubtaskKey, table: TableName) -> None:
    """The same for one shard of a source; its later rows are those of a new shard, which joins with the next run."""
    _end_run(connection, key)
    groups = ShardGroups(key)
    for shard in groups.shards(connection):
        if shard.table == table:
            groups.leave(connection, shard)
            connection.execute(
                f"UPDATE {ShardTables.of(key).source.sql} SET joined = {JOINS_AGAIN} WHERE id = %s AND joined",
                (key.source_id,),
            )
            checkpoint = read_checkpoint(connection, key)
            if checkpoint is not None and table not in checkpoint.tables:
                write_table(connection, key, table, TablePoint(None))
    connection.execute(
        f"DELETE FROM {ShardTables.of(key).held.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
        (key.source_id, *table),
    )
    connection.execute(
        f"DELETE FROM {key.checkpoint.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
        (key.second.source_id, *table),
    )


def forget_source(connection: TargetConnection, key: SubtaskKey) -> None:
    """Its shards are waited for no more."""
    tables, groups = ShardTables.of(key), ShardGroups(key)
    for shard in groups.shards(connection):
        groups.leave(connection, shard)
    connection.execute(f"DELETE FROM {tables.source.sql} WHERE id = %s", (key.source_id,))


def _end_run(connection: TargetConnection, key: SubtaskKey) -> None:
    """A run that goes on, of another daemon or with an older file, can store nothing any more."""
    connection.execute(
        f"UPDATE {key.worker.sql} SET epoch = epoch + 1 WHERE id IN (%s, %s)", (key.source_id, key.second.source_id)
    )
