"""Shards that are held: their source's stream goes on without them, and a second pass reads their rows later.

A table of a source belongs to main (the source's stream), is held, or belongs to the second pass. It changes hands only
after a barrier, in one transaction that advances main's control row:

    hold      main or the pass gives the table up. Its place (where the DDL's transaction begins) and its structure are
              stored, and L moves after the event.
    begin     main is past everything that any run did, and waits at M, its L. The held tables that may go on get a
              checkpoint under an id of its own, which begins at the lowest place. Each table has its place as a point.
              The lanes' rows of an earlier pass are emptied: they say nothing about these tables. The pass gets a copy
              of main's operators, which main keeps as long as a table is held before them.
    return    the pass has read to M; its tables are main's again, with the structures that they have there.

While a pass has a checkpoint, main does not run: a run that finds one finishes the pass first. The pass is an ordinary
run from one place to another, so all of `protocol.py` holds for it: keyless rows are applied exactly once, and no safe
mode is needed beyond that of any restart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.position import Position
from dm.progress.checkpoint import TablePoint, read_checkpoint, write_global, write_table
from dm.progress.lane_rows import LaneClaim, claimed, position_columns, read_position
from dm.progress.operators import copy_operators, tell_done
from dm.progress.shards.group import ShardTables
from dm.progress.tables import SubtaskKey, reads

Real = Callable[[TableName], TableName]  # gives the table that one of an online DDL tool belongs to


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A shard whose rows wait, from a place in the binlog."""

    table: TableName
    place: Position
    schema: TableSchema | None  # its structure there, if known
    undecided: tuple[str, ...] = ()  # XA transactions that were prepared before and decided after the place


def earliest(places: Iterable[Position]) -> Position:
    """The place that all others are past."""
    return reduce(lambda one, other: other if one.covers(other) else one, places)


def pass_start(places: Sequence[Position]) -> Position:
    """The place from which the rows after each of these places are read; raises DMError.

    Two servers may have different orders. Then each of two places may include a transaction that the other lacks, and
    reading from either would miss one.
    """
    start = earliest(places)
    for place in places:
        if not place.covers(start):
            missing = start.gtid_set - place.gtid_set
            now = place.server_uuid
            raise DMError("shard-pass-elsewhere", place=start, server=start.server_uuid, now=now, gtid=missing)
    return start


@reads(lambda key: ShardTables.of(key).held)
def read_held(connection: TargetConnection, key: SubtaskKey) -> tuple[HeldTable, ...]:
    """The held tables of a source."""
    rows = connection.query(
        "SELECT s_schema, s_table, server_uuid, binlog_name, binlog_pos, binlog_gtid, structure, undecided"
        f" FROM {ShardTables.of(key).held.sql} WHERE id = %s ORDER BY s_schema, s_table",
        (key.source_id,),
    )
    found = []
    for schema, table, uuid, name, offset, gtids, structure, undecided in rows:
        place = read_position(uuid, name, offset, gtids)
        if place is None:
            raise DMError("checkpoint-damaged", table=ShardTables.of(key).held, source=key.source_id)
        held = schema_from_json(str(structure)) if structure else None
        xids = tuple(json.loads(str(undecided))) if undecided else ()  # empty: of an earlier build
        found.append(HeldTable(TableName(str(schema), str(table)), place, held, xids))
    return tuple(found)


def put_held(connection: TargetConnection, key: SubtaskKey, held: HeldTable) -> None:
    """Hold a table, inside the open transaction that moves L after its DDL."""
    name, offset, gtids, uuid = position_columns(held.place)
    connection.execute(
        f"REPLACE INTO {ShardTables.of(key).held.sql} (id, s_schema, s_table, server_uuid, binlog_name, binlog_pos,"
        " binlog_gtid, structure, undecided) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            key.source_id,
            *held.table,
            uuid,
            name,
            offset,
            gtids,
            "" if held.schema is None else schema_to_json(held.schema),
            json.dumps(held.undecided),
        ),
    )


