"""The sources and shards of a group: how they join, come, get other names and leave (S6 to S8 of `numbered_ddls.py`).

Nothing is decided before every source of the task has said which shards it has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from dm import faults
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.merged_table import alike, differences
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.position import Position
from dm.progress.checkpoint import TablePoint, read_checkpoint, write_table
from dm.progress.checkpoint import remove_table as remove_point
from dm.progress.shards.ddl_renumbering import beyond, forget_passed, forget_unattended
from dm.progress.shards.group import (
    ANEW,
    EARLY,
    WITH_ITS_MODEL,
    WITH_THE_HELD,
    DdlState,
    Member,
    Shard,
    ShardGroup,
    ShardTables,
    lock_id,
)
from dm.progress.shards.held_shards import read_held
from dm.progress.tables import SubtaskKey, reads, reads_own

Structure = TableSchema | None  # None: not known
Structures = Callable[[TableName], Structure]
_JOINS_AGAIN: Final = 2  # in `joined`: a shard was given up, and its table may still exist


class ShardMembers:
    """What one source stores about its shards. Each method works in the caller's open transaction, under its claim."""

    def __init__(self, key: SubtaskKey, *, optimistic: bool = False) -> None:
        self.key = key  # of the source, not of a second pass
        self._optimistic = optimistic
        self._tables = ShardTables.of(key)

    def ensure(self, connection: TargetConnection, targets: Iterable[TableName]) -> None:
        """Create the latches outside of any transaction: two sources that insert one inside theirs could deadlock."""
        for target in sorted(set(targets)):
            connection.execute(
                f"INSERT IGNORE INTO {self._tables.group.sql} (t_schema, t_table) VALUES (%s, %s)", tuple(target)
            )
            connection.commit()

    @reads_own(lambda key: ShardTables.of(key).source)
    def join(self, connection: TargetConnection, shards: Iterable[Shard], structures: Structures) -> None:
        """Store once which shards the source has; raises DMError if a shard differs from those of other sources."""
        found = connection.query(
            f"SELECT joined FROM {self._tables.source.sql} WHERE id = %s FOR UPDATE", (self.key.source_id,)
        )
        if found and found[0][0]:
            return
        for shard in sorted(shards, key=lambda each: (each.target, each.table)):
            executed, schema = self.latched(connection, shard.target), structures(shard.table)
            forget_unattended(connection, self._tables, shard.target, executed)  # its progress may have been removed
            if self.is_begun(connection, shard.target, executed):
                raise DMError("shard-ddl-under-way", target=shard.target, source=self.key.source_id)
            self._let_in(connection, shard, executed, schema)
        connection.execute(
            f"INSERT INTO {self._tables.source.sql} (id, joined) VALUES (%s, 1) ON DUPLICATE KEY UPDATE joined = 1",
            (self.key.source_id,),
        )

    @reads_own(lambda key: ShardTables.of(key).source)
    def join_later(
        self, connection: TargetConnection, known: Iterable[Shard], given_up: Iterable[Shard], structures: Structures
    ) -> None:
        """Add tables that the source has at L and that are no shards; raises DMError as `join` does.

        The structure of those that may be `given_up` is not known. If the next DDL is begun, a shard joins in a later
        reading: this source may be the one that has to execute that DDL.
        """
        source, all_in = self._tables.source.sql, True
        (state,) = connection.query(f"SELECT joined FROM {source} WHERE id = %s FOR UPDATE", (self.key.source_id,))
        members = {shard.table for shard in self.shards(connection)}
        new = [each for each in {*known, *(given_up if state[0] == _JOINS_AGAIN else ())} if each.table not in members]
        for shard in sorted(new, key=lambda each: (each.target, each.table)):
            executed, schema = self.latched(connection, shard.target), structures(shard.table)
            if self.is_begun(connection, shard.target, executed):
                all_in = False
            else:
                self._let_in(connection, shard, executed, schema)
        if all_in and state[0] == _JOINS_AGAIN:
            connection.execute(f"UPDATE {source} SET joined = 1 WHERE id = %s", (self.key.source_id,))

    def enter(self, connection: TargetConnection, shard: Shard) -> None:
        """A new table becomes a shard, whatever its structure (optimistic mode); it no longer waits."""
        executed = self.latched(connection, shard.target)
        connection.execute(
            f"DELETE FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s AND early",
            (self.key.source_id, *shard.table),
        )
        self._enter(connection, shard, executed)

    def created(self, connection: TargetConnection, shard: Shard, schema: Structure) -> bool:
        """A new table becomes a shard; False if it is early: its structure is not the one that the others have now."""
        executed = self.latched(connection, shard.target)
        group = self.group(connection, shard.target, executed)
        if group.waits_for_nobody(self.key.source_id, shard.table):  # S8
            self._define(connection, shard.target, schema)
            self._ask_again(connection, shard.target)
        fits = not group.begun and self._fits(connection, shard, schema)
        self._create(connection, shard, executed, early=not fits)
        forget_unattended(connection, self._tables, shard.target, executed)
        return fits

    @reads_own(lambda key: ShardTables.of(key).table)
    def waits(self, connection: TargetConnection, shard: Shard, held: Collection[TableName]) -> bool:
        """A new table that the target can't accept waits at its CREATE TABLE; False if waiting won't help (S7)."""
        executed = self.latched(connection, shard.target)
        rows = connection.query(
            f"SELECT s_schema, s_table, passed < %s FROM {self._tables.table.sql}"
            " WHERE id = %s AND t_schema = %s AND t_table = %s ORDER BY passed, s_schema, s_table",
            (executed, self.key.source_id, *shard.target),
        )
        shards = [(TableName(str(schema), str(table)), lags) for schema, table, lags in rows]
        models = [(table, lags) for table, lags in shards if table in held and table != shard.table]
        is_open = connection.query(
            f"SELECT 1 FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, executed + 1),
        )
        if any(lags for _, lags in models) or (models and not is_open):
            self._copy(connection, shard, models[0][0], early=str(WITH_THE_HELD), waived="0")
        elif is_open:
            self._create(connection, shard, executed, early=True)
        return bool(models or is_open)

    def like(self, connection: TargetConnection, shard: Shard, model: Shard) -> None:
        """A new table that copies the structure of a held shard is held with it, with the same progress."""
        self.latched(connection, shard.target)
        self._copy(connection, shard, model.table, early=f"IF(early, early, {WITH_ITS_MODEL})", waived="waived")

    def leave(self, connection: TargetConnection, shard: Shard) -> None:
        """A shard is gone; the others may be complete without it, or its DDL has lost its last shard (S8)."""
        executed = self.latched(connection, shard.target)
        connection.execute(
            f"DELETE FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        forget_passed(connection, self._tables, shard.target)
        forget_unattended(connection, self._tables, shard.target, executed)

    def rename(self, connection: TargetConnection, shard: Shard, new: TableName) -> None:
        """A shard gets a new name."""
        self.latched(connection, shard.target)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET s_schema = %s, s_table = %s"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (*new, self.key.source_id, *shard.table),
        )

    # -- Reading

    @reads_own(lambda key: ShardTables.of(key).table)
    def group(self, connection: TargetConnection, target: TableName, executed: int | None = None) -> ShardGroup:
        """All shards of a target table; `executed` is read as well if it is not given."""
        tables = self._tables
        if executed is None:
            found = connection.query(
                f"SELECT executed FROM {tables.group.sql} WHERE t_schema = %s AND t_table = %s", tuple(target)
            )
            executed = int(found[0][0]) if found else 0
        rows = connection.query(
            "SELECT id, s_schema, s_table, passed, ready, early, waived,"
            " IF(passed < LEAST(%s, ready), structure_after, structure) IS NOT NULL"  # as in `ShardStructures.survey`
            f" FROM {tables.table.sql}"
            " WHERE t_schema = %s AND t_table = %s ORDER BY id, s_schema, s_table",
            (executed, *target),
        )
        open_to = [row for row in rows if row[7] and int(row[3]) <= executed < int(row[4])]
        done = beyond(connection, tables, target, executed) if open_to else set[tuple[str, TableName]]()
        members = [
            Member(
                source_id=str(row[0]),
                table=TableName(str(row[1]), str(row[2])),
                passed=int(row[3]),
                ready=int(row[4]),
                early=int(row[5]) == EARLY,
                anew=int(row[5]) == ANEW,
                waived=int(row[6]),
                known=bool(row[7]),
                beyond=(str(row[0]), TableName(str(row[1]), str(row[2]))) in done,
            )
            for row in rows
        ]
        late = connection.query(f"SELECT COUNT(*) FROM {tables.source.sql} WHERE NOT joined")
        states = connection.query(
            f"SELECT state FROM {tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*target, executed + 1),
        )
        begun = any(str(state) != DdlState.OPEN for (state,) in states)
        return ShardGroup(executed, tuple(members), int(late[0][0]) == 0, begun, bool(states))

    @reads_own(lambda key: ShardTables.of(key).table)
    def takes_part(self, connection: TargetConnection, shard: Shard, *, waived: bool) -> bool:
        """Whether a shard is past its CREATE TABLE and, with `waived`, nobody waits for it at its next DDL."""
        rows = connection.query(
            f"SELECT waived > passed FROM {self._tables.table.sql}"
            " WHERE id = %s AND s_schema = %s AND s_table = %s AND NOT early",
            (self.key.source_id, *shard.table),
        )
        return bool(rows and (rows[0][0] or not waived))

    def known(self, connection: TargetConnection, target: TableName) -> bool:
        """Whether the group has a structure, so that the target has its table; needs no transaction."""
        return self._structure(connection, target) is not None

    @reads_own(lambda key: ShardTables.of(key).table)
    def shards(self, connection: TargetConnection) -> list[Shard]:
        """The source's shards, in the order of latches."""
        rows = connection.query(
            f"SELECT s_schema, s_table, t_schema, t_table FROM {self._tables.table.sql} WHERE id = %s"
            " ORDER BY t_schema, t_table, s_schema, s_table",
            (self.key.source_id,),
        )
        return [Shard(TableName(str(row[0]), str(row[1])), TableName(str(row[2]), str(row[3]))) for row in rows]

    @reads_own(lambda key: ShardTables.of(key).group)
    def latched(self, connection: TargetConnection, target: TableName) -> int:
        """Lock the group; returns how many DDLs were executed."""
        found = connection.query(
            f"SELECT executed FROM {self._tables.group.sql} WHERE t_schema = %s AND t_table = %s FOR UPDATE",
            tuple(target),
        )
        return int(found[0][0])

    @reads_own(lambda key: ShardTables.of(key).ddl)
    def is_begun(self, connection: TargetConnection, target: TableName, executed: int) -> bool:
        """Whether the next DDL, or a part of it, may have been executed."""
        rows = connection.query(
            f"SELECT 1 FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s"
            f" AND state <> '{DdlState.OPEN}'",
            (*target, executed + 1),
        )
        return bool(rows)

    # -- Inside

    def _copy(self, connection: TargetConnection, shard: Shard, model: TableName, *, early: str, waived: str) -> None:
        columns = "t_schema, t_table, passed, ready, structure, structure_after"
        connection.execute(
            f"REPLACE INTO {self._tables.table.sql} (id, s_schema, s_table, early, waived, {columns})"
            f" SELECT id, %s, %s, {early}, {waived}, {columns} FROM {self._tables.table.sql}"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (*shard.table, self.key.source_id, *model),
        )

    def _create(self, connection: TargetConnection, shard: Shard, executed: int, *, early: bool) -> None:
        connection.execute(
            f"REPLACE INTO {self._tables.table.sql} (id, s_schema, s_table, t_schema, t_table, passed, ready, early)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (self.key.source_id, *shard.table, *shard.target, executed, executed + early, EARLY if early else 0),
        )

    def _enter(self, connection: TargetConnection, shard: Shard, executed: int) -> None:
        connection.execute(
            f"INSERT IGNORE INTO {self._tables.table.sql} (id, s_schema, s_table, t_schema, t_table, passed, ready)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (self.key.source_id, *shard.table, *shard.target, executed, executed),
        )

    def _let_in(self, connection: TargetConnection, shard: Shard, executed: int, schema: Structure) -> None:
        if not self._fits(connection, shard, schema):
            raise self._unlike(connection, shard, schema)
        self._enter(connection, shard, executed)

    def _fits(self, connection: TargetConnection, shard: Shard, schema: Structure) -> bool:
        """Whether a shard has the group's structure; the first shard defines it. An unknown structure fits."""
        if schema is None:
            return True
        known = self._structure(connection, shard.target)
        if known is not None:
            return alike(known, schema)
        self._define(connection, shard.target, schema)
        return True

    def _define(self, connection: TargetConnection, target: TableName, schema: Structure) -> None:
        connection.execute(
            f"UPDATE {self._tables.group.sql} SET structure = %s WHERE t_schema = %s AND t_table = %s",
            (None if schema is None else schema_to_json(schema), *target),
        )

    def _ask_again(self, connection: TargetConnection, target: TableName) -> None:
        """Have all waiting tables compared with the group's new structure; under the latch."""
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET ready = passed, early = {ANEW}"
            f" WHERE t_schema = %s AND t_table = %s AND early = {EARLY}",
            tuple(target),
        )

    @reads_own(lambda key: ShardTables.of(key).group)
    def _structure(self, connection: TargetConnection, target: TableName) -> Structure:
        found = connection.query(
            f"SELECT structure FROM {self._tables.group.sql} WHERE t_schema = %s AND t_table = %s", tuple(target)
        )
        return schema_from_json(str(found[0][0])) if found and found[0][0] else None

    def _unlike(self, connection: TargetConnection, shard: Shard, schema: Structure) -> DMError:
        known = self._structure(connection, shard.target)
        assert known is not None
        assert schema is not None
        return DMError(
            "shard-not-alike",
            source=self.key.source_id,
            table=shard.table,
            target=shard.target,
            other=known.name,
            difference="; ".join(differences(schema, known)),
            lock=lock_id(self.key.task, shard.target),
        )


