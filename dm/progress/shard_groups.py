"""Shard merge, pessimistic: a DDL of a target table is executed once, when all its shards have arrived at it.

`tests/testbed/shard_model.py` checks it exhaustively.

A group is all source tables of a task that go into one target table. The DDLs of a group have numbers, from 1 on. A
shard whose rows are behind n of them has passed n; the next DDL in its binlog has the number n + 1, whatever it says.
What the target's structure looks like decides nothing: the second ADD of ADD, DROP, ADD would look effective.

S1  Every change of a group locks its latch, the row in `shard_group`, in a transaction that first advances the source's
    control row. So an older run changes nothing here (I1 of `protocol.py`).
S2  A shard arrives at a DDL behind a barrier, with L before its event: its earlier rows are committed, and are not
    replayed on another structure.
S3  A DDL is executed when each source has joined and each shard has arrived at its number. Numbers, since a mark
    without one could be that of the DDL before. Whoever comes first executes it, under the turn of the target table.
    The holder of the turn first looks at the intent that somebody left: holding the turn proves that its session has
    ended.
S4  That a shard has passed a DDL commits with the L behind its event.
S5  A shard that can't pass is held (`shard_holds.py`).

Lock order: turn, control row, latch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.intent import Intent, dump_structures, load_structures
from dm.progress.shard_tables import ShardTables
from dm.progress.tables import SubtaskKey


class Standing(Enum):
    """What a shard may do at a DDL."""

    EXECUTED = "the target has it"
    COMPLETE = "all have arrived"
    OTHERS_MISSING = "all of this source have arrived"
    OWN_MISSING = "shards of this source have not arrived"


@dataclass(frozen=True, slots=True)
class Shard:
    """A source table and the target table that it goes into."""

    table: TableName
    target: TableName


@dataclass(frozen=True, slots=True)
class GroupDdl:
    """A DDL in one shard's binlog."""

    shard: Shard
    form: str  # equal for equal statements
    statements: tuple[str, ...]  # for people


@dataclass(frozen=True, slots=True)
class Member:
    """A shard of a group, as stored."""

    source_id: str
    table: TableName
    passed: int
    ready: int
    known: bool = False  # its structure; the optimistic mode asks


@dataclass(frozen=True, slots=True)
class Group:
    """A target table's shards at one moment."""

    executed: int
    members: tuple[Member, ...]
    joined: bool  # every source of the task

    def standing(self, source_id: str, table: TableName, number: int) -> Standing:
        """What a shard that has arrived at this DDL may do."""
        if self.executed >= number:
            return Standing.EXECUTED
        if any(self._is(each, source_id, table) and each.ready < number for each in self.members):
            # Held before anything could be decided (`dm.progress.shard_structures`, O6).
            decidable = self.joined and all(each.known for each in self.members)
            return Standing.COMPLETE if decidable else Standing.OTHERS_MISSING
        missing = [each for each in self.members if each.ready < number]
        if self.joined and not missing:
            return Standing.COMPLETE
        own = any(each.source_id == source_id and each.table != table for each in missing)
        return Standing.OWN_MISSING if own else Standing.OTHERS_MISSING

    @staticmethod
    def _is(member: Member, source_id: str, table: TableName) -> bool:
        return member.source_id == source_id and member.table == table


