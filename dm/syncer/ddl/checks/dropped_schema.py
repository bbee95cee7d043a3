"""DROP DATABASE where routes lead tables of the schema into other schemas of the target.

The target drops the one schema that the schema itself is routed to. What the source lost elsewhere would stay, and come
back to life with a table of the same name: nothing in the binlog names those tables. So the task pauses while the
target has one of them.
"""

from __future__ import annotations

from collections.abc import Callable

from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.schema.table import TableSchema
from dm.schema.tracker import SchemaTracker
from dm.sql.operation import DropDatabase
from dm.sql.piece import Piece


def refuse_leaving_tables(
    piece: Piece,
    tracker: SchemaTracker,
    rules: TableRules,
    read_target: Callable[[TableName], TableSchema | None],
    position: Position,
) -> None:
    """Raise DMError where the target would keep tables of the schema that the piece drops."""
    operation = piece.operations[0] if piece.operations else None
    if not isinstance(operation, DropDatabase):
        return
    gone = rules.route(operation.name).schema
    routed = {
        rules.route(table)
        for table in tracker.tables()
        if table.schema == operation.name.schema and rules.wanted(table)
    }
    left = [table for table in sorted(routed) if table.schema != gone and read_target(table) is not None]
    if left:
        tables = ", ".join(table.sql for table in left)
        raise DMError("ddl-schema-elsewhere", tables=tables, statement=piece.text, position=position)
