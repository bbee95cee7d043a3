"""A group of shards, read as it is stored."""

from __future__ import annotations

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.shards.group import ANEW, EARLY, Member, ShardGroup
from dm.progress.shards.structures import beyond
from dm.progress.shards.tables import ShardTables
from dm.progress.tables import SubtaskKey, reads


@reads(lambda key: ShardTables.of(key).table)
def read_group(
    connection: TargetConnection, key: SubtaskKey, target: TableName, executed: int | None = None
) -> ShardGroup:
    """All shards of a target table; `executed` is read as well where it is not known."""
    tables = ShardTables.of(key)
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
    begun = any(str(state) != "open" for (state,) in states)
    return ShardGroup(executed, tuple(members), int(late[0][0]) == 0, begun, bool(states))
