"""How far a validator is: its checkpoint and the rows that wait to be found equal, as of one position.

Both are written in one transaction, the rows under a new revision, and the rows of older revisions go with it. So a run
that starts after a kill finds the rows that were pending at the stored position, and reads on from there.

The first run begins at the task's first place, not at the checkpoint as the run finds it: the syncer is past its first
changes by then, and they would never be looked at. So whoever stores a task's first checkpoint stores that place as the
validator's in the same transaction, if the task's file asks for one (`write_beginning`).

A run raises the epoch first. A write with an older epoch fails, so a run that was thought dead stores nothing any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dm import faults
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.serial import schema_from_json, schema_to_json
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.progress.lane_rows import position_columns, read_position
from dm.progress.online import OnlineRecord
from dm.progress.tables import SubtaskKey, reading, reads
from dm.progress.validator.tables import ValidatorTables, demand_epoch

_ROWS_TOGETHER: Final = 200
_BYTES_TOGETHER: Final = 1 << 19


@dataclass(frozen=True, slots=True)
class Processed:
    """Row changes that were read, by kind."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row that waits, in the form in which it is stored."""

    source: TableName
    row_pk: str
    data: str


@dataclass(frozen=True, slots=True)
class StoredStructures:
    """What is known of the source's tables at the position."""

    tables: Mapping[TableName, TableSchema] = field(default_factory=dict)
    online: Mapping[TableName, OnlineRecord] = field(default_factory=dict)
    points: Mapping[TableName, Position] = field(default_factory=dict)  # rows before are not looked at

    def to_json(self) -> str:
        """As stored."""
        return json.dumps(
            {
                "tables": [schema_to_json(schema) for schema in self.tables.values()],
                "online": [[*name, record.to_json(name)] for name, record in self.online.items()],
                "points": [[*name, *position_columns(point)] for name, point in self.points.items()],
            }
        )

    @classmethod
    def from_json(cls, text: str) -> StoredStructures:
        """The inverse."""
        found = json.loads(text)
        schemas = [schema_from_json(each) for each in found["tables"]]
        return cls(
            {schema.name: schema for schema in schemas},
            {TableName(schema, table): OnlineRecord.from_json(record) for schema, table, record in found["online"]},
            dict(_points(found["points"])),
        )


def _points(stored: Iterable[Sequence[Any]]) -> Iterator[tuple[TableName, Position]]:
    for schema, table, file, offset, gtids, uuid in stored:
        point = read_position(uuid, file, offset, gtids)
        if point is not None:
            yield TableName(schema, table), point


@dataclass(frozen=True, slots=True)
class Cutover:
    """Where business moves to the target, as a person has said it; empty: nowhere."""

    place: str = ""
    gtid: str = ""


@dataclass(frozen=True, slots=True)
class ValidatorCheckpoint:
    """What is stored of a validator."""

    position: Position
    processed: Processed
    structures: StoredStructures
    revision: int  # 0: no run has stored anything yet


def write_beginning(
    connection: TargetConnection, key: SubtaskKey, position: Position, structures: StoredStructures
) -> None:
    """Store where the first run begins, inside the open transaction; nothing where a run has been already."""
    connection.execute(
        f"INSERT IGNORE INTO {ValidatorTables.of(key).checkpoint.sql}"
        " (source, binlog_name, binlog_pos, binlog_gtid, server_uuid, structures, cutover_gtid)"
        " VALUES (%s, %s, %s, %s, %s, %s, '')",
        (key.source_id, *position_columns(position), structures.to_json()),
    )


