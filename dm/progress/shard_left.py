"""What is over with the shards that are no more.

A table that waits for a DDL of others, without one that is open, waits for nobody where there are no others. The first
one to be let in says what the shards are like from then on, so all that wait are compared with it anew (`ANEW`).
"""

from __future__ import annotations

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.shard_group import ANEW, EARLY
from dm.progress.shard_tables import ShardTables

_OF_TARGET = "t_schema = %s AND t_table = %s"


def forget_passed(connection: TargetConnection, tables: ShardTables, target: TableName) -> None:
    """Forget the DDLs that all shards are behind."""
    connection.execute(
        f"DELETE FROM {tables.ddl.sql} WHERE {_OF_TARGET} AND state = 'done' AND number <= %s",
        (*target, _highest(connection, f"SELECT MIN(passed) FROM {tables.table.sql} WHERE {_OF_TARGET}", target)),
    )


def ask_again(connection: TargetConnection, tables: ShardTables, target: TableName) -> None:
    """Compare the tables that wait with what the shards are like now; under the latch."""
    connection.execute(
        f"UPDATE {tables.table.sql} SET ready = passed, early = {ANEW} WHERE {_OF_TARGET} AND early = {EARLY}",
        tuple(target),
    )


def _highest(connection: TargetConnection, query: str, target: TableName) -> int:
    return int(connection.query(query, tuple(target))[0][0] or 0)
