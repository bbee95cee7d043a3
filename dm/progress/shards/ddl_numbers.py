"""The numbers of DDLs that some shards are beyond and never come to (optimistic mode).

A shard that is already as a DDL leaves the others does not come to it (O7 in `dm.progress.shards.structures`). Its next
DDL has the next number, whichever of the two is reached first:

- It comes to its next one, and others are at the one that it is beyond: it steps over that.
- Nobody is there yet: its next DDL gets a number that is not its own. Whoever comes to that number with a DDL that all
  who are there are beyond puts it before theirs.
- Who came with a DDL is no shard any more: the next one that all have come to leaves it out.

All of it happens under the group's latch, so a number changes between two transactions only. Whoever looks without the
latch takes the number and the group from one reading.
"""

from __future__ import annotations

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.mysql.schema.serial import schema_from_json
from dm.mysql.schema.shard_change import undergone
from dm.mysql.schema.table import TableSchema
from dm.progress.shards.group import WITH_ITS_MODEL, GroupDdl
from dm.progress.shards.structures import beyond
from dm.progress.shards.tables import ShardTables
from dm.progress.tables import SubtaskKey


def step_over(connection: TargetConnection, key: SubtaskKey, ddl: GroupDdl, number: int, executed: int) -> int:
    """Count what is open for a shard that is beyond it and comes to another DDL, since it stays there; its number."""
    tables, own = ShardTables.of(key), (key.source_id, ddl.shard.table)
    while number > executed:
        rows = connection.query(
            f"SELECT form FROM {tables.ddl.sql} WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*ddl.shard.target, number),
        )
        if not rows or str(rows[0][0]) == ddl.form:
            break
        if own not in beyond(connection, tables, ddl.shard.target, number - 1):
            break
        count(connection, tables, *own, number)
        number += 1
    return number


def count(connection: TargetConnection, tables: ShardTables, source_id: str, table: TableName, number: int) -> None:
    """A shard is past a DDL to which it does not come."""
    connection.execute(
        f"UPDATE {tables.table.sql} SET passed = %s, ready = GREATEST(ready, %s)"
        " WHERE id = %s AND s_schema = %s AND s_table = %s",
        (number, number, source_id, *table),
    )


def put_before(
    connection: TargetConnection,
    key: SubtaskKey,
    ddl: GroupDdl,
    number: int,
    change: tuple[TableSchema, TableSchema | None],
) -> None:
    """Give a DDL a number that others are at with another one, which gets the next, if they all are beyond it (O7).

    `change` is the shard's structure after the DDL, and the target's table as `undergone` asks for it. Where a person
    has decided about the open one, or it is begun, nothing changes.
    """
    tables = ShardTables.of(key)
    opened = connection.query(
        f"SELECT number, form, state = 'open' AND NOT skipped FROM {tables.ddl.sql}"
        " WHERE t_schema = %s AND t_table = %s AND number >= %s ORDER BY number DESC",
        (*ddl.shard.target, number),
    )
    if not opened or str(opened[-1][1]) == ddl.form or not all(untouched for *_, untouched in opened):
        return
    rows = connection.query(
        f"SELECT id, s_schema, s_table, structure, ready >= %s AND early IN (0, {WITH_ITS_MODEL}), waived >= %s"
        f" FROM {tables.table.sql} WHERE t_schema = %s AND t_table = %s",
        (number, number, *ddl.shard.target),
    )
    found = {(str(row[0]), TableName(str(row[1]), str(row[2]))): row[3:] for row in rows}
    decided = any(waived for *_, waived in found.values())
    own, came, _ = found.pop((key.source_id, ddl.shard.table))
    there = {name: structure for name, (structure, is_there, _) in found.items() if is_there}
    if decided or came or own is None or not there or None in there.values():
        return
    before, (after, target) = schema_from_json(str(own)), change
    if not all(undergone(before, after, schema_from_json(str(each)), target) for each in there.values()):
        return
    for last, *_ in opened:
        connection.execute(
            f"UPDATE {tables.ddl.sql} SET number = number + 1 WHERE t_schema = %s AND t_table = %s AND number = %s",
            (*ddl.shard.target, last),
        )
    for source_id, table in there:
        connection.execute(
            f"UPDATE {tables.table.sql} SET passed = passed + 1, ready = ready + 1, since = since"
            " WHERE id = %s AND s_schema = %s AND s_table = %s",
            (source_id, *table),
        )


def leave_out(connection: TargetConnection, key: SubtaskKey, target: TableName, executed: int, number: int) -> None:
    """Count what is open before a DDL that all have come to: who came with that is no shard any more.

    All others are beyond it. The caller knows that nothing of it is begun at the target.
    """
    tables, where = ShardTables.of(key), "t_schema = %s AND t_table = %s"
    connection.execute(
        f"DELETE FROM {tables.ddl.sql} WHERE {where} AND number > %s AND number < %s AND state = 'open'",
        (*target, executed, number),
    )
    connection.execute(f"UPDATE {tables.group.sql} SET executed = %s WHERE {where}", (number - 1, *target))
