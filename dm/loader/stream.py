"""Chunks that go from the source into the target without a file (`dump-files: none`).

Problem: the process may die anywhere, and a chunk is read once only: nothing holds its rows but the connection.

A chunk is one transaction of the target: first its record (`dm.progress.load_parts`), which shows whether it is
there already, then its rows, batch by batch as they come from the source, then the commit. So a chunk is there with its
record or it is not there at all, and a run after a SIGKILL reads those that have none. Whatever breaks on either side,
the target rolls back when the session ends.

The dump calls this (`dm.dumper.stream`), round by round. When it is finished, the load finds the records.
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
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan
from dm.dumpfiles.json_types import types_column
from dm.dumpfiles.text_rows import Batch
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.destinations import Destinations, DumpedStructures
from dm.loader.part_writer import PartWriter
from dm.loader.tally import OnDuplicate
from dm.loader.target_tables import TargetTables
from dm.progress.deferral import create_deferrals, forget_gone
from dm.progress.load_parts import (
    MOST_WRITERS,
    NO_DUPLICATES,
    LoadRun,
    PartKey,
    begin_run,
    claim_part,
    loaded_sizes,
    note_duplicates,
    note_size,
    take_slot,
)
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
    _connection: TargetConnection | None = field(default=None, init=False)

    def write(
        self, table: TableName, generation: int, chunk: int, destination: Destination, batches: Iterable[Batch]
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
        self, connection: TargetConnection, part: PartKey, destination: Destination, batches: Iterable[Batch]
    ) -> tuple[int, int]:
        writer = PartWriter(connection, self.run, self.on_duplicate, part.table, destination, self.source)
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


def _rows(batch: Batch, destination: Destination) -> _BatchRows:
    names = [column.name for column in destination.columns]
    types = [types_column(column.name) for column in destination.columns if column.base == "json"]
    # The types of documents come behind the columns, if they were asked for.
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
        self._run: LoadRun | None = None
        self._done: dict[PartKey, tuple[int, int]] = {}
        self._destinations: dict[tuple[TableName, int], Destination] = {}

    def begin(self, plan: DumpPlan, stop: threading.Event) -> None:
        """Take over from an earlier run and learn what it has written."""
        subtask = self._subtask
        key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source.source_id)
        with TargetConnection(subtask.target) as connection:
            self._run = begin_run(connection, key, plan.dump_id, stop)
            create_deferrals(connection, key)
            forget_gone(connection, key)
            self._done = loaded_sizes(connection, self._run)
            # The load makes them, from their files, when rows of all others are there.
            targets, structures = TargetTables.at(connection), DumpedStructures(plan)
            for table in plan.tables:
                if table.form != STREAMED:
                    targets.demand_makeable(structures.schema(table), self._rules.route(table.name))

    def finished(self, table: DumpedTable, chunk: int) -> tuple[int, int] | None:
        """Rows and bytes of a chunk that is at the target."""
        return self._done.get(PartKey(table.name, table.generation, chunk, 0))

    def prepare(self, plan: DumpPlan, tables: Sequence[DumpedTable]) -> Mapping[TableName, Destination]:
        """Make the tables at the target."""
        assert self._run is not None
        missing = [table for table in tables if (table.name, table.generation) not in self._destinations]
        if missing:
            with TargetConnection(self._subtask.target) as connection:
                structures = DumpedStructures(plan)
                destinations = Destinations(connection, self._subtask, self._rules, structures, self._run)
                destinations.make_schemas()
                for table in missing:
                    self._destinations[table.name, table.generation] = destinations.make(table)
                destinations.finish()
        return {table.name: self._destinations[table.name, table.generation] for table in tables}

    def wrote(self, table: TableName, generation: int, chunk: int, rows: int, size: int) -> None:
        """A chunk is there."""
        self._done[PartKey(table, generation, chunk, 0)] = (rows, size)

    @property
    def sink(self) -> ChunkWriter:
        """What writes chunks."""
        assert self._run is not None
        local_data = any(destination.local_data for destination in self._destinations.values())
        subtask = self._subtask
        on_duplicate = subtask.loader.on_duplicate_logical
        return ChunkWriter(subtask.target, subtask.source.endpoint, self._run, on_duplicate, local_data)

    @property
    def writers(self) -> int:
        """How many sessions may write at a time."""
        return min(self._subtask.loader.pool_size, MOST_WRITERS)
