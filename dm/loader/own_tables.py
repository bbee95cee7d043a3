"""Which tables of the target a load has made for itself, so that it can take back what it has written into them.

Problem: a dump may begin anew while rows of the one before are at the target. A table is altered, renamed or dropped
while it is copied without files; the source was reset; the directory of the files is gone, with the host that had it.
The rows are of moments that the new dump knows nothing of, in a table that other rows and other people may use.

So only what can be thrown away as a whole is taken back: a table that the load itself has made
(`dm.progress.made_tables` tells that, after any crash), and to which no other table of the source and no other source
of the task leads. With `dump-files: auto` no other table goes without files; nor does what enters in a later round.

Taking back, each step safe to repeat:

1. The dump's plan gives the table up, or is itself gone; from then on every run does what follows.
2. Earlier sessions of the load are ended, and the epoch rises (`load_parts.begin_run`): nobody writes into the table.
3. The target's table is dropped, if it is the one that the load made and has no more rows than the load wrote. The
   session holds a slot of the load, so a later run ends it before it looks: no DROP comes late. (At TiDB it could, as a
   job of its own: there nothing is taken back.)
4. Its records are deleted, in one transaction.

A table that is not as the load left it is not dropped. The task pauses, and a person decides. Of a
lost dump that has filled a table of others, too, the rows are removed where columns tell which they are
(`dm.loader.told_rows`). Else it pauses as well: which of the rows are the load's is known to nobody, and a row that was
deleted at the source since then would stay.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

from dm import faults
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.told_rows import ToldRows
from dm.progress.load_parts import (
    LoadRun,
    begin_run,
    begun_dump,
    ended_by_newer,
    join_run,
    loaded_sizes,
    other_dump,
    restart_run,
)
from dm.progress.made_tables import (
    MadeTable,
    announce,
    create_deferrals,
    create_records,
    created_at,
    foreign_sources,
    forget_table,
    made_tables,
    record_made,
    recorded_rows,
)
from dm.progress.opposite import announce as announce_session
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers

_DUMPING: Final = ("full", "all")  # task modes of which a dump and its load are


@dataclass
class OwnTables:
    """Those of one subtask."""

    subtask: SubtaskConfig
    rules: TableRules
    _made: dict[tuple[TableName, TableName], MadeTable] = field(default_factory=dict)  # by source and target

    @classmethod
    def of(cls, subtask: SubtaskConfig) -> Self:
        """Those of the subtask."""
        return cls(subtask, TableRules(subtask))

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
        fresh = [table for table in tables if table.name not in names and table.generation == 0]
        wanted_files = not self.subtask.clean_dump_file or self.subtask.loader.storage is not None
        if wanted_files or self.subtask.spark.dump_format != "parquet":
            return begun
        return [*begun, *self._announced(connection, run, plan, fresh)]

    def announce_files(self, connection: TargetConnection, run: LoadRun, plan: DumpPlan) -> None:
        """The tables whose files are about to be loaded; what is to be made of them is recorded as that.

        None where the task does not make its dump itself.
        """
        self.learn(connection, run)
        fresh = [table for table in plan.tables if table.form != STREAMED and not self.revocable(table.name)]
        if self.subtask.mode in _DUMPING:
            self._announced(connection, run, plan, fresh)

    @reads_answers
    def _announced(
        self, connection: TargetConnection, run: LoadRun, plan: DumpPlan, tables: Sequence[DumpedTable]
    ) -> list[DumpedTable]:
        """Those of the tables that will be the load's alone."""
        subtask, route = self.subtask, self.rules.route
        alone = subtask.sole_source and not subtask.shard_mode
        if not tables or not connection.dialect.joins_while_loading or not alone:
            return []
        leading = Counter(_folded(route(table.name)) for table in plan.tables)
        found = connection.query("SELECT table_schema, table_name FROM information_schema.tables")
        there = {_folded(TableName(str(schema), str(table))) for schema, table in found}
        fresh = [
            table
            for table in tables
            if leading[_folded(route(table.name))] == 1
            and _folded(route(table.name)) not in there
            and not self.rules.extracted(table.name)
        ]
        if fresh:
            announce(connection, run, [(table.name, route(table.name)) for table in fresh])
            faults.hit("loader.tables_announced")
        return fresh

    def record_created(self, connection: TargetConnection, run: LoadRun, created: Collection[TableName]) -> None:
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
            join_run(session, run)
            announce_session(session, run.key)
            for made in given_up:
                _drop(session, run, made)
                faults.hit("loader.table_dropped")
                forget_table(session, run, made)
                faults.hit("loader.table_forgotten")


class LostDump:
    """What an earlier dump of a subtask has at the target, when the dump begins anew."""

    def __init__(self, subtask: SubtaskConfig) -> None:
        self._subtask = subtask
        self._key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source.source_id)

    def give_up(self, stop: threading.Event) -> None:
        """Take all of it back; raises DMError `load-other-dump` where that can't be told from the rest."""
        key = self._key
        if self._subtask.mode not in _DUMPING:
            return
        with TargetConnection(self._subtask.target) as connection:
            begun = begun_dump(connection, key)
            if not begun:
                return
            run = begin_run(connection, key, begun, stop, self._subtask.run_by)
            try:
                join_run(connection, run)
                self._take_back(connection, run)
            except DMError as error:
                fenced = ended_by_newer(self._subtask.target, run, error, stop)
                raise fenced or error from error.__cause__

    def _take_back(self, connection: TargetConnection, run: LoadRun) -> None:
        create_deferrals(connection, run.key)
        create_records(connection, run.key)
        own = {made.source for made in made_tables(connection, run) if made.created is not None}
        shared = {part.table for part in loaded_sizes(connection, run)} - own
        told = ToldRows(self._subtask)
        if run.finished or not told.tell(connection, run, shared):
            raise other_dump(connection, run.key)
        OwnTables.of(self._subtask).take_back(connection, run)
        told.take_back(run, shared)
        restart_run(connection, run)


def _drop(connection: TargetConnection, run: LoadRun, made: MadeTable) -> None:
    found = created_at(connection, made.target)
    if made.created is None or found is None:
        return
    why = _not_alone(connection, run, made, found)
    if why:
        raise DMError("load-table-shared", source_table=made.source, table=made.target, why=why)
    connection.execute(f"DROP TABLE IF EXISTS {made.target.sql}")


@reads_answers
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


def _folded(table: TableName) -> TableName:
    """Names that some target may take for one are one here; a table too many goes through files."""
    return TableName(table.schema.lower(), table.table.lower())
