"""The tables that a load has created without all of their indexes, and their final structure.

The record is committed before any index is dropped, and holds the structure as the target itself shows it. So after any
crash the missing indexes are the difference between the record and the table, and the table is complete when both
agree. A record belongs to one source, because that source's load completes the table. Other sources that merge into the
table only need to know.

So a table that lacks indexes because of a load always has a record: `--remove-meta` leaves it, and the next load of the
task completes the table. Only with the table a record loses its meaning. Another table that is made under the name
later has the indexes that it is made with.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.load_parts import LoadRun
from dm.progress.tables import SubtaskKey

_DEFINITION = """CREATE TABLE IF NOT EXISTS {table} (
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
    connection.execute(_DEFINITION.format(table=key.deferral.sql))


def defer(connection: TargetConnection, key: SubtaskKey, deferral: Deferral) -> None:
    """Record a table's final structure before indexes are dropped; replaces a record of a table dropped since."""
    connection.begin()
    connection.execute(
        f"REPLACE INTO {key.deferral.sql} (id, target_schema, target_table, structure) VALUES (%s, %s, %s, %s)",
        (key.source_id, deferral.table.schema, deferral.table.table, deferral.structure),
    )
    connection.commit()


def forget_gone(connection: TargetConnection, key: SubtaskKey) -> None:
    """Remove the records of tables that are not there any more; called before the load makes tables."""
    for each in own_deferrals(connection, key):
        name = (each.table.schema, each.table.table)
        question = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
        if not connection.query(question, name):
            complete(connection, key, each.table)


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
    connection.begin()
    connection.execute(
        f"DELETE FROM {key.deferral.sql} WHERE id = %s AND target_schema = %s AND target_table = %s",
        (key.source_id, table.schema, table.table),
    )
    connection.commit()


def demand_current(connection: TargetConnection, run: LoadRun) -> None:
    """Raise DMError if a newer run of the load took over."""
    found = connection.query(
        f"SELECT epoch FROM {run.table.sql} WHERE id = %s AND cp_schema = '' AND cp_table = ''", (run.key.source_id,)
    )
    if not found or int(found[0][0]) != run.epoch:
        raise DMError("load-fenced", task=run.key.task)
