"""The load of one source: the files of its dump into the target, each row once, and then the word to the syncer.

Problem: the process may die anywhere, and what is loaded must be neither lost nor doubled, also where rows have no
key.

A chunk file is cut into parts of some megabytes by its row groups, which are the same whenever one looks; a
part is one transaction that holds the part's record as well (`dm.progress.load_parts`), and one Spark task, which
small ones share. So what is left to do is every part without a record, and a run after a SIGKILL is a run like any
other. When none is left, P0, P1 and each table's structure and own point are handed to the syncer in one transaction,
the load is marked as finished, and the dump is removed if the task says so.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Self

from pyarrow import parquet

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.downstream.source_session_settings import with_settings
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import (
    PLAN_FILE,
    STREAMED,
    DumpedTable,
    DumpPlan,
    finished_chunk,
    foreign_file,
    load_plan,
    remove_files,
)
from dm.dumpfiles.literals import types_column
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.deferred_indexes import complete_tables
from dm.loader.destinations import Destinations, DumpedStructures
from dm.loader.foreign_dump import read_foreign_dump
from dm.loader.own_tables import OwnTables
from dm.loader.part_writer import PartLoader, PartResult, PartTask
from dm.loader.progress import LoadProgress
from dm.loader.sql_loader import FILE_END, FileLoader, FileResult, FileTask
from dm.loader.target_tables import TargetTables
from dm.mysql.schema.table import TableSchema
from dm.pace.handle import BulkPace, handle_of, paced
from dm.position import Position
from dm.progress.checkpoint import Handover, write_handover
from dm.progress.load_parts import (
    MOST_WRITERS,
    LoadRun,
    PartKey,
    begin_run,
    ended_by_newer,
    finish_run,
    join_run,
    load_is_finished,
    loaded_parts,
    loaded_sizes,
    noted_duplicates,
)
from dm.progress.made_tables import create_deferrals, create_records, forget_gone
from dm.progress.opposite_sources import note_source
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import TableRules
from dm.spark.job import grouped, run_tasks
from dm.spark.session import SparkProvider
from dm.unit import JSON, UnitName

_PART_BYTES = 1 << 24  # of values; also what one transaction holds
_SAME_IN_UTF8 = frozenset({None, "binary", "ascii", "utf8", "utf8mb3", "utf8mb4"})


class LoadUnit:
    """DM's Load unit."""

    name: UnitName = "Load"

    def __init__(
        self, subtask: SubtaskConfig, storage: DumpStorage, spark: SparkProvider, *, clock: Clock | None = None
    ) -> None:
        self._subtask = subtask
        self._storage = storage
        self._spark = spark
        self._pace: BulkPace | None = None
        self._rules = TableRules(subtask)
        self._key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source.source_id)
        self._progress = LoadProgress(clock or SystemClock())
        self._foreign_files: Mapping[TableName, tuple[str, ...]] = {}
        self._streamed: Mapping[PartKey, tuple[int, int]] | None = None
        self._target = subtask.target
        self._began: LoadRun | None = None

    def keep_pace(self, pace: BulkPace) -> Self:
        """Be as fast as this allows."""
        self._pace = pace
        return self

    def status(self) -> Mapping[str, JSON]:
        """DM's load fields."""
        return {**self._progress.status(), **({} if self._pace is None else self._pace.status())}

    def run(self, stop: threading.Event) -> None:
        """Load until every part is in the target and the syncer has its starting point, or until stopped."""
        with paced(self._pace):
            try:
                self._run(stop)
            except DMError as error:
                fenced = None if self._began is None else ended_by_newer(self._target, self._began, error, stop)
                raise fenced or error from error.__cause__

    def _run(self, stop: threading.Event) -> None:
        connection = TargetConnection(self._subtask.target)
        try:
            if load_is_finished(connection, self._key):
                self._clean(None)
                return
            plan = load_plan(self._storage)
            if plan is None and foreign_file(self._storage) is not None:
                plan = self._foreign_plan(connection)
            if plan is None or not plan.finished:
                raise DMError("dump-missing", directory=self._storage)
            if self._subtask.loader.on_duplicate_logical == "error" and not plan.consistent:
                raise DMError("load-error-mode")
            self._demand_wanted(plan)
            # A dump may hold more than this task wants, be it another task's or from before its lists were changed.
            wanted = tuple(table for table in plan.tables if self._rules.wanted(table.name))
            self._target = with_settings(self._subtask.target, plan.settings)
            if self._target != self._subtask.target:
                # A server may keep for all sessions how the first one that opens a table has read its expressions.
                connection.close()
                connection = TargetConnection(self._target)
            self._load(connection, replace(plan, tables=wanted), stop)
        finally:
            connection.close()

    def _demand_wanted(self, plan: DumpPlan) -> None:
        """Raise DMError where lists that have grown since the dump want tables whose rows it left out.

        What was made after its beginning comes by the binlog. With task-mode `load` the dump is what is asked for.
        """
        there = {table.name for table in plan.tables} | plan.vanished.keys()
        missing = [name for name in plan.left_out if name not in there and self._rules.wanted(name)]
        if missing and self._subtask.mode != "load":
            raise DMError("load-tables-left-out", tables=", ".join(map(str, missing)))

    def _foreign_plan(self, connection: TargetConnection) -> DumpPlan:
        """The plan that the files of another program amount to."""
        context, subtask = TargetTables.at(connection).context, self._subtask
        found = read_foreign_dump(self._storage, self._key.task, self._key.source_id, context, self._rules.wanted)
        if subtask.mode != "load":
            raise DMError("load-foreign-sync", directory=self._storage, place=found.plan.p0)
        self._foreign_files = found.files
        self._progress.leave_out(found.left_out)
        return found.plan

    def _load(self, connection: TargetConnection, plan: DumpPlan, stop: threading.Event) -> None:
        self._progress.begin(plan.p0)
        self._progress.waits(session_lock.words_while_asking(connection))
        try:
            note_source(connection, self._key, plan.server_uuid)
            run = begin_run(connection, self._key, plan.dump_id, stop, self._subtask.run_by)
            self._began = run
            join_run(connection, run)
        except DMError as error:
            # Waiting for an earlier run's sessions ends with the stop; the next run asks for them again.
            if not (stop.is_set() and error.name == "load-busy"):
                raise
            return
        self._progress.waits("")
        if run.finished:
            self._clean(plan)
            return
        structures = DumpedStructures(plan)
        create_deferrals(connection, self._key)
        create_records(connection, self._key)
        forget_gone(connection, self._key)
        tasks, files = self._tasks(connection, plan, structures, run)
        done = loaded_parts(connection, run)
        for task in tasks:
            self._progress.expect(task.part.table, task.rows, task.size)
            if task.part in done:
                self._progress.loaded(task.part.table, task.rows, task.size)
        self._progress.met(noted_duplicates(connection, run))
        left = [task for task in tasks if task.part not in done]
        self._progress.loading()
        if left and not self._run_tasks(run, left, stop):
            return
        if files and not self._run_files(run, files, done, stop):
            return
        target, writers, spark, progress = self._target, self._writers, self._spark, self._progress
        if not complete_tables(connection, run, target, spark, stop, writers, progress.completing, progress.waits):
            return
        self._hand_over(connection, plan, structures)
        finish_run(connection, run)
        faults.hit("loader.finished")
        self._clean(plan)

    def _run_tasks(self, run: LoadRun, tasks: list[PartTask], stop: threading.Event) -> bool:
        settings = self._subtask.loader
        source = self._subtask.source.endpoint
        pace = handle_of(self._pace, self._spark.context())
        loader = PartLoader(self._target, self._storage, run, source, settings.on_duplicate_logical, pace)

        def done(results: tuple[PartResult, ...]) -> None:
            for result in results:
                self._progress.loaded(result.part.table, result.rows, result.size)
                self._progress.met(result.duplicates)

        groups = grouped((task, task.size / _PART_BYTES) for task in tasks)
        description = f"{self._subtask.task}: load chunks"
        context, waits, writers = self._spark.context(), self._progress.waits, self._writers
        return run_tasks(context, loader, groups, stop, done, description, waits=waits, at_once=writers)

    @property
    def _writers(self) -> int:
        """How many sessions write at a time."""
        return min(self._subtask.loader.pool_size, MOST_WRITERS)

    def _run_files(
        self, run: LoadRun, files: list[FileTask], done: Mapping[PartKey, int], stop: threading.Event
    ) -> bool:
        """Load SQL files; what is done of one is told by its parts."""
        left: list[FileTask] = []
        parts: dict[tuple[TableName, int, int], dict[int, int]] = {}
        for part, size in done.items():
            parts.setdefault((part.table, part.generation, part.chunk), {})[part.part] = size
        for task in files:
            self._progress.expect(task.table, task.rows, task.size)
            if task.part(FILE_END) in done:
                self._progress.loaded(task.table, task.rows, task.size)
            else:
                left.append(replace(task, done=parts.get((task.table, task.generation, task.chunk), {})))
        on_duplicate, pace = self._subtask.loader.on_duplicate_logical, handle_of(self._pace, self._spark.context())
        loader = FileLoader(self._target, self._storage, run, on_duplicate, pace)

        def loaded(results: tuple[FileResult, ...]) -> None:
            for result in results:
                self._progress.loaded(result.table, result.rows, result.size)
                self._progress.met(result.duplicates)

        groups = grouped((task, task.size / _PART_BYTES) for task in left)
        description, waits, writers = f"{self._subtask.task}: load SQL files", self._progress.waits, self._writers
        return not left or run_tasks(
            self._spark.context(), loader, groups, stop, loaded, description, waits=waits, at_once=writers
        )

    def _tasks(
        self, connection: TargetConnection, plan: DumpPlan, structures: DumpedStructures, run: LoadRun
    ) -> tuple[list[PartTask], list[FileTask]]:
        """Every part of every Parquet file, and every SQL file; makes the tables on the way."""
        destinations = Destinations(connection, self._subtask, self._rules, structures, run)
        destinations.make_schemas()
        own = OwnTables(self._subtask, self._rules)
        own.announce_files(connection, run, plan)
        tasks: list[PartTask] = []
        files: list[FileTask] = []
        for table in plan.tables:
            destination = destinations.make(table)
            if table.form == STREAMED:
                self._count_streamed(connection, table, run)
            elif table.form == "sql":
                if destination.constants:
                    raise DMError("load-extract-sql", table=destination.target)
                files.extend(self._files(plan, table, structures.schema(table), destination))
            else:
                for chunk in range(table.chunks):
                    tasks.extend(self._parts(plan, table, destination, chunk))
        destinations.finish()
        own.record_created(connection, run, destinations.created)
        return tasks, files

    def _count_streamed(self, connection: TargetConnection, table: DumpedTable, run: LoadRun) -> None:
        """The dump has written the table's rows into the target; raises DMError where the target does not know it."""
        if self._streamed is None:
            self._streamed = loaded_sizes(connection, run)
        for chunk in range(table.chunks):
            found = self._streamed.get(PartKey(table.name, table.generation, chunk, 0))
            if found is None:
                why = f"chunk {chunk} of {table.name} was copied without a file, and the target has no record of it"
                raise DMError("dump-file-damaged", file=self._storage.shown(PLAN_FILE), why=why)
            self._progress.expect(table.name, *found)
            self._progress.loaded(table.name, *found)

    def _files(
        self, plan: DumpPlan, table: DumpedTable, schema: TableSchema, destination: Destination
    ) -> Iterator[FileTask]:
        """The SQL files of a table."""
        foreign = self._foreign_files.get(table.name)
        names = [table.file_name(chunk) for chunk in range(table.chunks)] if foreign is None else foreign
        # A statement without a list of columns means those that `SELECT *` gives and that can be written.
        stored = [column for column in schema.columns if column.generated is None]
        visible = [column for column in stored if not column.invisible]
        recoded = any(column.type.is_document or column.charset not in _SAME_IN_UTF8 for column in stored)
        for chunk, name in enumerate(names):
            footer = None if foreign is not None else finished_chunk(self._storage, plan, table, chunk)
            if foreign is None and footer is None:
                raise self._missing(name)
            yield FileTask(
                table.name, table.generation, chunk, name, self._size(name), destination, tuple(visible),
                rows=0 if footer is None else footer.rows, ours=footer is not None,
                time_zone=self._subtask.timezone or "+00:00", recoded=recoded,
            )  # fmt: skip

    def _parts(self, plan: DumpPlan, table: DumpedTable, destination: Destination, chunk: int) -> Iterator[PartTask]:
        name = table.file_name(chunk)
        if finished_chunk(self._storage, plan, table, chunk) is None:
            raise self._missing(name)
        with parquet.ParquetFile(self._storage.arrow_source(name)) as file:
            typed = any(types_column(column.name) in file.schema_arrow.names for column in destination.columns)
            groups = [
                (file.metadata.row_group(group).num_rows, file.metadata.row_group(group).total_byte_size)
                for group in range(file.metadata.num_row_groups)
            ]
        first = rows = size = part = 0
        for group, (group_rows, group_size) in enumerate(groups):
            rows, size = rows + group_rows, size + group_size
            last = group + 1 == len(groups)
            if size >= _PART_BYTES or last:
                if rows:
                    key = PartKey(table.name, table.generation, chunk, part)
                    yield PartTask(key, name, first, group, destination, rows, size, typed)
                first, rows, size, part = group + 1, 0, 0, part + 1

    def _size(self, name: str) -> int:
        try:
            return self._storage.size(name)
        except OSError as error:
            raise DMError("dump-file-damaged", file=self._storage.shown(name), why=str(error)) from error

    def _missing(self, name: str) -> DMError:
        return DMError("dump-file-damaged", file=self._storage.shown(name), why="it is missing or of another dump")

    def _hand_over(self, connection: TargetConnection, plan: DumpPlan, structures: DumpedStructures) -> None:
        """Tell the syncer where to begin and up to where rows may be there already."""
        if self._subtask.mode not in ("all", "load&sync"):
            return
        assert plan.p1 is not None
        tables: dict[TableName, tuple[TableSchema, Position | None]] = {
            table.name: (structures.schema(table), table.point) for table in plan.tables
        }
        handover = Handover(plan.p0, plan.p1, tables, plan.vanished, plan.birth)
        write_handover(connection, self._key, handover, validated=self._subtask.validator.mode != "none")

    def _clean(self, plan: DumpPlan | None) -> None:
        self._progress.finish()
        # A dump that another task has made stays: it may be loaded elsewhere, too.
        if self._subtask.clean_dump_file and self._subtask.mode in ("full", "all"):
            found = plan or load_plan(self._storage)
            # Without a plan the files are what a removal left that was cut short.
            if found is None or (found.task, found.source_id) == (self._key.task, self._key.source_id):
                remove_files(self._storage)