@reads(lambda key: key.checkpoint)
def hand_over(
    connection: TargetConnection, giving: SubtaskKey, taking: SubtaskKey, chosen: Callable[[TableName], bool]
) -> None:
    """Move the records of an online DDL tool's tables to the reading that has the real table."""
    for table, names in ((giving.checkpoint, "cp_schema, cp_table"), (giving.online, "ghost_schema, ghost_table")):
        rows = connection.query(f"SELECT {names} FROM {table.sql} WHERE id = %s", (giving.source_id,))
        for name in (TableName(str(row[0]), str(row[1])) for row in rows):
            if chosen(name):
                where = f"WHERE id = %s AND ({names}) = (%s, %s)"
                connection.execute(f"DELETE FROM {table.sql} {where}", (taking.source_id, *name))
                connection.execute(
                    f"UPDATE {table.sql} SET id = %s {where}", (taking.source_id, giving.source_id, *name)
                )


@reads(lambda key: ShardTables.of(key).source)
def undecided_before(connection: TargetConnection, key: SubtaskKey) -> tuple[str, ...]:
    """XA transactions prepared before the second pass of a source begins, so that it does not have their rows.

    They changed none of its tables: the source's metadata locks keep PREPARE and verdict on one side of a DDL.
    """
    rows = connection.query(f"SELECT undecided FROM {ShardTables.of(key).source.sql} WHERE id = %s", (key.source_id,))
    return tuple(json.loads(str(rows[0][0]))) if rows and rows[0][0] else ()


def begin_second(
    connection: TargetConnection, main: LaneClaim, going: Iterable[HeldTable], real: Real = lambda table: table
) -> None:
    """Give held tables to a second pass; main's lanes are drained, and its L is stored. Raises DMError."""
    going = tuple(going)
    start = pass_start([each.place for each in going])
    key, second = main.key, main.key.second
    with claimed(connection, main):
        for table in (second.checkpoint, second.intent, second.undone, second.ordered, second.online):
            connection.execute(f"DELETE FROM {table.sql} WHERE id = %s", (second.source_id,))
        copy_operators(connection, key, second)
        # The rows stay, because of their epochs.
        connection.execute(
            f"UPDATE {second.worker.sql} SET binlog_name = '', binlog_pos = 0, binlog_gtid = '', server_uuid = ''"
            " WHERE id = %s",
            (second.source_id,),
        )
        tables = {each.table for each in going}
        hand_over(connection, key, second, lambda name: real(name) in tables and real(name) != name)
        write_global(connection, second, start, None)
        undecided = sorted({xid for each in going for xid in each.undecided})
        connection.execute(
            f"UPDATE {ShardTables.of(key).source.sql} SET undecided = %s WHERE id = %s",
            (json.dumps(undecided), key.source_id),
        )
        for each in going:
            write_table(connection, second, each.table, TablePoint(each.schema, each.place))
            connection.execute(
                f"DELETE FROM {ShardTables.of(key).held.sql} WHERE id = %s AND s_schema = %s AND s_table = %s",
                (key.source_id, *each.table),
            )


def return_second(
    connection: TargetConnection, main: LaneClaim, second: LaneClaim, real: Real = lambda table: table
) -> None:
    """Give the tables of the second pass back to main; its lanes are drained at main's L. Raises DMError."""
    with claimed(connection, main):
        second.advance(connection, None)
        checkpoint = read_checkpoint(connection, second.key)
        for table, point in ({} if checkpoint is None else checkpoint.tables).items():
            write_table(connection, main.key, table, TablePoint(point.schema))
        hand_over(connection, second.key, main.key, lambda name: real(name) != name)
        tell_done(connection, second.key, main.key)
        for left in (second.key.checkpoint, second.key.operator):
            connection.execute(f"DELETE FROM {left.sql} WHERE id = %s", (second.key.source_id,))
