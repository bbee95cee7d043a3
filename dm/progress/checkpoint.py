"""The checkpoint: the global point L, the bound B, and per table its structure and, if it has one, its own point.

Only the control lane writes here, each time in a transaction that first advances the control row (invariants I1 to I3
of `protocol.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.position import Position
from dm.progress.intent import Intent, OnlineRecord, storing_intent, write_online
from dm.progress.lane_rows import (
    ATOMIC,
    CONTROL,
    KEYLESS,
    LaneClaim,
    claimed,
    position_columns,
    put_done,
    raise_epoch,
    read_ordered,
    read_position,
    transaction,
)
from dm.progress.operators import Operator, put_operator, remove_operators
from dm.progress.owner import told_owner
from dm.progress.tables import SubtaskKey, create_tables, existing_tables, reads
from dm.progress.validator import StoredStructures, create_validator_tables, write_beginning
from dm.session.answers import reads_answers
from dm.sourcelog.stream.file_births import FileBirth, birth_from_json, birth_to_json

_NO_STRUCTURE = "{}"
_ROWS_TOGETHER = 8  # in one statement: a structure may be long


@dataclass(frozen=True, slots=True)
class TablePoint:
    """A table at the checkpoint: its structure (None if it is gone) and its own point (None: the global one)."""

    schema: TableSchema | None
    point: Position | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The progress of one subtask in the checkpoint table."""

    position: Position  # L
    bound: Position | None = None  # B; None if L covers everything committed
    tables: Mapping[TableName, TablePoint] = field(default_factory=dict)
    birth: FileBirth | None = None  # of L's file

    def points_ahead(self) -> dict[TableName, Position]:
        """The tables' own points, until L has passed every one of them; then none."""
        points = {table: each.point for table, each in self.tables.items() if each.point is not None}
        return {} if all(self.position.at_or_after(point) for point in points.values()) else points


@reads_answers
def has_checkpoint(connection: TargetConnection, key: SubtaskKey) -> bool:
    """Whether syncing has begun, or may begin, from a stored point."""
    if key.checkpoint not in existing_tables(connection, key):
        return False
    rows = connection.query(f"SELECT 1 FROM {key.checkpoint.sql} WHERE id = %s AND is_global", (key.source_id,))
    return bool(rows)


@reads(lambda key: key.checkpoint)
def read_checkpoint(connection: TargetConnection, key: SubtaskKey) -> Checkpoint | None:
    """The stored checkpoint; None if the subtask never had one."""
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
    """L alone; None if the subtask never had one."""
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


@reads_answers
def write_new(
    connection: TargetConnection, key: SubtaskKey, checkpoint: Checkpoint, *, validated: bool = False
) -> bool:
    """Store a first checkpoint in one transaction; False, with nothing written, if one exists already.

    `validated`: the task has a validator, which begins here, too.
    """
    if validated:
        create_validator_tables(connection, key)
    with transaction(connection):
        rows = connection.query(
            f"SELECT 1 FROM {key.checkpoint.sql} WHERE id = %s AND cp_schema = '' AND cp_table = '' FOR UPDATE",
            (key.source_id,),
        )
        if not rows:
            write_whole(connection, key, checkpoint, validated=validated)
    return not rows


def write_whole(connection: TargetConnection, key: SubtaskKey, checkpoint: Checkpoint, *, validated: bool) -> None:
    """Store a checkpoint, of which nothing is stored yet, inside the open transaction; a validator's beginning, too."""
    write_global(connection, key, checkpoint.position, checkpoint.bound, checkpoint.birth)
    for table, point in checkpoint.tables.items():
        write_table(connection, key, table, point)
    if validated:
        write_validator_beginning(connection, key, checkpoint)


def write_validator_beginning(connection: TargetConnection, key: SubtaskKey, checkpoint: Checkpoint) -> None:
    """Have the validator of a task begin at this checkpoint, inside the open transaction."""
    known = {name: point.schema for name, point in checkpoint.tables.items() if point.schema is not None}
    write_beginning(connection, key, checkpoint.position, StoredStructures(known, {}, checkpoint.points_ahead()))


def store_table(connection: TargetConnection, key: SubtaskKey, table: TableName, point: TablePoint) -> None:
    """Store one table at the checkpoint in its own transaction; the caller holds the control lane's lock."""
    with transaction(connection):
        write_table(connection, key, table, point)


def forget_table(connection: TargetConnection, key: SubtaskKey, table: TableName) -> None:
    """Remove a table from the checkpoint, in its own transaction."""
    with transaction(connection):
        remove_table(connection, key, table)


def remove_table(connection: TargetConnection, key: SubtaskKey, table: TableName) -> None:
    """Remove a table from the checkpoint, inside the open transaction."""
    connection.execute(_removing_table(connection, key, table))


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

        `intent` is the next statement's; it replaces the one that ended. The same transaction removes operators not
        needed after L, marks an operator's statements as executed, and stores changed records of online DDL (None:
        remove the record). `beside` stores more in it.
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