@reads(lambda key: ShardTables.of(key).source)
def expect_sources(connection: TargetConnection, key: SubtaskKey, sources: Sequence[str]) -> None:
    """Store which sources the task has, in the run's open transaction; raises DMError if a removed source left rows.

    A source that the task file no longer names is no longer waited for, and its run is ended. If rows of its shards are
    held, they would be lost with it: that is a person's decision (`remove_source`).
    """
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
    """The shards of a source with unapplied rows before its checkpoint, and where those rows begin."""
    found = {each.table: each.place for each in read_held(connection, key)}
    second = read_checkpoint(connection, key.second)
    if second is not None:
        for table, point in second.tables.items():
            begins = point.point or second.position
            found[table] = second.position if second.position.covers(begins) else begins
    return sorted(found.items())


def _target_of(connection: TargetConnection, key: SubtaskKey, table: TableName) -> TableName:
    return next(shard.target for shard in ShardMembers(key).shards(connection) if shard.table == table)


def remove_source(connection: TargetConnection, key: SubtaskKey) -> None:
    """Remove a source from all groups, with the rows that it holds, inside the open transaction."""
    _end_run(connection, key)
    forget_source(connection, key)
    connection.execute(f"DELETE FROM {ShardTables.of(key).held.sql} WHERE id = %s", (key.source_id,))
    connection.execute(f"DELETE FROM {key.checkpoint.sql} WHERE id = %s", (key.second.source_id,))


