"""Shard merge, pessimistic: a DDL of a target table is executed once, when all its shards have arrived at it.

`tests/testbed/shard_model.py` checks it exhaustively; `shard_members_model.py` checks what joins, leaves and is waived.

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
S5  A shard that can't pass is held (`held_shards.py`).
S6  A shard joins with the structure that the others have at `executed`, as long as the next DDL is not begun. A table
    that is created with another one, or later, is early: it is held at its CREATE TABLE, and counts as arrived at the
    next DDL, whatever that is. A source does not join meanwhile. Tables known at L that are not shards yet join later.
S7  In the optimistic mode, if the target can't accept a new table, the table waits at the place of its source's first
    held shard, provided that shard's DDL is executed or no DDL is open. The shard's statements before the CREATE TABLE
    are not at the target yet, and the table is read again with the shard. Otherwise it is early if a DDL is open.
S8  Nothing waits for shards that no longer exist (`ddl_renumbering.py`). A DDL that is not begun is forgotten with the
    last shard that has arrived at it. A table without another shard to compare with becomes a shard as it is.

Lock order: turn, control row, latch.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import schema_to_json
from dm.position import Position
from dm.progress.intent import Intent, dump_structures, load_structures
from dm.progress.shards.ddl_renumbering import count, forget_passed, leave_out, put_before, step_over
from dm.progress.shards.group import DdlState, GroupDdl, Shard, ShardGroup, ShardTables, Standing
from dm.progress.shards.members import ShardMembers, Structure
from dm.progress.tables import reading, reads_own, texts


class ShardGroups(ShardMembers):
    """What one source stores about the DDLs of groups, beside its shards; in the caller's open transaction, too."""

    def arrive(
        self, connection: TargetConnection, ddl: GroupDdl, after: Structure = None, target: Structure = None
    ) -> Standing:
        """The shard is at its next DDL; raises DMError if the others have another DDL there.

        Optimistic mode gives the shard's structure after it, and the target's table as `undergone` needs it.
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
        """Where the DDL of a shard that has arrived stands now; needs no transaction."""
        return self._standing(connection, shard, None)

    def _standing(self, connection: TargetConnection, shard: Shard, executed: int | None) -> Standing:
        group = self.group(connection, shard.target, executed)
        own = group.own(self.key.source_id, shard.table)
        if own is None:  # the source has not joined
            decidable = group.decidable if self._optimistic else group.joined
            return Standing.AGAIN if decidable else Standing.OTHERS_MISSING
        if own.anew:
            return Standing.AGAIN
        # From the same reading as the group: another source may renumber this DDL and execute its own before it.
        number = own.passed + 1
        if group.executed < number and own.early:  # it has no statement of its own to execute
            alone = group.waits_for_nobody(self.key.source_id, shard.table)
            return Standing.AGAIN if alone else Standing.OTHERS_MISSING
        return group.standing(self.key.source_id, shard.table, number)

    def store_passed(self, connection: TargetConnection, shard: Shard) -> None:
        """Store that the shard has passed one more DDL; in the transaction that stores L after it."""
        self.latched(connection, shard.target)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET passed = passed + 1, ready = GREATEST(ready, passed), early = 0"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        forget_passed(connection, self._tables, shard.target)

    def begin(self, connection: TargetConnection, shard: Shard) -> Standing:
        """Where the shard's next DDL stands; if all have arrived, it is begun, and a source that joins is past it."""
        executed, number = self.latched(connection, shard.target), self._number(connection, shard)
        standing = self._standing(connection, shard, executed)
        if standing is Standing.COMPLETE:
            if number > executed + 1 and not self.is_begun(connection, shard.target, executed):
                leave_out(connection, self.key, shard.target, executed, number)
            connection.execute(
                f"UPDATE {self._tables.ddl.sql} SET state = '{DdlState.BEGUN}'"
                f" WHERE t_schema = %s AND t_table = %s AND number = %s AND state = '{DdlState.OPEN}'",
                (*shard.target, number),
            )
        return standing

    def is_next_begun(self, connection: TargetConnection, target: TableName) -> bool:
        """Whether the next DDL, or a part of it, may have been executed; locks the group."""
        return self.is_begun(connection, target, self.latched(connection, target))

    @reads_own(lambda key: ShardTables.of(key).ddl)
    def is_skipped(self, connection: TargetConnection, shard: Shard) -> bool:
        """Whether a person has said that the shard's next DDL is not to be executed; needs no transaction."""
        rows = connection.query(
            f"SELECT skipped FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, self._number(connection, shard)),
        )
        return bool(rows and rows[0][0])

    @reads_own(lambda key: ShardTables.of(key).ddl)
    def announced_piece(self, connection: TargetConnection, shard: Shard, end: Position) -> Intent | None:
        """The announced piece of the shard's next DDL, by whichever source; needs no transaction."""
        rows = connection.query(
            "SELECT piece, statement, connection_id, structure_before, structure_after, state"
            f" FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s"
            f" AND state NOT IN ('{DdlState.OPEN}', '{DdlState.BEGUN}')",
            (*shard.target, self._number(connection, shard)),
        )
        if not rows:
            return None
        piece, statement, number, before, after, state = rows[0]
        structures = load_structures(str(before)), load_structures(str(after))
        return Intent(end, int(piece), str(statement), int(number), *structures, state == DdlState.REFUSED)

    def announce(self, connection: TargetConnection, shard: Shard, intent: Intent) -> None:
        """Store the piece about to be executed; earlier pieces are done."""
        number = self._unexecuted(connection, shard)
        connection.execute(
            f"UPDATE {self._tables.ddl.sql} SET state = '{DdlState.EXECUTING}', piece = %s, statement = %s,"
            " connection_id = %s, structure_before = %s, structure_after = %s"
            " WHERE t_schema = %s AND t_table = %s AND number = %s",
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

    def store_refused(self, connection: TargetConnection, shard: Shard) -> None:
        """Store that the target refused the announced piece."""
        number = self._unexecuted(connection, shard)
        connection.execute(
            f"UPDATE {self._tables.ddl.sql} SET state = '{DdlState.REFUSED}'"
            " WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )

    def store_executed(self, connection: TargetConnection, shard: Shard, schema: Structure) -> None:
        """Store that the shard's next DDL is done, and the shard's structure after it."""
        number = self._unexecuted(connection, shard)
        for member in self.group(connection, shard.target).members:
            if member.beyond:
                count(connection, self._tables, member.source_id, member.table, number)
        connection.execute(
            f"UPDATE {self._tables.ddl.sql} SET state = '{DdlState.DONE}'"
            " WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )
        connection.execute(
            f"UPDATE {self._tables.group.sql} SET executed = %s, structure = %s WHERE t_schema = %s AND t_table = %s",
            (number, None if schema is None else schema_to_json(schema), *shard.target),
        )

    @reads_own(lambda key: ShardTables.of(key).ddl)
    def waits_for(self, connection: TargetConnection, shard: Shard) -> tuple[tuple[str, ...], datetime, ShardGroup]:
        """The statements at which a shard has arrived, since when, and its group; for people."""
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

    @reads_own(lambda key: ShardTables.of(key).table)
    def _number(self, connection: TargetConnection, shard: Shard) -> int:
        found = connection.query(
            f"SELECT passed FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        # A person may have given the shard up: its run is fenced, and will notice when it stores something.
        return int(found[0][0]) + 1 if found else 1

    def _unexecuted(self, connection: TargetConnection, shard: Shard) -> int:
        """The number of the shard's next DDL; raises DMError if it was executed, which the turn excludes."""
        number = self._number(connection, shard)
        if self.latched(connection, shard.target) != number - 1:
            raise DMError("shard-ddl-out-of-turn", target=shard.target, number=number)
        return number

    @reads_own(lambda key: ShardTables.of(key).ddl)
    def _agree(self, connection: TargetConnection, ddl: GroupDdl, number: int) -> bool:
        """Whether the shard arrives with the same statements as the others; raises DMError if a person must decide."""
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
