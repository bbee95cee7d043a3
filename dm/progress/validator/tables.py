"""The validator's tables: names and definitions. Names and most columns are DM's.

Only the validator that holds the newest epoch of a subtask writes its checkpoint, its pending changes and its tables'
stages. People's verbs change the status of errors, from any process.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.progress.tables import CHARSET, SubtaskKey

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


def demand_epoch(connection: TargetConnection, key: SubtaskKey, epoch: int) -> None:
    """Inside a transaction: lock the subtask's row; raises DMError `validator-fenced` if a newer run holds it."""
    table = ValidatorTables.of(key).checkpoint
    held = connection.query(f"SELECT epoch FROM {table.sql} WHERE source = %s FOR UPDATE", (key.source_id,))
    if not held or int(held[0][0]) != epoch:
        raise DMError("validator-fenced", task=key.task, source=key.source_id)