def remove_table(connection: TargetConnection, key: SubtaskKey, table: TableName) -> None:
    """Remove one shard of a source; its later rows are those of a new shard, which joins with the next run."""
    _end_run(connection, key)
    groups = ShardMembers(key)
    for shard in groups.shards(connection):
        if shard.table == table:
            groups.leave(connection, shard)
            connection.execute(
                f"UPDATE {ShardTables.of(key).source.sql} SET joined = {_JOINS_AGAIN} WHERE id = %s AND joined",
                (key.source_id,),
            )
            checkpoint = read_checkpoint(connection, key)
            if checkpoint is not None and table not in checkpoint.tables:
                write_table(connection, key, table, TablePoint(None))
    connection.execute(
        f"DELETE FROM {ShardTables.of(key).held.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
        (key.source_id, *table),
    )
    remove_point(connection, key.second, table)


def forget_source(connection: TargetConnection, key: SubtaskKey) -> None:
    """Remove the source; no DDL waits for its shards any more."""
    tables, groups = ShardTables.of(key), ShardMembers(key)
    for shard in groups.shards(connection):
        groups.leave(connection, shard)
    connection.execute(f"DELETE FROM {tables.source.sql} WHERE id = %s", (key.source_id,))


def _end_run(connection: TargetConnection, key: SubtaskKey) -> None:
    """Fence a run of the source, by another daemon or with an older task file: it can store nothing any more."""
    connection.execute(
        f"UPDATE {key.worker.sql} SET epoch = epoch + 1 WHERE id IN (%s, %s)", (key.source_id, key.second.source_id)
    )
