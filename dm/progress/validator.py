"""How far a validator is: its checkpoint, and the rows that are pending there; the validator's tables.

Names and most columns of the tables are DM's. Checkpoint and pending rows are written in one transaction, the rows
under a new revision, and rows of older revisions are deleted. So after a kill, the next run finds the rows that were
pending at the stored position, and reads on from there.

The first run begins at the task's first place, not at the checkpoint that it finds: by then the syncer is past its
first changes, and they would never be validated. So the transaction that stores a task's first checkpoint also stores
that place for the validator, if the task's file has one (`write_beginning`).

A run raises the epoch first. Only the run with the newest epoch of a subtask writes its checkpoint, its pending rows
and its tables' stages, so a run that was thought dead stores nothing. People's verbs change the status of errors, from
any process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from dm import faults
from dm.config.subtask import NOBODY, RunBy
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.position import Position
from dm.progress.intent import OnlineRecord
from dm.progress.lane_rows import position_columns, read_position, transaction
from dm.progress.owner import OwnRun, create_owner_table, fenced_by, note_owner
from dm.progress.tables import CHARSET, SubtaskKey, reading, reads
from dm.session.answers import reads_answers

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
    """The place where business moves to the target, as a person has set it; empty: none."""

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
    """Store where the first run begins, inside the open transaction; nothing if a run has already begun."""
    connection.execute(
        f"INSERT IGNORE INTO {ValidatorTables.of(key).checkpoint.sql}"
        " (source, binlog_name, binlog_pos, binlog_gtid, server_uuid, structures, cutover_gtid)"
        " VALUES (%s, %s, %s, %s, %s, %s, '')",
        (key.source_id, *position_columns(position), structures.to_json()),
    )


class ValidatorProgress:
    """Stores the progress of one run; `claim` first."""

    def __init__(self, connection: TargetConnection, key: SubtaskKey, run_by: RunBy = NOBODY) -> None:
        self.connection = connection
        self.run_by = run_by
        self._key = key
        self._tables = ValidatorTables.of(key)
        self.epoch = 0
        self._revision = 0

    @property
    def own(self) -> OwnRun:
        """The run, once it has claimed."""
        return OwnRun("Validator", self.epoch, self.run_by)

    @reads_answers
    def claim(self) -> ValidatorCheckpoint | None:
        """Take over from older runs; returns the stored checkpoint, None if there is none."""
        connection, table, source = self.connection, self._tables.checkpoint.sql, self._key.source_id
        create_owner_table(connection, self._key)
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
        with reading(self._tables.checkpoint, source):
            self.epoch = int(found[0][0])
        note_owner(connection, self._key, "Validator", self.epoch, self.run_by)
        connection.commit()
        with reading(self._tables.checkpoint, source):
            row = found[0]
            self._revision = int(row[8])
            position = read_position(*row[1:5])
            if position is None:
                return None
            processed = Processed(int(row[5]), int(row[6]), int(row[7]))
            return ValidatorCheckpoint(position, processed, StoredStructures.from_json(str(row[9])), self._revision)

    @reads_answers
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
        with transaction(connection):
            demand_epoch(connection, self._key, self.own)
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
        """The cut-over that a person has set."""
        return read_cutover(self.connection, self._key)


@reads(lambda key: ValidatorTables.of(key).checkpoint)
def read_cutover(connection: TargetConnection, key: SubtaskKey) -> Cutover:
    """The cut-over that a person has set, if any."""
    rows = connection.query(
        f"SELECT cutover_pos, cutover_gtid FROM {ValidatorTables.of(key).checkpoint.sql} WHERE source = %s",
        (key.source_id,),
    )
    return Cutover(str(rows[0][0]), str(rows[0][1])) if rows else Cutover()


def store_cutover(connection: TargetConnection, key: SubtaskKey, cutover: Cutover) -> bool:
    """Store it; False if no validator has ever run."""
    found = connection.run(
        f"UPDATE {ValidatorTables.of(key).checkpoint.sql} SET cutover_pos = %s, cutover_gtid = %s WHERE source = %s",
        (cutover.place, cutover.gtid, key.source_id),
    ).matched
    connection.commit()
    return found == 1


@dataclass(frozen=True, slots=True)
class StoredValidation:
    """How far a stopped validator is."""

    position: Position | None = None
    processed: Processed = Processed()
    pending: Mapping[str, int] = field(default_factory=dict)


@reads(lambda key: ValidatorTables.of(key).checkpoint)
def read_validation(connection: TargetConnection, key: SubtaskKey) -> StoredValidation:
    """How far a validator is, by what is stored."""
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


_CHECKPOINT = """CREATE TABLE IF NOT EXISTS {table} (
    source VARCHAR(32) NOT NULL,
    epoch BIGINT UNSIGNED NOT NULL DEFAULT 0,
    server_uuid VARCHAR(64) NOT NULL DEFAULT '',
    binlog_name VARCHAR(128) NOT NULL DEFAULT '',
    binlog_pos BIGINT UNSIGNED NOT NULL DEFAULT 0,
    binlog_gtid MEDIUMTEXT NOT NULL,
    procd_ins BIGINT UNSIGNED NOT NULL DEFAULT 0,
    procd_upd BIGINT UNSIGNED NOT NULL DEFAULT 0,
    procd_del BIGINT UNSIGNED NOT NULL DEFAULT 0,
    revision BIGINT UNSIGNED NOT NULL DEFAULT 0,
    structures LONGTEXT NOT NULL,
    cutover_pos VARCHAR(192) NOT NULL DEFAULT '',
    cutover_gtid MEDIUMTEXT NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (source)
) ENGINE=InnoDB {charset}"""

_PENDING = """CREATE TABLE IF NOT EXISTS {table} (
    source VARCHAR(32) NOT NULL,
    revision BIGINT UNSIGNED NOT NULL,
    number BIGINT UNSIGNED NOT NULL,
    schema_name VARCHAR(128) NOT NULL,
    table_name VARCHAR(128) NOT NULL,
    row_pk CHAR(64) NOT NULL,
    data LONGTEXT NOT NULL,
    PRIMARY KEY (source, revision, number)
) ENGINE=InnoDB {charset}"""

_ERROR = """CREATE TABLE IF NOT EXISTS {table} (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    source VARCHAR(32) NOT NULL,
    src_schema_name VARCHAR(128) NOT NULL,
    src_table_name VARCHAR(128) NOT NULL,
    row_pk CHAR(64) NOT NULL,
    dst_schema_name VARCHAR(128) NOT NULL,
    dst_table_name VARCHAR(128) NOT NULL,
    data LONGTEXT NOT NULL,
    dst_data LONGTEXT NOT NULL,
    message LONGTEXT NOT NULL,
    fix LONGTEXT NOT NULL,
    error_type INT NOT NULL,
    status INT NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (id),
    UNIQUE KEY uk_source_table_row (source, dst_schema_name, dst_table_name, row_pk),
    KEY idx_status (status)
) ENGINE=InnoDB {charset}"""

_STATUS = """CREATE TABLE IF NOT EXISTS {table} (
    source VARCHAR(32) NOT NULL,
    src_schema_name VARCHAR(128) NOT NULL,
    src_table_name VARCHAR(128) NOT NULL,
    dst_schema_name VARCHAR(128) NOT NULL,
    dst_table_name VARCHAR(128) NOT NULL,
    stage VARCHAR(32) NOT NULL,
    message LONGTEXT NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    update_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (source, src_schema_name, src_table_name)
) ENGINE=InnoDB {charset}"""


@dataclass(frozen=True, slots=True)
class ValidatorTables:
    """The names."""

    checkpoint: TableName
    pending: TableName
    error: TableName
    status: TableName

    @classmethod
    def of(cls, key: SubtaskKey) -> ValidatorTables:
        """Those of a task."""
        names = ("checkpoint", "pending_change", "error_change", "table_status")
        return cls(*(key.table(f"validator_{name}") for name in names))

    @property
    def all(self) -> tuple[TableName, ...]:
        """All of them."""
        return self.checkpoint, self.pending, self.error, self.status


def create_validator_tables(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create what is missing; safe to repeat and to race."""
    tables = ValidatorTables.of(key)
    connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(key.meta_schema).sql}")
    definitions = zip(tables.all, (_CHECKPOINT, _PENDING, _ERROR, _STATUS), strict=True)
    for table, definition in definitions:
        connection.execute(definition.format(table=table.sql, charset=CHARSET))
    connection.commit()


