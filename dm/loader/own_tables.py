"""Which tables are copied without files where that is left to dm (`dump-files: auto`), and how they are taken back.

Problem: a table may be altered, renamed or dropped while it is copied, and has to be read again. With files nothing is
at the target by then. Without them rows are, in a table that other rows and other people may use.

So a table is only copied without files if what the load makes of it can be thrown away as a whole. The load itself
makes the target's table (`dm.progress.made_tables` tells that, after any crash), and no other table of the source and
no other source of the task leads there. All others go through files. So does what enters in a later round.

Taking back, each step safe to repeat:

1. The dump's plan gives the table up; from then on every run does what follows.
2. Earlier sessions of the load are ended, and the epoch rises (`load_parts.begin_run`): nobody writes into the table.
3. The target's table is dropped, if it is the one that the load made and has no more rows than the load wrote. The
   session holds a slot of the load, so a later run ends it before it looks: no DROP comes late. (At TiDB it could, as a
   job of its own: there nothing is copied like that.)
4. Its records are deleted, in one transaction.

A table that is not as the load left it is not dropped. The task pauses, and a person decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dm import faults
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.deferral import demand_current
from dm.progress.load_parts import LoadRun, PartKey, take_slot
from dm.progress.made_tables import (
    MadeTable,
    announce,
    created_at,
    foreign_sources,
    forget_table,
    made_tables,
    record_made,
    recorded_rows,
)
from dm.rules.table_rules import TableRules


def _folded(table: TableName) -> TableName:
    """Names that some target may take for one are one here; a table too many goes through files."""
    return TableName(table.schema.lower(), table.table.lower())


@dataclass
class OwnTables:
    """The tables of one subtask that its load makes for itself."""

    subtask: SubtaskConfig
    rules: TableRules
    _made: dict[tuple[TableName, TableName], MadeTable] = field(default_factory=dict)  # by source and target

    def learn(self, connection: TargetConnection, run: LoadRun) -> None:
        """Find out what is recorded."""
        self._made = {(made.source, made.target): made for made in made_tables(connection, run)}

    def revocable(self, table: TableName) -> bool:
        """Whether what was written of the table can be taken back."""
        made = self._made.get((table, self.rules.route(table)))
        return made is not None and made.created is not None

    def announce(
        self,
        connection: TargetConnection,
        run: LoadRun,
        plan: DumpPlan,
        tables: Iterable[DumpedTable],
        copied: Collection[TableName],
    ) -> list[DumpedTable]:
        """Those that go without files, `copied` ones among them; what is to be made of them is recorded as that."""
        begun = [table for table in tables if table.name in copied or self.revocable(table.name)]
        names = {table.name for table in begun}
        fresh = self._suitable(connection, plan, [table for table in tables if table.name not in names])
        if fresh:
            announce(connection, run, [(table.name, self.rules.route(table.name)) for table in fresh])
            faults.hit("loader.tables_announced")
        return [*begun, *fresh]

    def _suitable(
        self, connection: TargetConnection, plan: DumpPlan, tables: Sequence[DumpedTable]
    ) -> list[DumpedTable]:
        subtask, route = self.subtask, self.rules.route
        wanted_files = not subtask.clean_dump_file or subtask.loader.storage is not None
        alone = subtask.sole_source and not subtask.shard_mode
        if not tables or connection.tidb or wanted_files or subtask.spark.dump_format != "parquet" or not alone:
            return []
        leading = Counter(_folded(route(table.name)) for table in plan.tables)
        found = connection.query("SELECT table_schema, table_name FROM information_schema.tables")
        there = {_folded(TableName(str(schema), str(table))) for schema, table in found}
        return [
            table
            for table in tables
            if table.generation == 0
            and leading[_folded(route(table.name))] == 1
            and _folded(route(table.name)) not in there
            and not self.rules.extracted(table.name)
        ]

    def settle(self, connection: TargetConnection, run: LoadRun, created: Collection[TableName]) -> None:
        """These tables have been made, and are now as they stay until their rows are there."""
        record_made(connection, run, created)
        faults.hit("loader.tables_made")
        self.learn(connection, run)

    def take_back(self, connection: TargetConnection, run: LoadRun, kept: Collection[TableName] = ()) -> None:
        """Remove from the target what is not kept; raises DMError where it is not the load's alone."""
        given_up = [made for made in made_tables(connection, run) if made.source not in kept]
        if not given_up:
            return
        # To count the rows of a large table takes a while, in which a server says nothing.
        # Sessions of a load look at no foreign keys: tables that refer to one that goes see it made again.
        with TargetConnection(self.subtask.target, read_timeout=None) as session:
            take_slot(session, run.key)
            demand_current(session, run)
            for made in given_up:
                _drop(session, run, made)
                faults.hit("loader.table_dropped")
                forget_table(session, run, made)
                faults.hit("loader.table_forgotten")

    def can_restart(self, connection: TargetConnection, run: LoadRun, loaded: Mapping[PartKey, object]) -> bool:
        """Whether everything that a dump has written can be taken back."""
        sources = {made.source for made in made_tables(connection, run) if made.created is not None}
        return all(part.table in sources for part in loaded)


def streamed(plan: DumpPlan) -> frozenset[TableName]:
    """The tables of the plan that go without files."""
    return frozenset(table.name for table in plan.tables if table.form == STREAMED)


def _drop(connection: TargetConnection, run: LoadRun, made: MadeTable) -> None:
    found = created_at(connection, made.target)
    if made.created is None or found is None:
        return
    why = _not_alone(connection, run, made, found)
    if why:
        raise DMError("load-table-shared", source_table=made.source, table=made.target, why=why)
    connection.execute(f"DROP TABLE IF EXISTS {made.target.sql}")


def _not_alone(connection: TargetConnection, run: LoadRun, made: MadeTable, found: int) -> str:
    """Why a table is not the load's alone; empty where it is."""
    if found != made.created:
        return "it is another table than the one that the load made"
    others = foreign_sources(connection, run, made)
    if others:
        return f"it has rows of {', '.join(others)}"
    rows = int(connection.query(f"SELECT COUNT(*) FROM {made.target.sql}")[0][0])
    written = recorded_rows(connection, run, made.source)
    return f"it has {rows} rows, and the load has written {written}" if rows > written else ""