class ValidatorProgress:
    """Stores the progress of one run; `claim` first."""

    def __init__(self, connection: TargetConnection, key: SubtaskKey) -> None:
        self.connection = connection
        self._key = key
        self._tables = ValidatorTables.of(key)
        self.epoch = 0
        self._revision = 0

    def claim(self) -> ValidatorCheckpoint | None:
        """Take over from older runs; gives what is stored, None where nothing is yet."""
        connection, table, source = self.connection, self._tables.checkpoint.sql, self._key.source_id
        connection.begin()
        connection.execute(
            f"INSERT IGNORE INTO {table} (source, binlog_gtid, structures, cutover_gtid) VALUES (%s, '', '', '')",
            (source,),
        )
        connection.execute(f"UPDATE {table} SET epoch = epoch + 1 WHERE source = %s", (source,))
        found = connection.query(
            "SELECT epoch, server_uuid, binlog_name, binlog_pos, binlog_gtid, procd_ins, procd_upd, procd_del,"
            f" revision, structures FROM {table} WHERE source = %s",
            (source,),
        )
        connection.commit()
        with reading(self._tables.checkpoint, source):
            row = found[0]
            self.epoch, self._revision = int(row[0]), int(row[8])
            position = read_position(*row[1:5])
            if position is None:
                return None
            processed = Processed(int(row[5]), int(row[6]), int(row[7]))
            return ValidatorCheckpoint(position, processed, StoredStructures.from_json(str(row[9])), self._revision)

    def rows(self) -> Iterator[StoredRow]:
        """The rows that were pending at the checkpoint."""
        last = -1
        while True:
            found = self.connection.query(
                f"SELECT number, schema_name, table_name, row_pk, data FROM {self._tables.pending.sql}"
                " WHERE source = %s AND revision = %s AND number > %s ORDER BY number LIMIT 1000",
                (self._key.source_id, self._revision, last),
            )
            with reading(self._tables.pending, self._key.source_id):
                stored = [
                    StoredRow(TableName(str(schema), str(table)), str(row_pk), str(data))
                    for _, schema, table, row_pk, data in found
                ]
                last = int(found[-1][0]) if found else last
            yield from stored
            if not found:
                return

    def write(
        self, position: Position, processed: Processed, structures: StoredStructures, rows: Iterable[StoredRow]
    ) -> None:
        """Store a position and the rows that are pending there; raises DMError `validator-fenced` for an older run."""
        connection, source, revision = self.connection, self._key.source_id, self._revision + 1
        faults.hit("validator.before_checkpoint")
        connection.begin()
        try:
            demand_epoch(connection, self._key, self.epoch)
            self._write_rows(revision, rows)
            names = ("binlog_name", "binlog_pos", "binlog_gtid", "server_uuid", "procd_ins", "procd_upd", "procd_del")
            assignments = ", ".join(f"{name} = %s" for name in (*names, "structures", "revision"))
            counts = (processed.inserts, processed.updates, processed.deletes)
            values = (*position_columns(position), *counts, structures.to_json(), revision)
            connection.execute(
                f"UPDATE {self._tables.checkpoint.sql} SET {assignments} WHERE source = %s", (*values, source)
            )
            connection.execute(
                f"DELETE FROM {self._tables.pending.sql} WHERE source = %s AND revision < %s", (source, revision)
            )
            connection.commit()
        except DMError:
            connection.rollback()
            raise
        self._revision = revision
        faults.hit("validator.after_checkpoint")

    def _write_rows(self, revision: int, rows: Iterable[StoredRow]) -> None:
        part: list[StoredRow] = []
        size = first = 0
        for row in rows:
            part.append(row)
            size += len(row.data)
            if len(part) >= _ROWS_TOGETHER or size >= _BYTES_TOGETHER:
                self._insert(revision, first, part)
                first += len(part)
                part, size = [], 0
        self._insert(revision, first, part)

    def _insert(self, revision: int, first: int, rows: Sequence[StoredRow]) -> None:
        if not rows:
            return
        values = ", ".join(["(%s, %s, %s, %s, %s, %s, %s)"] * len(rows))
        self.connection.execute(
            f"REPLACE INTO {self._tables.pending.sql}"
            f" (source, revision, number, schema_name, table_name, row_pk, data) VALUES {values}",
            [
                value
                for number, row in enumerate(rows, first)
                for value in (self._key.source_id, revision, number, *row.source, row.row_pk, row.data)
            ],
        )

    def cutover(self) -> Cutover:
        """What a person has said."""
        return read_cutover(self.connection, self._key)


def read_cutover(connection: TargetConnection, key: SubtaskKey) -> Cutover:
    """Where business moves to the target, as far as somebody has said it."""
    rows = connection.query(
        f"SELECT cutover_pos, cutover_gtid FROM {ValidatorTables.of(key).checkpoint.sql} WHERE source = %s",
        (key.source_id,),
    )
    return Cutover(str(rows[0][0]), str(rows[0][1])) if rows else Cutover()


def store_cutover(connection: TargetConnection, key: SubtaskKey, cutover: Cutover) -> bool:
    """Store it; False where no validator has ever run."""
    found = connection.run(
        f"UPDATE {ValidatorTables.of(key).checkpoint.sql} SET cutover_pos = %s, cutover_gtid = %s WHERE source = %s",
        (cutover.place, cutover.gtid, key.source_id),
    ).matched
    connection.commit()
    return found == 1


@dataclass(frozen=True, slots=True)
class StoredValidation:
    """How far a validator is that does not run."""

    position: Position | None = None
    processed: Processed = Processed()
    pending: Mapping[str, int] = field(default_factory=dict)


@reads(lambda key: ValidatorTables.of(key).checkpoint)
def read_validation(connection: TargetConnection, key: SubtaskKey) -> StoredValidation:
    """What is stored of a validator."""
    tables, source = ValidatorTables.of(key), (key.source_id,)
    rows = connection.query(
        "SELECT server_uuid, binlog_name, binlog_pos, binlog_gtid, procd_ins, procd_upd, procd_del, revision"
        f" FROM {tables.checkpoint.sql} WHERE source = %s",
        source,
    )
    if not rows:
        return StoredValidation()
    row = rows[0]
    kinds = connection.query(
        f"SELECT data FROM {tables.pending.sql} WHERE source = %s AND revision = %s", (*source, int(row[7]))
    )
    pending: dict[str, int] = {}
    for (data,) in kinds:
        kind = str(json.loads(str(data))["kind"])
        pending[kind] = pending.get(kind, 0) + 1
    return StoredValidation(read_position(*row[:4]), Processed(int(row[4]), int(row[5]), int(row[6])), pending)
