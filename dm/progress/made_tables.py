"""Tables of the target that a load has made: which it may drop again, and which still lack indexes.

A table that the load finds belongs to somebody else, whatever it contains. So a record announces a table that is about
to be made, and afterwards gets the time at which the server made it. No row of the source is written before that. After
a crash:

    created is NULL     a table of this name may be the load's or not; no row of the load is in it
    created is a time   the table that was made at this time is the load's; a table of another time is not

Such a record belongs to one source and one dump, and means nothing for another dump. A dump that is given up removes
what it has written before the next one begins (`load_parts.restart_run`).

A load may create a table without some of its indexes. A *deferral* holds the table's final structure, as the target
itself shows it, and is committed before any index is dropped. So after a crash, the missing indexes are the difference
between deferral and table. A deferral belongs to one source, whose load completes the table; other sources that merge
into the table only ask whether there is one. `--remove-meta` leaves deferrals, and the next load completes the tables.
A deferral ends only with its table: a table made later under the name has the indexes that it is made with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.lane_rows import transaction
from dm.progress.load_parts import SUFFIX, LoadRun
from dm.progress.tables import SubtaskKey, reads
from dm.session.answers import reads_answers

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
    """A table of the target, made for the rows of one table of the source."""

    source: TableName
    target: TableName
    created: int | None  # in seconds, by the server; None: about to be made


def create_records(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table of records if it is missing."""
    connection.execute(_DEFINITION.format(table=key.made.sql))


def announce(connection: TargetConnection, run: LoadRun, pairs: Iterable[tuple[TableName, TableName]]) -> None:
    """Record that tables are about to be made, which do not exist; pairs of source and target."""
    with transaction(connection):
        for source, target in pairs:
            connection.execute(
                f"REPLACE INTO {run.key.made.sql} (id, target_schema, target_table, cp_schema, cp_table, dump_id,"
                " created)"
                " VALUES (%s, %s, %s, %s, %s, %s, NULL)",
                (run.key.source_id, target.schema, target.table, source.schema, source.table, run.dump_id),
            )


def record_made(connection: TargetConnection, run: LoadRun, targets: Iterable[TableName]) -> None:
    """Record when the server made the announced tables."""
    times = [(target, created_at(connection, target)) for target in targets]
    with transaction(connection):
        for target, created in times:
            connection.execute(
                f"UPDATE {run.key.made.sql} SET created = %s"
                " WHERE id = %s AND target_schema = %s AND target_table = %s AND dump_id = %s",
                (created, run.key.source_id, target.schema, target.table, run.dump_id),
            )


def record_altered(connection: TargetConnection, run: LoadRun, target: TableName, before: int | None) -> None:
    """The load has altered a table that the server made at this time, and which the server may count as a new one.

    Killed before this, nobody knows any more that it is the load's.
    """
    with transaction(connection):
        connection.execute(
            f"UPDATE {run.key.made.sql} SET created = %s"
            " WHERE id = %s AND target_schema = %s AND target_table = %s AND dump_id = %s AND created = %s",
            (created_at(connection, target), run.key.source_id, target.schema, target.table, run.dump_id, before),
        )


@reads_answers
def created_at(connection: TargetConnection, table: TableName) -> int | None:
    """When the server made the table, in seconds; None if there is no table, or no time."""
    rows = connection.query(
        "SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables"
        " WHERE table_schema = %s AND table_name = %s AND table_type = 'BASE TABLE'",
        (table.schema, table.table),
    )
    return None if not rows or rows[0][0] is None else int(rows[0][0])


@reads(lambda key: key.made)
def made_tables(connection: TargetConnection, run: LoadRun) -> list[MadeTable]:
    """The records of this source and dump."""
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
    """Remove the records of a table that is gone, or never was the load's: nothing of its source is loaded."""
    source, target = made.source, made.target
    # A table that may not be the load's may still lack indexes because of the load, which completes it in the end.
    records = (run.key.made,) if made.created is None else (run.key.deferral, run.key.made)
    with transaction(connection):
        connection.execute(
            f"DELETE FROM {run.table.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
            (run.key.source_id, source.schema, source.table),
        )
        for table in records:
            connection.execute(
                f"DELETE FROM {table.sql} WHERE id = %s AND target_schema = %s AND target_table = %s",
                (run.key.source_id, target.schema, target.table),
            )