@dataclass(frozen=True, slots=True)
class Handover:
    """What a full load leaves for the syncer; tables by their source names.

    P0 becomes L, P1 the bound. Between them the syncer works in safe mode, since chunks were read at any moment in
    between (I4 of `protocol.py`). A table that was read at a point of its own (keyless, or altered during the dump)
    gets this point. A table that vanished during the dump gets the point after its end, so that its earlier changes are
    not expected. All other tables get P0: tables without a point are those that the dump never saw.
    """

    p0: Position
    p1: Position
    tables: Mapping[TableName, tuple[TableSchema, Position | None]]
    vanished: Mapping[TableName, Position] = field(default_factory=dict)
    birth: FileBirth | None = None  # of P0's file: the syncer must find P0 in the same file

    @property
    def checkpoint(self) -> Checkpoint:
        """What the syncer begins with."""
        tables = {table: TablePoint(schema, point or self.p0) for table, (schema, point) in self.tables.items()}
        tables |= {table: TablePoint(None, point) for table, point in self.vanished.items()}
        return Checkpoint(self.p0, None if self.p0.order == self.p1.order else self.p1, tables, self.birth)


def write_handover(
    connection: TargetConnection, key: SubtaskKey, handover: Handover, *, validated: bool = False
) -> bool:
    """Store the handover in one transaction; False if a checkpoint exists already (a repeated last step)."""
    create_tables(connection, key)
    return write_new(connection, key, handover.checkpoint, validated=validated)


_LOCK_SECONDS = 3  # a run that has just ended gets time to leave


@contextmanager
def no_other_run(connection: TargetConnection, key: SubtaskKey) -> Iterator[None]:
    """Hold the right to change the subtask's progress; raises DMError while a run has it."""
    name = key.lock_name(CONTROL)
    if not session_lock.take(connection, name, _LOCK_SECONDS):
        others = session_lock.holders(connection, [name])
        holder = ", ".join(map(str, sorted(others))) or "unknown"
        owner = told_owner(connection, key, "Sync")
        raise DMError("task-runs-elsewhere", task=key.task, source=key.source_id, connection=holder, owner=owner)
    try:
        yield
    finally:
        session_lock.release(connection, name)


def begin_at(
    connection: TargetConnection, key: SubtaskKey, start: Position, route: Callable[[TableName], TableName]
) -> Position | None:
    """Move the checkpoint to `start`, for `start-task --start-time`; returns the old L. Raises DMError.

    After the new L there may be changes that earlier runs have done, and a run would repeat them. So everything that
    says how far they got is kept:

    - B becomes the old L joined with the old B (each start joins the lanes' rows with it), so keyed tables are in safe
      mode until they are past it.
    - The ordered lane's row, which is exact, becomes the old L if that is further. So does the record of ordered
      tables.
    - What a run with whole transactions has done beyond the old L is added to both, and its lane's row is emptied:
      keyed tables are replayed.
    - Structures belong to the old L and are deleted; the syncer finds those of the new place as for a new task. (DM
      deletes its table points, too.) Records of online DDL are deleted as well.

    Tables that were changed in the source's order keep their rows, so their DDL must not be repeated: a TRUNCATE would
    remove rows that no run applies again. So each such table gets its own point, up to which it is done, like a table
    that a dump read after P0. The point is the old L, or the place where the table returned to its key: later changes
    can be repeated, earlier ones can't, since the source's rows had no key then.

    `route` maps a source's table to the target's. No run may write progress meanwhile (`no_other_run`).
    """
    create_tables(connection, key)
    with no_other_run(connection, key):
        _, rows = raise_epoch(connection, key, [CONTROL, KEYLESS])
        before = read_checkpoint(connection, key)
        keyless = next((row.position for row in rows if row.lane == KEYLESS), None)
        atomic = next((row.position for row in rows if row.lane == ATOMIC), None)
        with transaction(connection):
            connection.execute(f"DELETE FROM {key.checkpoint.sql} WHERE id = %s AND NOT is_global", (key.source_id,))
            for table in (key.intent, key.undone, key.online):
                connection.execute(f"DELETE FROM {table.sql} WHERE id = %s", (key.source_id,))
            if before is None:
                write_global(connection, key, start, None)
            else:
                whole = _done(before.position, atomic)
                write_global(connection, key, start, _bound(start, before, whole))
                if (ordered := read_ordered(connection, key)).kept:
                    done = put_done(connection, key, ordered, whole)
                    for name in before.tables:
                        target = route(name)
                        point = done if target in ordered.tables else ordered.left.get(target)
                        if point is not None and not start.covers(point):
                            write_table(connection, key, name, TablePoint(None, point))
                _write_exact(connection, key, KEYLESS, _done(before.position, keyless).join(whole))
                _write_exact(connection, key, ATOMIC, None)
    return None if before is None else before.position


def _bound(start: Position, before: Checkpoint, whole: Position) -> Position | None:
    bound = whole if before.bound is None else before.bound.join(whole)
    return None if start.covers(bound) else bound


def _done(checkpoint: Position, lane: Position | None) -> Position:
    """How far a lane is: its row holds what is above the checkpoint, so the two together are exact."""
    if lane is None:
        return checkpoint
    whole = replace(lane, gtid_set=lane.gtid_set | checkpoint.gtid_set)
    return checkpoint if checkpoint.covers(whole) else whole


def _write_exact(connection: TargetConnection, key: SubtaskKey, lane: str, done: Position | None) -> None:
    name, offset, gtid_set, uuid = position_columns(done)
    connection.execute(
        f"UPDATE {key.worker.sql} SET binlog_name = %s, binlog_pos = %s, binlog_gtid = %s, server_uuid = %s"
        " WHERE id = %s AND lane = %s",
        (name, offset, gtid_set, uuid, key.source_id, lane),
    )
