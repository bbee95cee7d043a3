"""Chunks that go from the source into the target without a file (`dump-files: none` and `auto`).

Problem: the process may die anywhere, and a chunk is read once only: nothing holds its rows but the connection.

A chunk is one transaction of the target: first its record (`dm.progress.load_parts`), which shows whether it is
there already, then its rows, batch by batch as they come from the source, then the commit. So a chunk is there with its
record or it is not there at all, and a run after a SIGKILL reads those that have none. Whatever breaks on either side,
the target rolls back when the session ends.

The dump calls this (`dm.dumper.chunk_file`), round by round. When it is finished, the load finds the records. With
`auto` it takes only tables that it can take back (`dm.loader.stream`).

Which tables are copied without files where that is left to dm (`dump-files: auto`), and how they are taken back.

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

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow

from dm import faults
from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.source_computing import with_settings
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan
from dm.dumpfiles.literals import types_column
from dm.dumpfiles.text_rows import ColumnBatch
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.destinations import Destinations, DumpedStructures
from dm.loader.part_writer import PartWriter
from dm.loader.tally import OnDuplicate
from dm.loader.target_tables import TargetTables
from dm.pace.handle import PaceHandle
from dm.progress.load_parts import (
    MOST_WRITERS,
    NO_DUPLICATES,
    LoadRun,
    PartKey,
    begin_run,
    begun_dump,
    claim_part,
    loaded_sizes,
    note_duplicates,
    note_size,
    restart_run,
    take_slot,
)
from dm.progress.made_tables import (
    MadeTable,
    announce,
    create_deferrals,
    create_records,
    created_at,
    demand_current,
    foreign_sources,
    forget_gone,
    forget_table,
    made_tables,
    record_made,
    recorded_rows,
)
from dm.progress.opposite import announce as announce_session
from dm.progress.opposite_sources import note_source
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers


@dataclass
class ChunkWriter:
    """Writes one chunk after the other through one session, on an executor."""

    endpoint: Endpoint
    source: Endpoint
    run: LoadRun
    on_duplicate: OnDuplicate
    local_data: bool  # whether some destination takes rows by LOAD DATA LOCAL
    pace: PaceHandle | None = None
    _connection: TargetConnection | None = field(default=None, init=False)

    def write(
        self, table: TableName, generation: int, chunk: int, destination: Destination, batches: Iterable[ColumnBatch]
    ) -> tuple[int, int]:
        """Put the rows into the target, once; rows and bytes."""
        part = PartKey(table, generation, chunk, 0)
        try:
            connection = self._connection = self._connection or self._session()
            connection.begin()
            if claim_part(connection, self.run, part, 0, 0, destination.target):
                written = self._fill(connection, part, destination, batches)
                faults.hit("loader.chunk_inserted")
            else:
                written = loaded_sizes(connection, self.run)[part]
            connection.commit()
            faults.hit("loader.chunk_committed")
        except BaseException:
            # What rolls back: the server does it when the session ends, whatever went wrong with it.
            self.close()
            raise
        return written

    def close(self) -> None:
        """End the session, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _session(self) -> TargetConnection:
        connection = TargetConnection(self.endpoint, local_data=self.local_data)
        try:
            take_slot(connection, self.run.key)
            connection.execute("SET SESSION foreign_key_checks = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    def _fill(
        self, connection: TargetConnection, part: PartKey, destination: Destination, batches: Iterable[ColumnBatch]
    ) -> tuple[int, int]:
        writer = PartWriter(connection, self.run, self.on_duplicate, part.table, destination, self.source, self.pace)
        rows = size = 0
        duplicates = NO_DUPLICATES
        for batch in batches:
            tally = writer.write(_rows(batch, destination), typed=True)
            if tally.rows != batch.rows:
                raise DMError("load-rows-differ", table=destination.target, affected=tally.rows, rows=batch.rows)
            duplicates += tally.duplicates
            rows += batch.rows
            size += batch.size
        note_size(connection, self.run, part, rows, size)
        note_duplicates(connection, self.run, part, duplicates)
        return rows, size


def _rows(batch: ColumnBatch, destination: Destination) -> _BatchRows:
    names = [column.name for column in destination.columns]
    types = [types_column(column.name) for column in destination.columns if column.type.is_document]
    # The types of documents come after the columns, if they were asked for.
    names += types[: len(batch.columns) - len(names)]
    return _BatchRows(pyarrow.RecordBatch.from_arrays(batch.columns, names=names))


