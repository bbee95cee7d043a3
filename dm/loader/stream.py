"""Chunks that go from the source into the target without a file (`dump-files: none` and `auto`).

Problem: the process may die anywhere, and a chunk is read once only: nothing holds its rows but the connection.

A chunk is one transaction of the target: first its record (`dm.progress.load_parts`), which shows whether it is
there already, then its rows, batch by batch as they come from the source, then the commit. So a chunk is there with its
record or it is not there at all, and a run after a SIGKILL reads those that have none. Whatever breaks on either side,
the target rolls back when the session ends.

The dump calls this (`dm.dumper.chunk_file`), round by round. When it is finished, the load finds the records. With
`auto` it takes only tables that it can take back (`dm.loader.own_tables`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow

from dm import faults
from dm.config.endpoint import Endpoint
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.source_session_settings import with_settings
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan
from dm.dumpfiles.literals import types_column
from dm.dumpfiles.text_rows import ColumnBatch
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.destinations import Destinations, DumpedStructures
from dm.loader.own_tables import OwnTables
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
    claim_part,
    ended_by_newer,
    join_run,
    loaded_sizes,
    note_duplicates,
    note_size,
)
from dm.progress.made_tables import (
    create_deferrals,
    create_records,
    forget_gone,
)
from dm.progress.opposite_sources import note_source
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import TableRules


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
            join_run(connection, self.run)
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
        self._own = OwnTables.of(subtask) if subtask.spark.dump_files == "auto" else None
        self._target = subtask.target
        self._run: LoadRun | None = None
        self._done: dict[PartKey, tuple[int, int]] = {}
        self._destinations: dict[tuple[TableName, int], Destination] = {}
        self._declined: set[tuple[TableName, int]] = set()

    @classmethod
    def of(cls, subtask: SubtaskConfig) -> TargetStream | None:
        """That of the subtask, if there is one."""
        return cls(subtask) if subtask.copies else None

    def begin(self, plan: DumpPlan, stop: threading.Event) -> None:
        """Take over from an earlier run, take back what the plan has given up, and learn what is written."""
        key = self._key
        self._target = with_settings(self._subtask.target, plan.settings)
        with TargetConnection(self._target) as connection:
            note_source(connection, key, plan.server_uuid)
            run = self._run = begin_run(connection, key, plan.dump_id, stop, self._subtask.run_by)
            join_run(connection, run)
            create_deferrals(connection, key)
            if self._own is not None:
                create_records(connection, key)
                if not plan.finished:
                    self._own.take_back(connection, run, _streamed(plan))
                self._own.learn(connection, run)
            forget_gone(connection, key)
            self._done = loaded_sizes(connection, run)
            # The load makes them, from their files, when rows of all others are there.
            targets, structures = TargetTables.at(connection), DumpedStructures(plan)
            for table in plan.tables:
                if table.form != STREAMED:
                    targets.demand_makeable(structures.schema(table), self._rules.route(table.name))

    def ended_by_newer(self, error: DMError, stop: threading.Event) -> DMError | None:
        """What to say of a run that has failed so, where a newer one has ended its sessions."""
        return None if self._run is None else ended_by_newer(self._target, self._run, error, stop)

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
        join_run(connection, run)  # what a killed run still has under way here is ended by the next one
        own, copied = self._own, self._copied
        taken = tables if own is None else own.announce(connection, run, plan, tables, copied)
        if taken:
            destinations = Destinations(connection, self._subtask, self._rules, DumpedStructures(plan), run)
            destinations.make_schemas()
            made = {table.name: destinations.make(table) for table in taken}
            destinations.finish()
            if own is not None:
                own.record_created(connection, run, destinations.created)
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


def _streamed(plan: DumpPlan) -> frozenset[TableName]:
    """The tables of the plan that go without files."""
    return frozenset(table.name for table in plan.tables if table.form == STREAMED)
