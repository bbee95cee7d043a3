"""What a group of shards is like at one moment: who belongs to it, who has come to which DDL, who is missing.

What is over with the shards that are no more.

A shard that is dropped, or that a person gives up, may have been the last one at a DDL that nobody has begun. That DDL
is nobody's any more. What waits for it is read again:

- a shard that a person has waived there, and that came with another statement, comes to that (`ANEW`);
- in the optimistic mode, a table that the target did not take with the DDL open is no shard: if the target still does
  not take it, the task pauses, and others need not wait for it.

A table that waits for a DDL of others, without one that is open, waits for nobody where there are no others. The first
one to be let in says what the shards are like from then on, so all that wait are compared with it anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.shards.tables import ShardTables


class Standing(Enum):
    """What a shard may do at a DDL."""

    EXECUTED = "the target has it"
    COMPLETE = "all have arrived"
    OTHERS_MISSING = "all of this source have arrived"
    OWN_MISSING = "shards of this source have not arrived"
    AGAIN = "it is held, and its event is to be read again: what it has waited for does not come"


# Why a table waits at its CREATE TABLE.
EARLY: Final = 1  # others have to execute what the shard waits for
WITH_ITS_MODEL: Final = 2  # it is to be created like a shard that is held, and waits for what that one does
WITH_THE_HELD: Final = 3  # shards of its source are held, whose statements the target has not had yet
ANEW: Final = 4  # what it has waited for does not come any more
GOES_ON: Final = (Standing.EXECUTED, Standing.COMPLETE)
READ_AGAIN: Final = (*GOES_ON, Standing.AGAIN)  # by a second pass


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
    early: bool = False  # others have to execute what it waits for
    anew: bool = False  # it is held at an event at which it does not count
    waived: int = 0  # up to which DDL nobody waits for it
    known: bool = False  # its structure; the optimistic mode asks
    beyond: bool = False  # it is as the open DDL leaves a shard, and need not come to it (optimistic mode)


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """A target table's shards at one moment."""

    executed: int
    members: tuple[Member, ...]
    joined: bool  # every source of the task
    begun: bool = False  # the next DDL is being executed; nobody is waited for any more
    opened: bool = False  # somebody has come to the next DDL

    def standing(self, source_id: str, table: TableName, number: int) -> Standing:
        """What a shard that has arrived at this DDL may do."""
        if self.executed >= number:
            return Standing.EXECUTED
        if self.begun and number == self.executed + 1:
            return Standing.COMPLETE
        if any(self._is(each, source_id, table) and each.ready < number for each in self.members):
            # Held before anything could be decided.
            return Standing.COMPLETE if self.decidable else Standing.OTHERS_MISSING
        missing = self.missing(number)
        if self.joined and not missing:
            return Standing.COMPLETE
        own = any(each.source_id == source_id and each.table != table for each in missing)
        return Standing.OWN_MISSING if own else Standing.OTHERS_MISSING

    @property
    def decidable(self) -> bool:
        """Whether the optimistic mode can decide anything (`dm.progress.shards.structures`, O6)."""
        return self.joined and all(each.known for each in self.members)

    def missing(self, number: int) -> list[Member]:
        """The shards that a DDL waits for."""
        return [
            each
            for each in self.members
            if max(each.ready, each.waived) < number and not (each.beyond and number == self.executed + 1)
        ]

    def waits_for_nobody(self, source_id: str, table: TableName) -> bool:
        """Whether a new table is alone: nobody is there, or may be, to execute what it would wait for."""
        others = (each for each in self.members if not self._is(each, source_id, table))
        # Behind what it has waited for, one is a shard like the others.
        return self.joined and not self.opened and all(each.early and each.ready > self.executed for each in others)

    def own(self, source_id: str, table: TableName) -> Member | None:
        """The shard of a source, if it is one of the group."""
        return next((each for each in self.members if self._is(each, source_id, table)), None)

    @staticmethod
    def _is(member: Member, source_id: str, table: TableName) -> bool:
        return member.source_id == source_id and member.table == table


_OF_TARGET = "t_schema = %s AND t_table = %s"


def forget_passed(connection: TargetConnection, tables: ShardTables, target: TableName) -> None:
    """Forget the DDLs that all shards are past."""
    connection.execute(
        f"DELETE FROM {tables.ddl.sql} WHERE {_OF_TARGET} AND state = 'done' AND number <= %s",
        (*target, _highest(connection, f"SELECT MIN(passed) FROM {tables.table.sql} WHERE {_OF_TARGET}", target)),
    )


def forget_unattended(connection: TargetConnection, tables: ShardTables, target: TableName, executed: int) -> None:
    """Forget the DDLs that no shard is at any more, unless the target may have a part of one; under the latch."""
    there = f"SELECT MAX(ready) FROM {tables.table.sql} WHERE {_OF_TARGET} AND early IN (0, {WITH_ITS_MODEL})"
    last = max(executed, _highest(connection, there, target))
    open_there = f"FROM {tables.ddl.sql} WHERE {_OF_TARGET} AND number > %s AND state = 'open'"
    numbers = [int(row[0]) for row in connection.query(f"SELECT number {open_there}", (*target, last))]
    connection.execute(f"DELETE {open_there}", (*target, last))
    if executed + 1 not in numbers:
        return
    waits = f"{_OF_TARGET} AND early = {EARLY} AND ready > %s"
    connection.execute(
        f"DELETE FROM {tables.table.sql} WHERE {waits} AND waived < ready"
        " AND structure IS NOT NULL",  # the optimistic mode knows it
        (*target, executed),
    )
    connection.execute(
        f"UPDATE {tables.table.sql} SET ready = passed, early = {ANEW} WHERE {waits} AND waived >= ready",
        (*target, executed),
    )
    connection.execute(  # nobody was to wait for them at this DDL, and the next one at this number is another one
        f"UPDATE {tables.table.sql} SET waived = %s, since = since WHERE {_OF_TARGET} AND waived > %s",
        (executed, *target, executed),
    )


def ask_again(connection: TargetConnection, tables: ShardTables, target: TableName) -> None:
    """Compare the tables that wait with what the shards are like now; under the latch."""
    connection.execute(
        f"UPDATE {tables.table.sql} SET ready = passed, early = {ANEW} WHERE {_OF_TARGET} AND early = {EARLY}",
        tuple(target),
    )


def _highest(connection: TargetConnection, query: str, target: TableName) -> int:
    return int(connection.query(query, tuple(target))[0][0] or 0)