@dataclass(frozen=True)
class _BatchRows:
    """One batch, as often as it is asked for."""

    batch: pyarrow.RecordBatch

    def __call__(self, names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        present = [name for name in names if name in self.batch.schema.names]
        yield self.batch.select(present)


class TargetStream:
    """The way of one subtask's chunks into the target, in the driver."""

    def __init__(self, subtask: SubtaskConfig) -> None:
        self._subtask = subtask
        self._rules = TableRules(subtask)
        self._key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source.source_id)
        self._own = OwnTables(subtask, self._rules) if subtask.spark.dump_files == "auto" else None
        self._target = subtask.target
        self._run: LoadRun | None = None
        self._done: dict[PartKey, tuple[int, int]] = {}
        self._destinations: dict[tuple[TableName, int], Destination] = {}
        self._declined: set[tuple[TableName, int]] = set()

    @classmethod
    def of(cls, subtask: SubtaskConfig) -> TargetStream | None:
        """That of the subtask, if there is one."""
        return cls(subtask) if subtask.copies else None

    def give_up(self, stop: threading.Event) -> None:
        """The dump begins anew: take back what an earlier one has written, unless that can't be told from the rest."""
        own, key = self._own, self._key
        if own is None:
            return
        with TargetConnection(self._subtask.target) as connection:
            begun = begun_dump(connection, key)
            if begun is None:
                return
            run = begin_run(connection, key, begun, stop, self._subtask.run_by)
            create_deferrals(connection, key)
            create_records(connection, key)
            if run.finished or not own.can_restart(connection, run, loaded_sizes(connection, run)):
                return  # the new dump's beginning says so
            own.take_back(connection, run)
            restart_run(connection, run)

    def begin(self, plan: DumpPlan, stop: threading.Event) -> None:
        """Take over from an earlier run, take back what the plan has given up, and learn what is written."""
        key = self._key
        self._target = with_settings(self._subtask.target, plan.settings)
        with TargetConnection(self._target) as connection:
            note_source(connection, key, plan.server_uuid)
            run = self._run = begin_run(connection, key, plan.dump_id, stop, self._subtask.run_by)
            create_deferrals(connection, key)
            if self._own is not None:
                create_records(connection, key)
                if not plan.finished:
                    self._own.take_back(connection, run, streamed(plan))
                self._own.learn(connection, run)
            forget_gone(connection, key)
            self._done = loaded_sizes(connection, run)
            # The load makes them, from their files, when rows of all others are there.
            targets, structures = TargetTables.at(connection), DumpedStructures(plan)
            for table in plan.tables:
                if table.form != STREAMED:
                    targets.demand_makeable(structures.schema(table), self._rules.route(table.name))

    def finished(self, table: DumpedTable, chunk: int) -> tuple[int, int] | None:
        """Rows and bytes of a chunk that is at the target."""
        return self._done.get(PartKey(table.name, table.generation, chunk, 0))

    def revocable(self, table: DumpedTable) -> bool:
        """Whether what is written of the table goes when the plan gives it up and the stream begins again."""
        own = self._own
        begun = (table.name, table.generation) in self._destinations or table.name in self._copied
        return own is not None and (own.revocable(table.name) or not begun)

    @property
    def _copied(self) -> set[TableName]:
        """The tables with rows at the target."""
        return {part.table for part in self._done}

    def prepare(self, plan: DumpPlan, tables: Sequence[DumpedTable]) -> Mapping[TableName, Destination]:
        """Make the tables at the target; those that have to go through files are left out."""
        assert self._run is not None
        known = self._destinations.keys() | self._declined
        missing = [table for table in tables if (table.name, table.generation) not in known]
        if missing:
            with TargetConnection(self._target) as connection:
                self._make(connection, self._run, plan, missing)
        found = {table.name: self._destinations.get((table.name, table.generation)) for table in tables}
        return {name: destination for name, destination in found.items() if destination is not None}

    def _make(self, connection: TargetConnection, run: LoadRun, plan: DumpPlan, tables: Sequence[DumpedTable]) -> None:
        take_slot(connection, run.key)  # what a killed run still has under way here is ended by the next one
        own, copied = self._own, self._copied
        taken = tables if own is None else own.announce(connection, run, plan, tables, copied)
        if taken:
            destinations = Destinations(connection, self._subtask, self._rules, DumpedStructures(plan), run)
            destinations.make_schemas()
            made = {table.name: destinations.make(table) for table in taken}
            destinations.finish()
            if own is not None:
                own.settle(connection, run, destinations.created)
                # Somebody else may have made one since it was found missing.
                taken = [table for table in taken if table.name in copied or own.revocable(table.name)]
            self._destinations |= {(table.name, table.generation): made[table.name] for table in taken}
        self._declined |= {(table.name, table.generation) for table in tables} - self._destinations.keys()

    def wrote(self, table: TableName, generation: int, chunk: int, rows: int, size: int) -> None:
        """A chunk is there."""
        self._done[PartKey(table, generation, chunk, 0)] = (rows, size)

    def sink(self, pace: PaceHandle | None) -> ChunkWriter:
        """What writes chunks, as fast as it may."""
        assert self._run is not None
        local_data = any(destination.local_data for destination in self._destinations.values())
        subtask = self._subtask
        on_duplicate = subtask.loader.on_duplicate_logical
        return ChunkWriter(self._target, subtask.source.endpoint, self._run, on_duplicate, local_data, pace)

    @property
    def writers(self) -> int:
        """How many sessions may write at a time."""
        return min(self._subtask.loader.pool_size, MOST_WRITERS)


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

    @reads_answers
    def _suitable(
        self, connection: TargetConnection, plan: DumpPlan, tables: Sequence[DumpedTable]
    ) -> list[DumpedTable]:
        subtask, route = self.subtask, self.rules.route
        wanted_files = not subtask.clean_dump_file or subtask.loader.storage is not None
        alone = subtask.sole_source and not subtask.shard_mode
        if (
            not tables
            or not connection.dialect.joins_while_loading
            or wanted_files
            or subtask.spark.dump_format != "parquet"
            or not alone
        ):
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
            announce_session(session, run.key)
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