@reads(lambda key: key.table(SUFFIX))
def foreign_sources(connection: TargetConnection, run: LoadRun, made: MadeTable) -> list[str]:
    """The other tables, of any source of the task, whose rows were loaded into the table, by records."""
    rows = connection.query(
        f"SELECT DISTINCT id, cp_schema, cp_table FROM {run.table.sql} WHERE target_schema = %s AND target_table = %s"
        " AND NOT (id = %s AND cp_schema = %s AND cp_table = %s) ORDER BY id, cp_schema, cp_table",
        (*made.target, run.key.source_id, *made.source),
    )
    return [f"{TableName(str(schema), str(table))} of {source}" for source, schema, table in rows]


@reads(lambda key: key.table(SUFFIX))
def recorded_rows(connection: TargetConnection, run: LoadRun, source: TableName) -> int:
    """How many rows of a source table are recorded as loaded."""
    rows = connection.query(
        f"SELECT COALESCE(SUM(row_count), 0) FROM {run.table.sql} WHERE id = %s AND cp_schema = %s AND cp_table = %s",
        (run.key.source_id, source.schema, source.table),
    )
    return int(rows[0][0])


_DEFERRAL_TABLE = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    target_schema VARCHAR(128) NOT NULL,
    target_table VARCHAR(128) NOT NULL,
    structure LONGTEXT NOT NULL,
    create_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (id, target_schema, target_table)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"""


@dataclass(frozen=True, slots=True)
class Deferral:
    """A table of the target that is not complete yet."""

    table: TableName
    structure: str  # SHOW CREATE TABLE of the complete one


def create_deferrals(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table of records if it is missing."""
    connection.execute(_DEFERRAL_TABLE.format(table=key.deferral.sql))


def defer(connection: TargetConnection, key: SubtaskKey, deferral: Deferral) -> None:
    """Record a table's final structure before indexes are dropped; replaces the record of a table dropped since."""
    with transaction(connection):
        connection.execute(
            f"REPLACE INTO {key.deferral.sql} (id, target_schema, target_table, structure) VALUES (%s, %s, %s, %s)",
            (key.source_id, deferral.table.schema, deferral.table.table, deferral.structure),
        )


def forget_gone(connection: TargetConnection, key: SubtaskKey) -> None:
    """Remove deferrals of tables that are gone; called before the load makes tables."""
    for each in own_deferrals(connection, key):
        name = (each.table.schema, each.table.table)
        question = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        if not connection.query(question, name):
            complete(connection, key, each.table)


@reads(lambda key: key.deferral)
def own_deferrals(connection: TargetConnection, key: SubtaskKey) -> list[Deferral]:
    """The tables that this source's load has to complete."""
    rows = connection.query(
        f"SELECT target_schema, target_table, structure FROM {key.deferral.sql} WHERE id = %s"
        " ORDER BY target_schema, target_table",
        (key.source_id,),
    )
    return [Deferral(TableName(str(schema), str(table)), str(structure)) for schema, table, structure in rows]


def is_deferred(connection: TargetConnection, key: SubtaskKey, table: TableName) -> bool:
    """Whether the load of any source of the task still has to complete the table."""
    return bool(
        connection.query(
            f"SELECT 1 FROM {key.deferral.sql} WHERE target_schema = %s AND target_table = %s",
            (table.schema, table.table),
        )
    )


def complete(connection: TargetConnection, key: SubtaskKey, table: TableName) -> None:
    """Remove the record: the table is complete, or gone."""
    with transaction(connection):
        connection.execute(
            f"DELETE FROM {key.deferral.sql} WHERE id = %s AND target_schema = %s AND target_table = %s",
            (key.source_id, table.schema, table.table),
        )
