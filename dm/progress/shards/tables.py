"""The progress tables of shard merge: names and definitions. They exist only where a task file has a `shard-mode`.

shard_source   the sources of the task, whether each has joined (2: a table has to join again), and the XA transactions
               that were undecided when its second pass began
shard_group    one row per target table: how many DDLs were executed, and the shards' structure after them. The row is
               the latch of everything about the table
shard_table    one row per shard: how many DDLs it has passed, the DDL at which it has arrived, and the last DDL at
               which it is waived
shard_ddl      one row per DDL that not all shards have passed, with the intent of the running piece
shard_held     the held shards, and the places in the binlog where their rows begin

The columns `revision`, `loose`, `target` (the target's table when a shard arrived at a DDL), `structure`,
`structure_after` and `kept` belong to the optimistic mode (`structures.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.progress.tables import CHARSET, SubtaskKey
from dm.session.answers import reads_answers

_THERE_ALREADY: Final = 1060

_SOURCE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    joined TINYINT NOT NULL DEFAULT 0,
    undecided LONGTEXT,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""

_GROUP = """CREATE TABLE IF NOT EXISTS {table} (
    t_schema VARCHAR(128) NOT NULL,
    t_table VARCHAR(128) NOT NULL,
    executed INT UNSIGNED NOT NULL DEFAULT 0,
    structure LONGTEXT NULL,
    revision INT UNSIGNED NOT NULL DEFAULT 0,
    loose LONGTEXT,
    target LONGTEXT,
    PRIMARY KEY (t_schema, t_table)
) ENGINE=InnoDB {charset}"""

_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    s_schema VARCHAR(128) NOT NULL,
    s_table VARCHAR(128) NOT NULL,
    t_schema VARCHAR(128) NOT NULL,
    t_table VARCHAR(128) NOT NULL,
    passed INT UNSIGNED NOT NULL DEFAULT 0,
    ready INT UNSIGNED NOT NULL DEFAULT 0,
    early TINYINT NOT NULL DEFAULT 0,
    waived INT UNSIGNED NOT NULL DEFAULT 0,
    structure LONGTEXT,
    structure_after LONGTEXT,
    kept LONGTEXT,
    since TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    PRIMARY KEY (id, s_schema, s_table),
    KEY by_target (t_schema, t_table)
) ENGINE=InnoDB {charset}"""

_DDL = """CREATE TABLE IF NOT EXISTS {table} (
    t_schema VARCHAR(128) NOT NULL,
    t_table VARCHAR(128) NOT NULL,
    number INT UNSIGNED NOT NULL,
    form LONGTEXT NOT NULL,
    statements LONGTEXT NOT NULL,
    owner VARCHAR(255) NOT NULL,
    state VARCHAR(16) NOT NULL DEFAULT 'open',
    skipped BOOLEAN NOT NULL DEFAULT 0,
    piece INT UNSIGNED NOT NULL DEFAULT 0,
    statement LONGTEXT NOT NULL,
    connection_id BIGINT UNSIGNED NOT NULL DEFAULT 0,
    structure_before LONGTEXT NOT NULL,
    structure_after LONGTEXT NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (t_schema, t_table, number)
) ENGINE=InnoDB {charset}"""

_HELD = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    s_schema VARCHAR(128) NOT NULL,
    s_table VARCHAR(128) NOT NULL,
    server_uuid VARCHAR(64) NOT NULL,
    binlog_name VARCHAR(128) NOT NULL,
    binlog_pos BIGINT UNSIGNED NOT NULL,
    binlog_gtid MEDIUMTEXT NOT NULL,
    structure LONGTEXT NOT NULL,
    undecided LONGTEXT NOT NULL,
    PRIMARY KEY (id, s_schema, s_table)
) ENGINE=InnoDB {charset}"""


@dataclass(frozen=True, slots=True)
class ShardTables:
    """The names."""

    source: TableName
    group: TableName
    table: TableName
    ddl: TableName
    held: TableName

    @classmethod
    def of(cls, key: SubtaskKey) -> ShardTables:
        """Those of a task."""
        return cls(*(key.table(f"shard_{name}") for name in ("source", "group", "table", "ddl", "held")))


@reads_answers
def create_shard_tables(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create missing tables, and missing columns of an earlier build's tables; safe to repeat and to race."""
    tables = ShardTables.of(key)
    definitions = (
        (tables.source, _SOURCE),
        (tables.group, _GROUP),
        (tables.table, _TABLE),
        (tables.ddl, _DDL),
        (tables.held, _HELD),
    )
    connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(key.meta_schema).sql}")
    for table, definition in definitions:
        connection.execute(definition.format(table=table.sql, charset=CHARSET))
    there: dict[str, set[str]] = {}
    rows = connection.query(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s"
        f" AND table_name IN ({', '.join(['%s'] * len(definitions))})",
        (key.meta_schema, *(table.table for table, _ in definitions)),
    )
    for name, column in rows:
        there.setdefault(str(name).lower(), set()).add(str(column))
    for table, definition in definitions:
        for column, text in _columns(definition).items():
            if column not in there[table.table.lower()]:
                _add(connection, table, text)
    connection.commit()


def _columns(definition: str) -> dict[str, str]:
    """The columns of a CREATE TABLE above, each with its definition."""
    found = re.findall(r"^    (([a-z_]+) .*?),?$", definition, re.MULTILINE)
    return {name: text for text, name in found}


def _add(connection: TargetConnection, table: TableName, column: str) -> None:
    try:
        connection.execute(f"ALTER TABLE {table.sql} ADD COLUMN {column}")
    except DMError as error:
        if error.server_errno != _THERE_ALREADY:  # another source came first
            raise


def lock_id(task: str, target: TableName) -> str:
    """What DM calls the agreement on a target table's next DDL."""
    return f"{task}-{target.sql}"