class ShardGroups:
    """What one source stores about groups. Each method works inside the caller's open transaction, under its claim."""

    def __init__(self, key: SubtaskKey) -> None:
        self.key = key  # of the source, not of a second pass
        self._tables = ShardTables.of(key)

    def ensure(self, connection: TargetConnection, targets: Iterable[TableName]) -> None:
        """Make the latches, outside of any transaction: two sources that insert one in theirs could deadlock."""
        for target in sorted(set(targets)):
            connection.execute(
                f"INSERT IGNORE INTO {self._tables.group.sql} (t_schema, t_table) VALUES (%s, %s)", tuple(target)
            )
            connection.commit()

    def join(self, connection: TargetConnection, shards: Iterable[Shard]) -> None:
        """Say once which shards the source has."""
        found = connection.query(
            f"SELECT joined FROM {self._tables.source.sql} WHERE id = %s FOR UPDATE", (self.key.source_id,)
        )
        if found and found[0][0]:
            return
        for shard in sorted(shards, key=lambda each: (each.target, each.table)):
            self._enter(connection, shard, self._latched(connection, shard.target))
        connection.execute(
            f"INSERT INTO {self._tables.source.sql} (id, joined) VALUES (%s, 1) ON DUPLICATE KEY UPDATE joined = 1",
            (self.key.source_id,),
        )

    def enter(self, connection: TargetConnection, shard: Shard) -> None:
        """A new table becomes a shard, with the structure that the target has now."""
        self._enter(connection, shard, self._latched(connection, shard.target))

    def leave(self, connection: TargetConnection, shard: Shard) -> None:
        """A shard is no more; the others may be complete without it."""
        self._latched(connection, shard.target)
        connection.execute(
            f"DELETE FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        self._forget_passed(connection, shard.target)

    def arrive(self, connection: TargetConnection, ddl: GroupDdl) -> Standing:
        """The shard is at its next DDL; raises DMError where that is not the one the others have there."""
        shard = ddl.shard
        executed = self._latched(connection, shard.target)
        self._enter(connection, shard, executed)
        number = self._number(connection, shard)
        self._agree(connection, ddl, number)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET ready = %s WHERE id = %s AND s_schema = %s AND s_table = %s",
            (number, self.key.source_id, *shard.table),
        )
        return self.group(connection, shard.target, executed).standing(self.key.source_id, shard.table, number)

    def look(self, connection: TargetConnection, shard: Shard) -> Standing:
        """The same again for a shard that has arrived; needs no transaction."""
        group = self.group(connection, shard.target)
        return group.standing(self.key.source_id, shard.table, self._number(connection, shard))

    def passed(self, connection: TargetConnection, shard: Shard) -> None:
        """The shard's rows are behind one more DDL; in the transaction that stores L behind it."""
        self._latched(connection, shard.target)
        connection.execute(
            f"UPDATE {self._tables.table.sql} SET passed = passed + 1, ready = GREATEST(ready, passed)"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        self._forget_passed(connection, shard.target)

    # -- The execution, by the holder of the turn

    def announced(self, connection: TargetConnection, shard: Shard, end: Position) -> Intent | None:
        """What somebody announced of the shard's next DDL; needs no transaction."""
        rows = connection.query(
            "SELECT piece, statement, connection_id, structure_before, structure_after, state"
            f" FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s AND state <> 'open'",
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

    def executed(self, connection: TargetConnection, shard: Shard) -> None:
        """Store that all of the shard's next DDL is done."""
        number = self._unexecuted(connection, shard)
        connection.execute(
            f"UPDATE {self._tables.ddl.sql} SET state = 'done' WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )
        connection.execute(
            f"UPDATE {self._tables.group.sql} SET executed = %s WHERE t_schema = %s AND t_table = %s",
            (number, *shard.target),
        )

    # -- Reading

    def group(self, connection: TargetConnection, target: TableName, executed: int | None = None) -> Group:
        """All shards of a target table."""
        if executed is None:
            found = connection.query(
                f"SELECT executed FROM {self._tables.group.sql} WHERE t_schema = %s AND t_table = %s", tuple(target)
            )
            executed = int(found[0][0]) if found else 0
        rows = connection.query(
            f"SELECT id, s_schema, s_table, passed, ready, structure IS NOT NULL FROM {self._tables.table.sql}"
            " WHERE t_schema = %s AND t_table = %s ORDER BY id, s_schema, s_table",
            tuple(target),
        )
        members = [
            Member(str(row[0]), TableName(str(row[1]), str(row[2])), int(row[3]), int(row[4]), bool(row[5]))
            for row in rows
        ]
        late = connection.query(f"SELECT COUNT(*) FROM {self._tables.source.sql} WHERE NOT joined")
        return Group(executed, tuple(members), int(late[0][0]) == 0)

    def waits_for(self, connection: TargetConnection, shard: Shard) -> tuple[tuple[str, ...], Group]:
        """The statements that a shard has arrived at, and its group; for people."""
        number = self._number(connection, shard)
        rows = connection.query(
            f"SELECT statements FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*shard.target, number),
        )
        group = self.group(connection, shard.target)
        return tuple(json.loads(str(rows[0][0]))) if rows else (), group

    def _latched(self, connection: TargetConnection, target: TableName) -> int:
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

    def _number(self, connection: TargetConnection, shard: Shard) -> int:
        found = connection.query(
            f"SELECT passed FROM {self._tables.table.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
            (self.key.source_id, *shard.table),
        )
        return int(found[0][0]) + 1

    def _unexecuted(self, connection: TargetConnection, shard: Shard) -> int:
        """The shard's next number, which nobody has executed: the turn is ours."""
        number = self._number(connection, shard)
        if self._latched(connection, shard.target) != number - 1:
            raise DMError("shard-ddl-out-of-turn", target=shard.target, number=number)
        return number

    def _agree(self, connection: TargetConnection, ddl: GroupDdl, number: int) -> None:
        table, target = self._tables.ddl.sql, ddl.shard.target
        rows = connection.query(
            f"SELECT form, statements, owner FROM {table} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*target, number),
        )
        owner = f"{self.key.source_id} {ddl.shard.table}"
        if rows and str(rows[0][0]) != ddl.form:
            raise DMError(
                "shard-ddl-conflict",
                target=target,
                owner=rows[0][2],
                first="; ".join(json.loads(str(rows[0][1]))),
                other=owner,
                second="; ".join(ddl.statements),
            )
        if not rows:
            connection.execute(
                f"INSERT INTO {table} (t_schema, t_table, number, form, statements, owner, statement, structure_before,"
                " structure_after) VALUES (%s, %s, %s, %s, %s, %s, '', '[]', '[]')",
                (*target, number, ddl.form, json.dumps(list[str](ddl.statements)), owner),
            )

    def _forget_passed(self, connection: TargetConnection, target: TableName) -> None:
        members = self.group(connection, target).members
        behind = min((member.passed for member in members), default=0)
        connection.execute(
            f"DELETE FROM {self._tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number <= %s"
            " AND state = 'done'",
            (*target, behind),
        )
