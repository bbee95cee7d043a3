"""How a group's DDLs are renumbered and forgotten. (`numbered_ddls.py` has the rules of ordinary numbering.)

Optimistic mode: a shard whose structure already is what a DDL makes of the others is *beyond* that DDL. No such
statement comes in its binlog (O7 in `optimistic_structures.py`). Its next DDL has the next number, in either order of
arrival:

- Others wait at the DDL that it is beyond, and it arrives at its next DDL: it steps over the first.
- It arrives first: its DDL takes a number that belongs to another DDL. If a shard then arrives with a DDL that all
  shards waiting at that number are beyond, this DDL takes the number, and theirs moves up by one.
- Every shard that announced the DDL has left the group: the next DDL that all shards have arrived at leaves it out.

All of this happens under the group's latch, so a number changes only between transactions. A reader without the latch
takes number and group from one query.

A shard that is dropped, or that a person gives up, may have been the last one at a DDL that nobody has begun. The DDL
is forgotten, and what waits for it is read again:

- A shard that a person has waived there, and that arrived with another statement, now arrives at that (`ANEW`).
- Optimistic mode: a table that the target could not accept while the DDL was open is no shard. If the target still
  can't accept it, the task pauses, and other shards need not wait for it.
"""

from __future__ import annotations

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.mysql.schema.merged_table import undergone
from dm.mysql.schema.table import TableSchema, schema_from_json
from dm.progress.shards.group import ANEW, EARLY, WITH_ITS_MODEL, DdlState, GroupDdl, ShardTables
from dm.progress.tables import SubtaskKey, reads
from dm.session.answers import reads_answers


@reads_answers
def beyond(
    connection: TargetConnection, tables: ShardTables, target: TableName, executed: int
) -> set[tuple[str, TableName]]:
    """The shards whose structure already is what the open DDL makes of those that have arrived at it (O7)."""
    rows = connection.query(
        f"SELECT id, s_schema, s_table, passed, ready, early, structure, structure_after FROM {tables.table.sql}"
        " WHERE t_schema = %s AND t_table = %s AND structure IS NOT NULL",
        tuple(target),
    )
    there, others = list[tuple[TableSchema, TableSchema]](), dict[tuple[str, TableName], TableSchema]()
    for source_id, schema, table, passed, ready, early, structure, after in rows:
        if int(passed) == executed and int(ready) <= executed:  # it is at no DDL
            others[str(source_id), TableName(str(schema), str(table))] = schema_from_json(str(structure))
        elif int(passed) == executed and not early and after is not None:
            there.append((schema_from_json(str(structure)), schema_from_json(str(after))))
    if not there:
        return set()
    found = connection.query(
        f"SELECT target FROM {tables.group.sql} WHERE t_schema = %s AND t_table = %s", tuple(target)
    )
    table = schema_from_json(str(found[0][0])) if found and found[0][0] else None
    return {
        name
        for name, schema in others.items()
        if all(undergone(before, after, schema, table) for before, after in there)
    }


@reads(lambda key: ShardTables.of(key).ddl)
def step_over(connection: TargetConnection, key: SubtaskKey, ddl: GroupDdl, number: int, executed: int) -> int:
    """The number at which a shard arrives: after open DDLs that it is beyond, which are counted as passed."""
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
    """A shard is past a DDL that it does not have."""
    connection.execute(
        f"UPDATE {tables.table.sql} SET passed = %s, ready = GREATEST(ready, %s)"
        " WHERE id = %s AND s_schema = %s AND s_table = %s",
        (number, number, source_id, *table),
    )


@reads(lambda key: ShardTables.of(key).table)
def put_before(
    connection: TargetConnection,
    key: SubtaskKey,
    ddl: GroupDdl,
    number: int,
    change: tuple[TableSchema, TableSchema | None],
) -> None:
    """Insert a DDL before the one that others wait at, and renumber theirs, if they all are beyond it (O7).

    `change` is the shard's structure after the DDL, and the target's table as `undergone` needs it. If a person has
    decided about the open DDL, or it is begun, nothing changes.
    """
    tables = ShardTables.of(key)
    opened = connection.query(
        f"SELECT number, form, state = '{DdlState.OPEN}' AND NOT skipped FROM {tables.ddl.sql}"
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
    """Count the open DDLs before one that all shards have arrived at: the shards that announced them are gone.

    All others are beyond these DDLs. The caller knows that nothing of them has begun at the target.
    """
    tables, where = ShardTables.of(key), "t_schema = %s AND t_table = %s"
    connection.execute(
        f"DELETE FROM {tables.ddl.sql} WHERE {where} AND number > %s AND number < %s AND state = '{DdlState.OPEN}'",
        (*target, executed, number),
    )
    connection.execute(f"UPDATE {tables.group.sql} SET executed = %s WHERE {where}", (number - 1, *target))


_OF_TARGET = "t_schema = %s AND t_table = %s"


def forget_passed(connection: TargetConnection, tables: ShardTables, target: TableName) -> None:
    """Forget the DDLs that all shards have passed."""
    connection.execute(
        f"DELETE FROM {tables.ddl.sql} WHERE {_OF_TARGET} AND state = '{DdlState.DONE}' AND number <= %s",
        (*target, _highest(connection, f"SELECT MIN(passed) FROM {tables.table.sql} WHERE {_OF_TARGET}", target)),
    )


@reads_answers
def forget_unattended(connection: TargetConnection, tables: ShardTables, target: TableName, executed: int) -> None:
    """Forget the DDLs that no shard is at, unless the target may have executed a part of one; under the latch."""
    there = f"SELECT MAX(ready) FROM {tables.table.sql} WHERE {_OF_TARGET} AND early IN (0, {WITH_ITS_MODEL})"
    last = max(executed, _highest(connection, there, target))
    open_there = f"FROM {tables.ddl.sql} WHERE {_OF_TARGET} AND number > %s AND state = '{DdlState.OPEN}'"
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
    connection.execute(  # they were waived at this DDL; the next one with this number is another
        f"UPDATE {tables.table.sql} SET waived = %s, since = since WHERE {_OF_TARGET} AND waived > %s",
        (executed, *target, executed),
    )


@reads_answers
def _highest(connection: TargetConnection, query: str, target: TableName) -> int:
    return int(connection.query(query, tuple(target))[0][0] or 0)
