"""The tables of the target that a load has made for rows of one source table, so that it may take them back.

A table that the load finds is somebody's, whatever is in it. So a row says beforehand that a table is not there and is
about to be made, and says afterwards when the server made it. No row of the source comes before that. After any crash:

    created is NULL     a table of this name may be the load's or anybody's; no row of the load is in it.
    created is a time   the table that was made at this time is the load's. One of another time is not.

Such a row belongs to one source and one dump. A row of another dump means nothing. A dump that is given up takes back
what it has written before the next one begins (`load_parts.restart_run`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.load_parts import SUFFIX, LoadRun
from dm.progress.tables import SubtaskKey, reads_of_run

_DEFINITION = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    target_schema VARCHAR(128) NOT NULL,
    target_table VARCHAR(128) NOT NULL,
    cp_schema VARCHAR(128) NOT NULL,
    cp_table VARCHAR(128) NOT NULL,
    dump_id VARCHAR(64) NOT NULL,
    created BIGINT,
    PRIMARY KEY (id, target_schema, target_table)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"""


@dataclass(frozen=True, slots=True)
class MadeTable:
    """A table of the target, and the one table of the source whose rows it is for."""

    source: TableName
    target: TableName
    created: int | None  # seconds, as the server says; None: about to be made


def create_records(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table of records if it is missing."""
    connection.execute(_DEFINITION.format(table=key.made.sql))


def announce(connection: TargetConnection, run: LoadRun, pairs: Iterable[tuple[TableName, TableName]]) -> None:
    """Record that tables which are not there are about to be made; pairs of source and target."""
    connection.begin()
    for source, target in pairs:
        connection.execute(
            f"REPLACE INTO {run.key.made.sql} (id, target_schema, target_table, cp_schema, cp_table, dump_id, created)"
            " VALUES (%s, %s, %s, %s, %s, %s, NULL)",
            (run.key.source_id, target.schema, target.table, source.schema, source.table, run.dump_id),
        )
    connection.commit()


def record_made(connection: TargetConnection, run: LoadRun, targets: Iterable[TableName]) -> None:
    """Record of announced tables that they are there, as the load made them."""
    times = [(target, created_at(connection, target)) for target in targets]
    connection.begin()
    for target, created in times:
        connection.execute(
            f"UPDATE {run.key.made.sql} SET created = %s"
            " WHERE id = %s AND target_schema = %s AND target_table = %s AND dump_id = %s",
            (created, run.key.source_id, target.schema, target.table, run.dump_id),
        )
    connection.commit()


def created_at(connection: TargetConnection, table: TableName) -> int | None:
    """When the server made the table, in seconds; None where there is none, or the server does not say."""
    rows = connection.query(
        "SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables"
        " WHERE table_schema = %s AND table_name = %s AND table_type = 'BASE TABLE'",
        (table.schema, table.table),
    )
    return None if not rows or rows[0][0] is None else int(rows[0][0])


@reads_of_run(lambda key: key.made)
def made_tables(connection: TargetConnection, run: LoadRun) -> list[MadeTable]:
    """Those of this source and dump."""
    rows = connection.query(
        f"SELECT cp_schema, cp_table, target_schema, target_table, created FROM {run.key.made.sql}"
        " WHERE id = %s AND dump_id = %s ORDER BY target_schema, target_table",
        (run.key.source_id, run.dump_id),
    )
    return [
        MadeTable(
            TableName(str(row[0]), str(row[1])),
            TableName(str(row[2]), str(row[3])),
            None if row[4] is None else int(row[4]),
        )
        for row in rows
    ]


def forget_table(connection: TargetConnection, run: LoadRun, made: MadeTable) -> None:
    """The table is gone from the target, or never was the load's: nothing of its source is loaded."""
    source, target = made.source, made.target
    # What nobody knows to be the load's may lack indexes because of it all the same, and gets them in the end.
    records = (run.key.made,) if made.created is None else (run.key.deferral, run.key.made)
    connection.begin()
    connection.execute(
        f"DELETE FROM {run.table.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
        (run.key.source_id, source.schema, source.table),
    )
    for table in records:
        connection.execute(
            f"DELETE FROM {table.sql} WHERE id = %s AND target_schema = %s AND target_table = %s",
            (run.key.source_id, target.schema, target.table),
        )
    connection.commit()


@reads_of_run(lambda key: key.table(SUFFIX))
def foreign_sources(connection: TargetConnection, run: LoadRun, made: MadeTable) -> list[str]:
    """Sources of the task, and tables of this one, whose rows are recorded as loaded into the table, but its own."""
    rows = connection.query(
        f"SELECT DISTINCT id, cp_schema, cp_table FROM {run.table.sql} WHERE target_schema = %s AND target_table = %s"
        " AND NOT (id = %s AND cp_schema = %s AND cp_table = %s) ORDER BY id, cp_schema, cp_table",
        (*made.target, run.key.source_id, *made.source),
    )
    return [f"{TableName(str(schema), str(table))} of {source}" for source, schema, table in rows]


@reads_of_run(lambda key: key.table(SUFFIX))
def recorded_rows(connection: TargetConnection, run: LoadRun, source: TableName) -> int:
    """How many rows of a source table are recorded as loaded."""
    rows = connection.query(
        f"SELECT COALESCE(SUM(row_count), 0) FROM {run.table.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
        (run.key.source_id, source.schema, source.table),
    )
    return int(rows[0][0])
