"""Shard merge, pessimistic: a DDL of a target table is executed once, when all its shards have arrived at it.

`tests/testbed/shard_model.py` checks it exhaustively, and `shard_members_model.py` what comes, goes and is waived.

A group is all source tables of a task that are routed to one target table. The DDLs of a group are numbered from 1. A
shard whose rows are past n of them has passed n; the next DDL in its binlog has the number n + 1, whatever its text.
The target's structure decides nothing: after ADD, DROP, the second ADD would look as if it were done.

S1  Every change of a group locks its latch, the row in `shard_group`, in a transaction that first advances the source's
    control row. So an older run changes nothing here (I1 of `protocol.py`).
S2  A shard arrives at a DDL after a barrier, with L before its event: its earlier rows are committed, and are not
    replayed on another structure.
S3  A DDL is executed when each source has joined and each shard has arrived at its number. (A mark without a number
    could belong to the DDL before.) The first shard to see this executes it, under the turn of the target table. It
    becomes *begun* under the latch, after a second check that all shards have arrived. From then on it waits for no
    shard. The holder of the turn first looks at an intent left by another session: holding the turn proves that that
    session has ended.
S4  The record that a shard has passed a DDL commits with the L after its event.
S5  A shard that can't pass is held (`holds.py`).
S6  A shard joins with the structure that the others have at `executed`, as long as the next DDL is not begun. A table
    that is created with another one, or later, is early: it is held at its CREATE TABLE, and counts as arrived at the
    next DDL, whatever that is. A source does not join meanwhile. Tables known at L that are not shards yet join later.
S7  In the optimistic mode, if the target can't accept a new table, the table waits at the place of its source's first
    held shard, provided that shard's DDL is executed or no DDL is open. The shard's statements before the CREATE TABLE
    are not at the target yet, and the table is read again with the shard. Otherwise it is early if a DDL is open.
S8  Nothing waits for shards that no longer exist (`group.py`). A DDL that is not begun is forgotten with the last
    shard that has arrived at it. A table without another shard to compare with becomes a shard as it is.

Lock order: turn, control row, latch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.joined_table import alike, differences
from dm.mysql.schema.serial import schema_from_json, schema_to_json
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.progress.intent import Intent, dump_structures, load_structures
from dm.progress.shards.ddl_numbers import count, leave_out, put_before, step_over
from dm.progress.shards.group import (
    EARLY,
    WITH_ITS_MODEL,
    WITH_THE_HELD,
    GroupDdl,
    Shard,
    ShardGroup,
    Standing,
    ask_again,
    forget_passed,
    forget_unattended,
)
from dm.progress.shards.reading import read_group
from dm.progress.shards.tables import ShardTables, lock_id
from dm.progress.tables import SubtaskKey, reading, reads_own, texts

Structure = TableSchema | None  # None: not known
Structures = Callable[[TableName], Structure]
JOINS_AGAIN: Final = 2  # in `joined`: a shard was given up, and its table may live on
_BEGUN: Final = "begun"  # a DDL of which nothing is announced yet


class ShardGroups:
    """What one source stores about groups. Each method works inside the caller's open transaction, under its claim."""

    def __init__(self, key: SubtaskKey, *, optimistic: bool = False) -> None:
        self.key = key  # of the source, not of a second pass
        self._optimistic = optimistic
        self._tables = ShardTables.of(key)

    def ensure(self, connection: TargetConnection, targets: Iterable[TableName]) -> None:
        """Make the latches, outside of any transaction: two sources that insert one in theirs could deadlock."""
        for target in sorted(set(targets)):
            connection.execute(
                f"INSERT IGNORE INTO {self._tables.group.sql} (t_schema, t_table) VALUES (%s, %s)", tuple(target)
            )
            connection.commit()

    def join(self, connection: TargetConnection, shards: Iterable[Shard], structures: Structures) -> None:
        """Say once which shards the source has; raises DMError where one is not like those of the others."""
        found = connection.query(
            f"SELECT joined FROM {self._tables.source.sql} WHERE id = %s FOR UPDATE", (self.key.source_id,)
        )
        if found and found[0][0]:
            return
        for shard in sorted(shards, key=lambda each: (each.target, each.table)):
            executed, schema = self.latched(connection, shard.target), structures(shard.table)
            forget_unattended(connection, self._tables, shard.target, executed)  # its progress may have been removed
            if self.begun(connection, shard.target, executed):
                raise DMError("shard-ddl-under-way", target=shard.target, source=self.key.source_id)
            self._let_in(connection, shard, executed, schema)
        connection.execute(
            f"INSERT INTO {self._tables.source.sql} (id, joined) VALUES (%s, 1) ON DUPLICATE KEY UPDATE joined = 1",
            (self.key.source_id,),
        )

    def join_later(
        self, connection: TargetConnection, known: Iterable[Shard], given_up: Iterable[Shard], structures: Structures
    ) -> None:
        """Add tables that the source has at L and that are no shards; raises DMError as `join` does.

        Nobody knows the structure of those that may be `given_up`. Where the next DDL is begun, a shard joins with a
        later reading: this source may be the one that has to execute it.
        """
        source, all_in = self._tables.source.sql, True
        (state,) = connection.query(f"SELECT joined FROM {source} WHERE id = %s FOR UPDATE", (self.key.source_id,))
        members = {shard.table for shard in self.shards(connection)}
        new = [each for each in {*known, *(given_up if state[0] == JOINS_AGAIN else ())} if each.table not in members]
        for shard in sorted(new, key=lambda each: (each.target, each.table)):
            executed, schema = self.latched(connection, shard.target), structures(shard.table)
            if self.begun(connection, shard.target, executed):
                all_in = False
            else:
                self._let_in(connection, shard, executed, schema)
        if all_in and state[0] == JOINS_AGAIN:
            connection.execute(f"UPDATE {source} SET joined = 1 WHERE id = %s", (self.key.source_id,))

    def enter(self, connection: TargetConnection, shard: Shard) -> None:
        """A new table becomes a shard, whatever its structure is (optimistic mode); it does not wait any more."""
        executed = self.latched(connection, shard.target)
        connection.execute(
            f"DELETE FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s AND early",
            (self.key.source_id, *shard.table),
        )
        self._enter(connection, shard, executed)

    def created(self, connection: TargetConnection, shard: Shard, schema: Structure) -> bool:
        """A new table becomes a shard; False where it is early: its structure is not the one the others have now."""
        executed = self.latched(connection, shard.target)
        group = self.group(connection, shard.target, executed)
        if group.waits_for_nobody(self.key.source_id, shard.table):  # S8
            self._define(connection, shard.target, schema)
            ask_again(connection, self._tables, shard.target)
        fits = not group.begun and self._fits(connection, shard, schema)
        self._create(connection, shard, executed, early=not fits)
        forget_unattended(connection, self._tables, shard.target, executed)
        return fits

    def takes_part(self, connection: TargetConnection, shard: Shard, *, waived: bool) -> bool:
        """Whether a shard is past its CREATE TABLE, and `waived` at a DDL to come; needs no transaction."""
        rows = connection.query(
            f"SELECT waived > passed FROM {self._tables.table.sql}"
            " WHERE id = %s AND s_schema = %s AND s_table = %s AND NOT early",
            (self.key.source_id, *shard.table),
        )
        return bool(rows and (rows[0][0] or not waived))

    def waits(self, connection: TargetConnection, shard: Shard, held: Collection[TableName]) -> bool:
        """A new table that the target does not take waits at its CREATE TABLE; False where it is for nothing (S7)."""
        executed = self.latched(connection, shard.target)
        rows = connection.query(
            f"SELECT s_schema, s_table, passed < %s FROM {self._tables.table.sql}"
            " WHERE id = %s AND t_schema = %s AND t_table = %s ORDER BY passed, s_schema, s_table",
            (executed, self.key.source_id, *shard.target),
        )
        shards = [(TableName(str(schema), str(table)), behind) for schema, table, behind in rows]
        models = [(table, behind) for table, behind in shards if table in held and table != shard.table]
        is_open = connection.query(
            f"SELECT 1 FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, executed + 1),
        )
        if any(behind for _, behind in models) or (models and not is_open):
            self._copy(connection, shard, models[0][0], early=str(WITH_THE_HELD), waived="0")
        elif is_open:
            self._create(connection, shard, executed, early=True)
        return bool(models or is_open)

    def like(self, connection: TargetConnection, shard: Shard, model: Shard) -> None:
        """A new table with the structure of a shard that is held is held with it, as far as that one has come."""
        self.latched(connection, shard.target)
        self._copy(connection, shard, model.table, early=f"IF(early, early, {WITH_ITS_MODEL})", waived="waived")

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

    def leave(self, connection: TargetConnection, shard: Shard) -> None:
        """A shard is no more; the others may be complete without it, or nobody is at its DDL (S8)."""
        executed = self.latched(connection, shard.target)
        connection.execute(
            f"DELETE FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        forget_passed(connection, self._tables, shard.target)
        forget_unattended(connection, self._tables, shard.target, executed)

    def rename(self, connection: TargetConnection, shard: Shard, new: TableName) -> None:
        """A shard has another name from here on."""
        self.latched(connection, shard.target)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET s_schema = %s, s_table = %s"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (*new, self.key.source_id, *shard.table),
        )

    def arrive(
        self, connection: TargetConnection, ddl: GroupDdl, after: Structure = None, target: Structure = None
    ) -> Standing:
        """The shard is at its next DDL; raises DMError where that is not the one the others have there.

        The optimistic mode knows the shard's structure after it, and the target's table as `undergone` asks for it.
        """
        shard = ddl.shard
        executed = self.latched(connection, shard.target)
        self._enter(connection, shard, executed)
        number = step_over(connection, self.key, ddl, self._number(connection, shard), executed)
        if after is not None and executed < number:
            put_before(connection, self.key, ddl, number, (after, target))
        own = self._agree(connection, ddl, number)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET ready = %s, early = %s"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (number, not own, self.key.source_id, *shard.table),
        )
        if executed < number and not own:
            return Standing.OTHERS_MISSING
        return self.group(connection, shard.target, executed).standing(self.key.source_id, shard.table, number)

    def look(self, connection: TargetConnection, shard: Shard) -> Standing:
        """The same again for a shard that has arrived; needs no transaction."""
        return self._standing(connection, shard, None)

    def _standing(self, connection: TargetConnection, shard: Shard, executed: int | None) -> Standing:
        group = self.group(connection, shard.target, executed)
        own = group.own(self.key.source_id, shard.table)
        if own is None:  # nothing is decided before
            decidable = group.decidable if self._optimistic else group.joined
            return Standing.AGAIN if decidable else Standing.OTHERS_MISSING
        if own.anew:
            return Standing.AGAIN
        # Of the same reading: another source may give this DDL the next number and execute its own, and the group is
        # read from `executed` on, so the number is never one of before that.
        number = own.passed + 1
        if group.executed < number and own.early:  # it has no statement of its own to execute
            alone = group.waits_for_nobody(self.key.source_id, shard.table)
            return Standing.AGAIN if alone else Standing.OTHERS_MISSING
        return group.standing(self.key.source_id, shard.table, number)

    def passed(self, connection: TargetConnection, shard: Shard) -> None:
        """The shard's rows are past one more DDL; in the transaction that stores L after it."""
        self.latched(connection, shard.target)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET passed = passed + 1, ready = GREATEST(ready, passed), early = 0"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        forget_passed(connection, self._tables, shard.target)

    # -- The execution, by the holder of the turn

    def begin(self, connection: TargetConnection, shard: Shard) -> Standing:
        """Where the shard's next DDL stands; if all are there, it is begun, and whoever joins now is past it."""
        executed, number = self.latched(connection, shard.target), self._number(connection, shard)
        standing = self._standing(connection, shard, executed)
        if standing is Standing.COMPLETE:
            if number > executed + 1 and not self.begun(connection, shard.target, executed):
                leave_out(connection, self.key, shard.target, executed, number)
            connection.execute(
                f"UPDATE {self._tables.ddl.sql} SET state = '{_BEGUN}'"
                " WHERE t_schema = %s AND t_table = %s AND number = %s AND state = 'open'",
                (*shard.target, number),
            )
        return standing

    def between(self, connection: TargetConnection, target: TableName) -> bool:
        """The same under the latch."""
        return self.begun(connection, target, self.latched(connection, target))

    def begun(self, connection: TargetConnection, target: TableName, executed: int) -> bool:
        """Whether the next DDL is being executed, or a part of it may be."""
        rows = connection.query(
            f"SELECT 1 FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s"
            " AND state <> 'open'",
            (*target, executed + 1),
        )
        return bool(rows)

    def skipped(self, connection: TargetConnection, shard: Shard) -> bool:
        """Whether a person has said that nobody is to execute the shard's next DDL; needs no transaction."""
        rows = connection.query(
            f"SELECT skipped FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, self._number(connection, shard)),
        )
        return bool(rows and rows[0][0])

    @reads_own(lambda key: ShardTables.of(key).ddl)
    def announced(self, connection: TargetConnection, shard: Shard, end: Position) -> Intent | None:
        """What somebody announced of the shard's next DDL; needs no transaction."""
        rows = connection.query(
            "SELECT piece, statement, connection_id, structure_before, structure_after, state"
            f" FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s"
            f" AND state NOT IN ('open', '{_BEGUN}')",
            (*shard.target, self._number(connection, shard)),
        )
        if not rows:
            return None
        piece, statement, number, before, after, state = rows[0]
        structures = load_structures(str(before)), load_structures(str(after))
        return Intent(end, int(piece), str(statement), int(number), *structures, state == "refused")

    def announce(self, connection: TargetConnection, shard: Shard, intent: Intent) -> None:
        """Store the piece about to be executed; the ones before it are done."""
        number = self._unexecuted(connection, shard)
        connection.execute(
            f"UPDATE {self._tables.ddl.sql} SET state = 'executing', piece = %s, statement = %s, connection_id = %s,"
            " structure_before = %s, structure_after = %s WHERE t_schema = %s AND t_table = %s AND number = %s",
            (
                intent.piece,
                intent.statement,
                intent.connection_id,
                dump_structures(intent.before),
                dump_structures(intent.after),
                *shard.target,
                number,
            ),
        )

    def refused(self, connection: TargetConnection, shard: Shard) -> None:
        """Store that the target refused the announced piece."""
        number = self._unexecuted(connection, shard)
        connection.execute(
            f"UPDATE {self._tables.ddl.sql} SET state = 'refused' WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )

    def executed(self, connection: TargetConnection, shard: Shard, schema: Structure) -> None:
        """Store that all of the shard's next DDL is done, and what the shard is like after it."""
        number = self._unexecuted(connection, shard)
        for member in self.group(connection, shard.target).members:
            if member.beyond:
                count(connection, self._tables, member.source_id, member.table, number)
        connection.execute(
            f"UPDATE {self._tables.ddl.sql} SET state = 'done' WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )
        connection.execute(
            f"UPDATE {self._tables.group.sql} SET executed = %s, structure = %s WHERE t_schema = %s AND t_table = %s",
            (number, None if schema is None else schema_to_json(schema), *shard.target),
        )

    # -- Reading

    def group(self, connection: TargetConnection, target: TableName, executed: int | None = None) -> ShardGroup:
        """All shards of a target table."""
        return read_group(connection, self.key, target, executed)

    @reads_own(lambda key: ShardTables.of(key).table)
    def shards(self, connection: TargetConnection) -> list[Shard]:
        """Those of the source, in the order of latches."""
        rows = connection.query(
            f"SELECT s_schema, s_table, t_schema, t_table FROM {self._tables.table.sql} WHERE id = %s"
            " ORDER BY t_schema, t_table, s_schema, s_table",
            (self.key.source_id,),
        )
        return [Shard(TableName(str(row[0]), str(row[1])), TableName(str(row[2]), str(row[3]))) for row in rows]

    @reads_own(lambda key: ShardTables.of(key).ddl)
    def waits_for(self, connection: TargetConnection, shard: Shard) -> tuple[tuple[str, ...], datetime, ShardGroup]:
        """The statements that a shard has arrived at, since when it is there, and its group; for people."""
        number = self._number(connection, shard)
        rows = connection.query(
            f"SELECT statements FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )
        since = connection.query(
            f"SELECT UNIX_TIMESTAMP(since) FROM {self._tables.table.sql}"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        statements = texts(rows[0][0]) if rows else ()
        moment = datetime.fromtimestamp(float(str(since[0][0])) if since else 0.0, UTC)
        return statements, moment, self.group(connection, shard.target)

    @reads_own(lambda key: ShardTables.of(key).group)
    def latched(self, connection: TargetConnection, target: TableName) -> int:
        """Lock the group; gives how many DDLs were executed."""
        found = connection.query(
            f"SELECT executed FROM {self._tables.group.sql} WHERE t_schema = %s AND t_table = %s FOR UPDATE",
            tuple(target),
        )
        return int(found[0][0])

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
        """Whether a shard is like the others; the first one says what they are like. What is not known fits."""
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

    def known(self, connection: TargetConnection, target: TableName) -> bool:
        """Whether there has been a shard, so that the target has a table for it; needs no transaction."""
        return self._structure(connection, target) is not None

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

    @reads_own(lambda key: ShardTables.of(key).table)
    def _number(self, connection: TargetConnection, shard: Shard) -> int:
        found = connection.query(
            f"SELECT passed FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        # A shard that a person has given up is no member; its run finds that it is ended when it stores something.
        return int(found[0][0]) + 1 if found else 1

    def _unexecuted(self, connection: TargetConnection, shard: Shard) -> int:
        """The shard's next number, which nobody has executed: the turn is ours."""
        number = self._number(connection, shard)
        if self.latched(connection, shard.target) != number - 1:
            raise DMError("shard-ddl-out-of-turn", target=shard.target, number=number)
        return number

    def _agree(self, connection: TargetConnection, ddl: GroupDdl, number: int) -> bool:
        """Whether the shard comes with the statements of the others; raises DMError where a person has to decide."""
        table, target = self._tables.ddl.sql, ddl.shard.target
        rows = connection.query(
            f"SELECT form, statements, owner FROM {table} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*target, number),
        )
        owner = f"{self.key.source_id} {ddl.shard.table}"
        if not rows:
            connection.execute(
                f"INSERT INTO {table} (t_schema, t_table, number, form, statements, owner, statement, structure_before,"
                " structure_after) VALUES (%s, %s, %s, %s, %s, %s, '', '[]', '[]')",
                (*target, number, ddl.form, json.dumps(list[str](ddl.statements)), owner),
            )
            return True
        with reading(self._tables.ddl, self.key.source_id):
            form, statements, first = (str(each) for each in rows[0])
            others = texts(statements)
        if form == ddl.form:
            return True
        if self._waived(connection, ddl.shard) >= number:
            return False
        raise DMError(
            "shard-ddl-conflict",
            target=target,
            owner=first,
            first="; ".join(others),
            other=owner,
            second="; ".join(ddl.statements),
        )

    @reads_own(lambda key: ShardTables.of(key).table)
    def _waived(self, connection: TargetConnection, shard: Shard) -> int:
        found = connection.query(
            f"SELECT waived FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        return int(found[0][0])
