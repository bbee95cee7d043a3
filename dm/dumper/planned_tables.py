"""The tables of one dump: each one's entry in the plan, the chunks that are missing, and what is known of them.

A dump's plan is stored (`dm.dumpfiles.dump_files`), so a run that begins again finds the tables with their structures
and bounds, and reads the chunks alone that are not finished. Bounds are found at the source once, before the first
chunk is read; `dm.dumpfiles.chunk_plan` says how a table is cut. While chunks are read, their writers report rows and
bytes through files beside the chunk files; the progress is made of these reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dm.dumper.chunk_file import SqlForm
from dm.dumper.chunk_group import GroupWalker, walk_here
from dm.dumper.chunk_reader import (
    ChunkReader,
    ChunkTask,
    plain_rows,
    read_report,
    report_file,
    reported_checksum,
    select_text,
    selected_columns,
    shared_marker,
)
from dm.dumper.dump_run import DumpRun
from dm.dumper.stored_values import StoredValues
from dm.dumper.structures import read_sizes
from dm.dumpfiles.chunk_plan import KeyWalk, WalkResult, conditions, in_innodb, rows_per_chunk, walked_key
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan, finished_chunk, save_plan
from dm.dumpfiles.literals import naming_key
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.pace.handle import handle_of
from dm.position import Position
from dm.spark.job import grouped, run_tasks


@dataclass
class TablePlanner:
    """Plans the tables of one run."""

    run: DumpRun
    _schemas: dict[tuple[TableName, str], TableSchema] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)  # of chunk files of this run, as their writers told

    def table(self, name: TableName, structure: str, point: Position | None, generation: int = 0) -> DumpedTable:
        """A table that enters the plan; a keyless one gets its point when it is read."""
        flavor = self.run.facts.flavor
        keyless = self.run.keys.keyless(self.schema(name, structure), flavor)
        form: str = self.run.subtask.spark.dump_format
        # What can't be cut would be one transaction, however large it is.
        if self.run.stream is not None and not keyless and walked_key(self.schema(name, structure)) is not None:
            form = STREAMED
        return DumpedTable(name, structure, generation, keyless, None if keyless else point, form=form)

    def schema(self, name: TableName, structure: str) -> TableSchema:
        """The structure in parts; read once."""
        key = (name, structure)
        if key not in self._schemas:
            context = SourceContext(self.run.facts.flavor, self.run.facts.version, name.schema)
            self._schemas[key] = parse_create_table(structure, context)
        return self._schemas[key]

    def announce(self, plan: DumpPlan, table: DumpedTable) -> None:
        """Tell the progress what the table consists of and what of it is done."""
        self.run.progress.plan(table.name, table.chunks, table.estimated_rows)
        if table.bounds is None:
            return
        for chunk in range(table.chunks):
            found = self._finished(plan, table, chunk)
            if found is not None:
                self.run.progress.chunk(table.name, *found)

    def _finished(self, plan: DumpPlan, table: DumpedTable, chunk: int) -> tuple[int, int] | None:
        """Rows and bytes of a chunk that is done."""
        if table.form == STREAMED and self.run.stream is not None:
            return self.run.stream.finished(table, chunk)
        footer = finished_chunk(self.run.storage, plan, table, chunk)
        return None if footer is None else (footer.rows, footer.size)

    def walk(self, plan: DumpPlan) -> DumpPlan | None:
        """Give every table its chunk bounds; None when stopped."""
        run = self.run
        unplanned = [table for table in plan.tables if table.bounds is None]
        if not unplanned:
            return plan
        run.progress.phase = "planning chunks"
        sizes = read_sizes(run.connection, {table.name.schema for table in unplanned})
        walks: list[KeyWalk] = []
        planned: dict[TableName, DumpedTable] = {}
        for table in unplanned:
            size = sizes.get(table.name)
            dumper = run.subtask.dumper
            rows = rows_per_chunk(dumper.rows, dumper.chunk_filesize, 0 if size is None else size.average_row)
            estimate = 0 if size is None else size.rows
            planned[table.name] = replace(table, bounds=(), estimated_rows=estimate, chunk_rows=rows)
            key = None if table.keyless else walked_key(self.schema(table.name, table.structure))
            if key is not None:
                walks.append(KeyWalk(table.name, key, rows, estimate))

        def walked(results: tuple[WalkResult, ...]) -> None:
            for result in results:
                if result.bounds is None:
                    run.note_changed(result.table, result.words)
                    continue
                table = planned[result.table]
                if not result.counted:
                    planned[result.table] = replace(table, bounds=result.bounds)
                    continue
                known = len(result.bounds) * table.chunk_rows  # the walk has counted them
                estimate = known + min(table.chunk_rows, max(0, table.estimated_rows - known))
                planned[result.table] = replace(table, bounds=result.bounds, estimated_rows=estimate)

        if walks:
            groups = grouped((walk, planned[walk.table].weight) for walk in walks)
            if not self._walk(groups, walked):
                return None
        plan = plan.with_tables(*planned.values())
        save_plan(run.storage, plan)
        for table in planned.values():
            self.announce(plan, table)
        return plan

    def _walk(self, groups: Sequence[tuple[KeyWalk, ...]], walked: Callable[[tuple[WalkResult, ...]], None]) -> bool:
        """Walk the keys; False when stopped."""
        run = self.run
        walker = GroupWalker(run.endpoint, run.facts)
        if len(groups) == 1:
            results = walk_here(walker, groups[0], run.stop)
            if results is not None:
                walked(results)
            return results is not None
        threads, description = run.subtask.dumper.threads, f"{run.subtask.task}: plan chunks"
        context, waits = run.spark.context(), run.progress.waits
        return run_tasks(context, walker, groups, run.stop, walked, description, waits=waits, at_once=threads)

    def with_declined_in_files(self, plan: DumpPlan) -> DumpPlan:
        """The plan, with dump files for those streamed tables that the target declined."""
        run = self.run
        streamed = [table for table in plan.tables if table.form == STREAMED]
        if run.stream is None or not streamed:
            return plan
        taken = run.stream.prepare(plan, streamed)
        declined = [table for table in streamed if table.name not in taken]
        if declined:
            plan = plan.with_tables(*(replace(table, form=run.subtask.spark.dump_format) for table in declined))
            save_plan(run.storage, plan)
        run.progress.streamed = plan.streamed
        return plan

    def missing(self, plan: DumpPlan) -> list[ChunkTask]:
        """Every chunk that is not finished: it has no file, or the stream has not loaded it."""
        streamed = [table for table in plan.tables if table.form == STREAMED]
        destinations: Mapping[TableName, Destination] = {}
        if streamed and self.run.stream is not None:
            destinations = self.run.stream.prepare(plan, streamed)
        return [task for table in plan.tables for task in self._missing(plan, table, destinations.get(table.name))]

    def _missing(self, plan: DumpPlan, table: DumpedTable, destination: Destination | None) -> Sequence[ChunkTask]:
        schema = self.schema(table.name, table.structure)
        key = None if table.keyless else walked_key(schema)
        json_types = self._asks_json_types(schema)
        index = key.index if key and table.bounds else ""
        select = select_text(schema, index or None, json_types=json_types)
        columns = selected_columns(schema, json_types=json_types)
        written = tuple(column for column in schema.columns if column.name in columns)
        subtask = self.run.subtask
        zone, where, size = subtask.application_zone, subtask.dumper.where, subtask.dumper.statement_size
        flavor = self.run.facts.flavor
        stored = StoredValues.of(schema, flavor, plan.settings, zone=zone, index=index, where=where)
        form = SqlForm(table.name, written, size, naming_key(schema)) if table.form == "sql" else None
        return [
            ChunkTask(
                table=table.name,
                generation=table.generation,
                chunk=chunk,
                columns=columns,
                select=select,
                condition=condition,
                file=table.file_name(chunk),
                keyless=table.keyless,
                transactional=in_innodb(schema.engine),
                structure=table.structure if table.keyless else "",
                sql=form,
                destination=destination,
                stored=stored,
                plain=plain_rows(schema, index or None) if json_types and destination is None else None,
                weight=table.weight,
            )
            for chunk, condition in enumerate(conditions(key if table.bounds else None, table.bounds or ()))
            if self._finished(plan, table, chunk) is None
        ]

    def _asks_json_types(self, schema: TableSchema) -> bool:
        """Whether the types inside the table's JSON documents are read; MariaDB's documents are texts."""
        run = self.run
        documents = [column for column in schema.columns if column.type.is_document and column.generated is None]
        if not documents or run.facts.dialect.json_is_text or run.subtask.spark.json_types == "text":
            return False
        if not run.facts.dialect.tells_json_types:
            raise DMError("dump-json-types-unknown", table=schema.name, column=documents[0].name)
        return True

    def reader(self, plan: DumpPlan) -> ChunkReader:
        """What reads chunks of the plan."""
        run = self.run
        shared_marker(run.storage.work, plan.dump_id).touch()
        pace = handle_of(run.pace, run.spark.context())
        sink = None if run.stream is None else run.stream.sink(pace)
        return ChunkReader(run.endpoint, run.facts, run.storage, plan.dump_id, run.subtask.dumper.where, sink, pace)

    def hear_reports(self, chunks: Iterable[tuple[TableName, str]]) -> None:
        """Count what has been read of chunks that are not finished; any number may be waiting for a worker."""
        directory = self.run.storage.work
        present = {path.name for path in directory.glob(".*.progress.tmp")}
        read: dict[TableName, tuple[int, int]] = {}
        for table, file in chunks:
            if report_file(directory, file).name in present:
                (rows, size), (more_rows, more_size) = read.get(table, (0, 0)), read_report(directory, file)
                read[table] = (rows + more_rows, size + more_size)
        self.run.progress.under_way(read)

    def reported_whole(self, files: Iterable[str]) -> list[tuple[str, int, int]]:
        """Those whose writers have said their last word, with rows and bytes; they are in their place then."""
        work = self.run.storage.work
        present = {path.name for path in work.glob(".*.progress.tmp")}
        whole = [file for file in files if report_file(work, file).name in present and reported_checksum(work, file)]
        return [(file, *read_report(work, file)) for file in whole]

    def forget_report(self, file: str) -> None:
        """The chunk is done, or its table is not what it was."""
        work = self.run.storage.work
        sha256 = reported_checksum(work, file)
        if sha256 is not None:
            self.checksums[file] = sha256
        report_file(work, file).unlink(missing_ok=True)

    def with_points(self, plan: DumpPlan) -> DumpPlan:
        """Take the points of keyless tables from their files into the plan."""
        pointed = []
        for table in plan.tables:
            if table.form == STREAMED:
                continue
            footers = [finished_chunk(self.run.storage, plan, table, chunk) for chunk in range(table.chunks)]
            if any(footer is None for footer in footers):
                raise DMError("dump-file-damaged", file=table.file_name(0), why=f"a chunk of {table.name} is missing")
            if table.keyless and footers[0] is not None:
                pointed.append(replace(table, point=footers[0].point))
        return plan.with_tables(*pointed)
