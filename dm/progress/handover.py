"""What a full load leaves for the syncer: the point to start from, and the bound up to which rows may exist already.

P0 becomes the global point, P1 the bound. Between them the syncer works in safe mode, since chunks were read at any
moment in between (invariant I4 of `protocol.py`). A table that was read at a point of its own (keyless, or altered
during the dump) carries this point. A table that vanished during the dump carries the point after its end, so that its
earlier changes are not expected. All other tables carry P0, which tells tables that the dump has read from tables it
never saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, TablePoint, write_new
from dm.progress.file_birth import FileBirth
from dm.progress.tables import SubtaskKey, create_tables
from dm.schema.table import TableSchema


@dataclass(frozen=True, slots=True)
class Handover:
    """The result of dump and load; tables by their source names."""

    p0: Position
    p1: Position
    tables: Mapping[TableName, tuple[TableSchema, Position | None]]
    vanished: Mapping[TableName, Position] = field(default_factory=dict)
    birth: FileBirth | None = None  # of P0's file: the syncer must find P0 in the same file


def write_handover(connection: TargetConnection, key: SubtaskKey, handover: Handover) -> bool:
    """Store the handover in one transaction; False when a checkpoint exists already (a repeated last step)."""
    create_tables(connection, key)
    tables = {table: TablePoint(schema, point or handover.p0) for table, (schema, point) in handover.tables.items()}
    for table, point in handover.vanished.items():
        tables[table] = TablePoint(None, point)
    bound = None if handover.p0.order == handover.p1.order else handover.p1
    return write_new(connection, key, Checkpoint(handover.p0, bound, tables, handover.birth))
