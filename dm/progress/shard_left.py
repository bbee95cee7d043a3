"""What is over with the shards that are no more.

A shard that is dropped, or that a person gives up, may have been the last one at a DDL that nobody has begun. That DDL
is nobody's any more. What waits for it is read again:

- a shard that a person has waived there, and that came with another statement, comes to that (`ANEW`);
- in the optimistic mode, a table that the target did not take with the DDL open is no shard: if the target still does
  not take it, the task pauses, and others need not wait for it.

A table that waits for a DDL of others, without one that is open, waits for nobody where there are no others. The first
one to be let in says what the shards are like from then on, so all that wait are compared with it anew.
"""

from __future__ import annotations

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.shard_group import ANEW, EARLY, WITH_ITS_MODEL
from dm.progress.shard_tables import ShardTables

_OF_TARGET = "t_schema = %s AND t_table = %s"


def forget_passed(connection: TargetConnection, tables: ShardTables, target: TableName) -> None:
    """Forget the DDLs that all shards are behind."""
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