@reads_answers
def has_validator_tables(connection: TargetConnection, key: SubtaskKey) -> bool:
    """Whether a validator of the task has ever run."""
    rows = connection.query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", (key.meta_schema,)
    )
    present = {str(row[0]) for row in rows}
    return all(table.table in present for table in ValidatorTables.of(key).all)


def remove_validation(connection: TargetConnection, key: SubtaskKey) -> None:
    """Remove everything that validators of this subtask have stored."""
    if has_validator_tables(connection, key):
        for table in ValidatorTables.of(key).all:
            connection.execute(f"DELETE FROM {table.sql} WHERE source = %s", (key.source_id,))
        connection.commit()


@reads(lambda key: ValidatorTables.of(key).checkpoint)
def demand_epoch(connection: TargetConnection, key: SubtaskKey, own: OwnRun) -> None:
    """Inside a transaction: lock the subtask's row; raises DMError `validator-fenced` if a newer run holds it."""
    table = ValidatorTables.of(key).checkpoint
    held = connection.query(f"SELECT epoch FROM {table.sql} WHERE source = %s FOR UPDATE", (key.source_id,))
    if not held or int(held[0][0]) != own.epoch:
        raise fenced_by(connection, key, own, partial(_fenced, key))


def _fenced(key: SubtaskKey, owner: str) -> DMError:
    return DMError("validator-fenced", task=key.task, source=key.source_id, owner=owner)
