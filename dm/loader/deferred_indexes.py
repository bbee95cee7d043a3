"""Secondary indexes and foreign keys that tables get when their rows are there (`defer-indexes`).

Problem: an index that is built once from all rows is less work than one that is kept while they come. But a table
whose load was killed in between lacks indexes, and nobody sees it.

Each table that the load makes is first made whole, so whatever the target does not take is refused before a row comes.
Then the structure is recorded as the target shows it (`dm.progress.made_tables`), and only then indexes and foreign
keys are taken off the empty table. In the end each run adds what the table lacks of its record, and forgets the record
when SHOW CREATE TABLE has each of them to the letter. A run after a SIGKILL is a run like any other. The rest of the
table may be another by then: in a merge another source may be further, and its DDL have come through.

Unique keys stay, since rows with the same key are found by them; so does everything of a table whose AUTO_INCREMENT
rests on another index, or whose engine is not InnoDB. Foreign keys come off before indexes and on after those of all
tables: one may rest on an index of its parent. Tables that were there before the load are left as they are.

Rows of other sources may come into a table that gets its indexes. The server notes them down for the new index, up to
`innodb_online_alter_log_max_size`, and gives up where they are more (1799). Then the same ALTER is run with
`LOCK=SHARED`: it lets the others wait, and needs no notes.

The session that adds takes one of the load's slots. So the next run finds the ALTER of a killed one and ends it, and
waits until it is rolled back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from dm import faults
from dm.config.endpoint import Endpoint
from dm.downstream import ddl_jobs
from dm.downstream.connection import TargetConnection
from dm.errors import REFUSED_STATEMENT, DMError
from dm.ident import Ident
from dm.loader.target_tables import TargetTables
from dm.mysql.schema.show import (
    add_foreign_keys,
    add_indexes,
    secondary_definitions,
    take_off_foreign_keys,
    take_off_indexes,
)
from dm.mysql.schema.table import ForeignKey, TableSchema
from dm.progress.load_parts import LoadRun, join_run, loaded_bytes
from dm.progress.made_tables import (
    Deferral,
    complete,
    created_at,
    defer,
    is_deferred,
    own_deferrals,
    record_altered,
)
from dm.progress.opposite import announce
from dm.progress.tables import SubtaskKey
from dm.spark.job import grouped, run_tasks
from dm.spark.session import SparkProvider

_TOO_MANY_NOTES: Final = 1799
_JOB_SECONDS: Final = 0.2
_FULL_BYTES = 1 << 26  # of rows: an index of them takes some seconds at most


def put_off(targets: TargetTables, run: LoadRun, made: Iterable[TableSchema]) -> None:
    """Take indexes and foreign keys off tables that were just made."""
    connection = targets.connection
    off = []
    for schema in made:
        structure = targets.structure(schema.name)
        definitions = secondary_definitions(structure, schema)
        if definitions and _keeps_counting(schema) and (schema.engine or "").lower() == "innodb":
            defer(connection, run.key, Deferral(schema.name, structure))
            off.append((schema, definitions))
    faults.hit("loader.indexes_recorded")
    for take_off in (take_off_foreign_keys, take_off_indexes):
        for schema, definitions in off:
            statement = take_off(schema, definitions)
            if statement is None:
                continue
            try:
                connection.execute(statement)
            except DMError as error:
                # What the server does not let go (the key of another table's foreign key, say) stays where it is.
                if error.name not in REFUSED_STATEMENT.values():
                    raise
    faults.hit("loader.indexes_off")


def demand_complete(targets: TargetTables, key: SubtaskKey, source: TableSchema, target: TableSchema) -> None:
    """Raise DMError where a table that is there lacks indexes or foreign keys and nobody is known to add them."""
    if not _lacking(source, target) or is_deferred(targets.connection, key, target.name):
        return
    # The load of another source may have completed it between the two questions.
    lacking = _lacking(source, targets.read(target.name))
    if lacking:
        why = (
            f"it has no {lacking[0]} (the load of another task may have left it so; without `defer-indexes: true` a"
            " table is taken as it is)"
        )
        raise DMError("load-table-differs", table=target.name, source_table=source.name, why=why)


def _lacking(source: TableSchema, target: TableSchema) -> list[str]:
    there = {index.name.lower() for index in target.indexes}
    indexes = [index.name for index in source.indexes if not index.unique and index.name.lower() not in there]
    # A foreign key may have another name here; some engines take none.
    kept = {_columns(key) for key in target.foreign_keys}
    own = source.foreign_keys if (target.engine or "").lower() == "innodb" else ()
    keys = [", ".join(key.columns) for key in own if _columns(key) not in kept]
    return [*(f"index {name}" for name in indexes), *(f"foreign key over {names}" for names in keys)]


def _columns(key: ForeignKey) -> tuple[str, ...]:
    return tuple(column.lower() for column in key.columns)


def _keeps_counting(schema: TableSchema) -> bool:
    """Whether AUTO_INCREMENT does without the indexes that are taken off: its column must be the first of one."""
    first = {index.parts[0].column for index in schema.unique_indexes}
    return all(column.name in first for column in schema.columns if column.auto_increment)


@dataclass(frozen=True, slots=True)
class TableTask:
    """One table to complete: its indexes, or its foreign keys too, which are the last."""

    deferral: Deferral
    last: bool


@dataclass(frozen=True)
class TableCompletion:
    """Adds what tables lack of their records."""

    endpoint: Endpoint
    run: LoadRun

    def __call__(self, tasks: tuple[TableTask, ...]) -> tuple[TableTask, ...]:
        """Complete the tables, one after the other; what is there already is left alone."""
        # An ALTER of a large table says nothing for hours.
        connection = TargetConnection(self.endpoint, read_timeout=None)
        try:
            join_run(connection, self.run)
            announce(connection, self.run.key)
            for task in tasks:
                self._complete(connection, task)
        finally:
            connection.close()
        return tasks

    def _complete(self, connection: TargetConnection, task: TableTask) -> None:
        deferral, targets = task.deferral, TargetTables.at(connection)
        while ddl_jobs.job_on(connection, deferral.table):  # for a session that was killed
            time.sleep(_JOB_SECONDS)
        wanted = targets.parsed(deferral.table, deferral.structure)
        present = targets.structure(deferral.table)
        definitions = secondary_definitions(deferral.structure, wanted)
        there = secondary_definitions(present, targets.parsed(deferral.table, present))
        made = created_at(connection, deferral.table)
        connection.execute(f"USE {Ident(deferral.table.schema).sql}")  # parents of the same schema are shown without it
        for statement in (add_foreign_keys if task.last else add_indexes)(wanted, definitions, there):
            _add(connection, statement)
            faults.hit("loader.index_added")
        record_altered(connection, self.run, deferral.table, made)
        if task.last or not definitions.foreign_keys:
            present = targets.structure(deferral.table)
            if not secondary_definitions(present, targets.parsed(deferral.table, present)).has(definitions):
                raise DMError("load-structure-differs", table=deferral.table, cause=present)
            complete(connection, self.run.key, deferral.table)


def _add(connection: TargetConnection, statement: str) -> None:
    """Run an ALTER; where rows that come meanwhile are too many for it, they have to wait."""
    try:
        connection.execute(statement)
    except DMError as error:
        if error.server_errno != _TOO_MANY_NOTES:
            raise
        connection.execute(f"{statement}, LOCK=SHARED")


def complete_tables(
    connection: TargetConnection,
    run: LoadRun,
    endpoint: Endpoint,
    spark: SparkProvider,
    stop: threading.Event,
    writers: int,
    begin: Callable[[int], None],
    waits: Callable[[str], None],
) -> bool:
    """Add to all tables what they lack, side by side; False when stopped. `begin` hears how many they are, `waits`
    what that waits for.
    """
    deferrals = own_deferrals(connection, run.key)
    if not deferrals:
        return not stop.is_set()
    begin(len(deferrals))
    completion, sizes = TableCompletion(endpoint, run), loaded_bytes(connection, run)
    for last, what in ((False, "indexes"), (True, "foreign keys")):
        if last:
            deferrals = own_deferrals(connection, run.key)  # those with foreign keys
        weighed = [(deferral, sizes.get(deferral.table, 0) / _FULL_BYTES) for deferral in deferrals]
        tasks = grouped((TableTask(deferral, last), weight) for deferral, weight in weighed)
        description = f"{run.key.task}: add {what}"
        if tasks and not run_tasks(
            spark.context(), completion, tasks, stop, lambda _: None, description, waits=waits, at_once=writers
        ):
            return False
    return True
