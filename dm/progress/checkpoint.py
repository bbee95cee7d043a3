"""The checkpoint: the global point L, the bound B, and per table its structure and, if it has one, its own point.

Only the control lane writes here, each time in a transaction that first advances the control row (invariants I1 to I3
of `protocol.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.file_birth import FileBirth, birth_from_json, birth_to_json
from dm.progress.intent import Intent, storing_intent
from dm.progress.lane_rows import LaneClaim, claimed, position_columns, read_position
from dm.progress.online import OnlineRecord, write_online
from dm.progress.operators import Operator, put_operator, remove_operators
from dm.progress.stored_rows import reads
from dm.progress.tables import SubtaskKey, existing_tables
from dm.schema.serial import schema_from_json, schema_to_json
from dm.schema.table import TableSchema

_NO_STRUCTURE = "{}"
_ROWS_TOGETHER = 8  # in one statement: a structure may be long


@dataclass(frozen=True, slots=True)
class TablePoint:
    """A table at the checkpoint: its structure (None when it is gone) and its own point (None: the global one)."""

    schema: TableSchema | None
    point: Position | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The progress of one subtask in the checkpoint table."""

    position: Position  # L
    bound: Position | None = None  # B; None when L covers everything committed
    tables: Mapping[TableName, TablePoint] = field(default_factory=dict)
    birth: FileBirth | None = None  # of L's file

    def points_ahead(self) -> dict[TableName, Position]:
        """The tables' own points, until L has passed every one of them; then none."""
        points = {table: each.point for table, each in self.tables.items() if each.point is not None}
        return {} if all(self.position.is_behind(point) for point in points.values()) else points


def has_checkpoint(connection: TargetConnection, key: SubtaskKey) -> bool:
    """Whether syncing has begun, or may begin, from a stored point."""
    if key.checkpoint not in existing_tables(connection, key):
        return False
    rows = connection.query(f"SELECT 1 FROM {key.checkpoint.sql} WHERE id = %s AND is_global", (key.source_id,))
    return bool(rows)


@reads(lambda key: key.checkpoint)
def read_checkpoint(connection: TargetConnection, key: SubtaskKey) -> Checkpoint | None:
    """What is stored; None if the subtask never had a point."""
    rows = connection.query(
        "SELECT is_global, cp_schema, cp_table, server_uuid, binlog_name, binlog_pos, binlog_gtid,"
        " exit_safe_server_uuid, exit_safe_binlog_name, exit_safe_binlog_pos, exit_safe_binlog_gtid, table_info"
        f" FROM {key.checkpoint.sql} WHERE id = %s",
        (key.source_id,),
    )
    position: Position | None = None
    bound: Position | None = None
    birth: FileBirth | None = None
    tables: dict[TableName, TablePoint] = {}
    for row in rows:
        if row[0]:
            position = read_position(*row[3:7])
            bound = read_position(*row[7:11])
            birth = birth_from_json(str(row[11]))
        else:
            text = str(row[11])
            schema = None if text == _NO_STRUCTURE else schema_from_json(text)
            tables[TableName(str(row[1]), str(row[2]))] = TablePoint(schema, read_position(*row[3:7]))
    if position is None:
        if tables:
            raise DMError("checkpoint-damaged", table=str(key.checkpoint), source=key.source_id)
        return None
    return Checkpoint(position, bound, tables, birth)


@reads(lambda key: key.checkpoint)
def read_position_of(connection: TargetConnection, key: SubtaskKey) -> Position | None:
    """L alone; None if the subtask never had a point."""
    rows = connection.query(
        f"SELECT server_uuid, binlog_name, binlog_pos, binlog_gtid FROM {key.checkpoint.sql}"
        " WHERE id = %s AND is_global",
        (key.source_id,),
    )
    return read_position(*rows[0]) if rows else None


@reads(lambda key: key.checkpoint)
def read_structure_of(connection: TargetConnection, key: SubtaskKey, table: TableName) -> TableSchema | None:
    """The structure of one table of the source at L."""
    rows = connection.query(
        f"SELECT table_info FROM {key.checkpoint.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s"
        " AND NOT is_global",
        (key.source_id, table.schema, table.table),
    )
    return schema_from_json(str(rows[0][0])) if rows and str(rows[0][0]) != _NO_STRUCTURE else None


_Row = tuple[object, ...]


def write_global(
    connection: TargetConnection,
    key: SubtaskKey,
    position: Position,
    bound: Position | None,
    birth: FileBirth | None = None,
) -> None:
    """Store L, with its file's birth if known, and B inside the open transaction."""
    for statement in _storing_rows(connection, key, [_global_row(position, bound, birth)]):
        connection.execute(statement)


def write_table(connection: TargetConnection, key: SubtaskKey, table: TableName, point: TablePoint) -> None:
    """Store one table inside the open transaction."""
    for statement in _storing_rows(connection, key, [_table_row(table, point)]):
        connection.execute(statement)


def _global_row(position: Position, bound: Position | None, birth: FileBirth | None) -> _Row:
    return ("", "", *position_columns(position), *position_columns(bound), birth_to_json(birth), 1)


def _table_row(table: TableName, point: TablePoint) -> _Row:
    structure = _NO_STRUCTURE if point.schema is None else schema_to_json(point.schema)
    return (table.schema, table.table, *position_columns(point.point), *position_columns(None), structure, 0)


def _storing_rows(connection: TargetConnection, key: SubtaskKey, rows: Sequence[_Row]) -> list[bytes]:
    names = ("binlog_name", "binlog_pos", "binlog_gtid", "server_uuid")
    columns = ("id", "cp_schema", "cp_table", *names, *(f"exit_safe_{name}" for name in names), "table_info")
    values = f"({', '.join(['%s'] * (len(columns) + 1))})"
    changed = ", ".join(f"{name} = VALUES({name})" for name in columns[3:])
    parts = (rows[first : first + _ROWS_TOGETHER] for first in range(0, len(rows), _ROWS_TOGETHER))
    return [
        connection.rendered(
            f"INSERT INTO {key.checkpoint.sql} ({', '.join(columns)}, is_global)"
            f" VALUES {', '.join([values] * len(part))} ON DUPLICATE KEY UPDATE {changed}",
            [value for row in part for value in (key.source_id, *row)],
        )
        for part in parts
    ]


def write_new(connection: TargetConnection, key: SubtaskKey, checkpoint: Checkpoint) -> bool:
    """Store a first checkpoint in one transaction; False, with nothing written, if one exists already."""
    try:
        connection.begin()
        rows = connection.query(
            f"SELECT 1 FROM {key.checkpoint.sql} WHERE id = %s AND cp_schema = '' AND cp_table = '' FOR UPDATE",
            (key.source_id,),
        )
        if not rows:
            write_global(connection, key, checkpoint.position, checkpoint.bound, checkpoint.birth)
            for table, point in checkpoint.tables.items():
                write_table(connection, key, table, point)
        connection.commit()
    except DMError:
        connection.rollback()
        raise
    return not rows


def store_table(connection: TargetConnection, key: SubtaskKey, table: TableName, point: TablePoint) -> None:
    """Store one table at the checkpoint in its own transaction; the caller holds the control lane's lock."""
    connection.begin()
    write_table(connection, key, table, point)
    connection.commit()


def forget_table(connection: TargetConnection, key: SubtaskKey, table: TableName) -> None:
    """Store that a table is unknown, in a transaction of its own."""
    connection.begin()
    connection.execute(_removing_table(connection, key, table))
    connection.commit()


def _removing_table(connection: TargetConnection, key: SubtaskKey, table: TableName) -> bytes:
    return connection.rendered(
        f"DELETE FROM {key.checkpoint.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
        (key.source_id, table.schema, table.table),
    )


@dataclass(slots=True)
class CheckpointWriter:
    """Writes the checkpoint under the control lane's claim."""

    connection: TargetConnection
    claim: LaneClaim

    def write(
        self,
        position: Position,
        bound: Position | None,
        tables: Mapping[TableName, TablePoint] | None = None,
        gone: Iterable[TableName] = (),
        *,
        clear_intent: bool = False,
        intent: Intent | None = None,
        outdated: Sequence[Operator] = (),
        injected: Operator | None = None,
        online: Mapping[TableName, OnlineRecord | None] | None = None,
        birth: FileBirth | None,
        beside: Callable[[TargetConnection], None] | None = None,
    ) -> None:
        """Store L and B and, after a DDL, the changed structures and the end of its intent, in one transaction.

        `intent` is that of the statement behind it, which takes the place of the one that ended.
        The same transaction removes operators not needed after L, marks an operator's statements as executed, and
        stores what changed about online DDL (None: forget the record). `beside` stores something more in it.
        """
        connection, key = self.connection, self.claim.key
        rows = [_table_row(table, point) for table, point in (tables or {}).items()]
        statements = _storing_rows(connection, key, [_global_row(position, bound, birth), *rows])
        statements += [_removing_table(connection, key, table) for table in gone]
        if intent is not None:
            statements.append(storing_intent(connection, key, intent))
        elif clear_intent:
            statements.append(connection.rendered(f"DELETE FROM {key.intent.sql} WHERE id = %s", (key.source_id,)))
        with claimed(connection, self.claim, statements):
            remove_operators(connection, key, outdated)
            if injected is not None:
                put_operator(connection, key, injected)
            write_online(connection, key, online or {})
            if beside is not None:
                beside(connection)
