"""The dump of one source: from P0 to P1, chunk by chunk, without locks that anybody feels.

Problem: a database that keeps changing is copied by many readers at different moments, the copy has no one moment, and
the process may die anywhere.

Invariant: P0 is at or before everything any chunk saw, P1 at or behind it; the syncer replays from P0 and works in
safe mode up to P1, which brings every keyed row to its state at P1. Three kinds of tables need more than that:

- *keyless* ones (replaying twice would double rows): one chunk, read from one snapshot at an exact point;
- tables whose structure changed between P0 and the end: they are read again, from a later point of their own, until a
  round ends with everything as it was when it began;
- tables that vanished: a point behind their end, so that the syncer does not apply their last changes to nothing.

Rounds: plan what has no bounds yet (Spark walks the keys), read what has no file yet (Spark reads the chunks),
compare all structures with the plan; when nothing moved, P1 is taken and the dump is finished. Every round starts
from `dump.json` and from which files exist, so a run after a SIGKILL is a run like any other. Another server behind
the same address (a failover) makes P0 meaningless: the dump starts from zero."""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.dumper.chunk_reader import (
    ChunkReader,
    ChunkResult,
    ChunkTask,
    KeyWalk,
    KeyWalker,
    WalkResult,
    question_session,
    select_text,
    selected_columns,
)
from dm.dumper.progress import DumpProgress
from dm.dumper.readable import write_readable
from dm.dumper.snapshot_slots import Meeting, SlotReader, SlotTask
from dm.dumper.structures import read_schemas, read_sizes, read_structures, same, settle
from dm.dumper.target_keys import TargetKeys
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.schema.parse import parse_create_table
from dm.schema.table import TableSchema
from dm.spark.chunk_plan import conditions, rows_per_chunk, walked_key
from dm.spark.dump_files import (
    SLOTS_DIRECTORY,
    DumpedTable,
    DumpPlan,
    finished_chunk,
    load_plan,
    read_footer,
    remove_files,
    save_plan,
)
from dm.spark.job import run_tasks
from dm.spark.session import SparkProvider
from dm.sql.context import SourceContext
from dm.unit import JSON, UnitName
from dm.upstream.connection import Connection
from dm.upstream.facts import ServerFacts, read_facts
from dm.upstream.snapshot import lower_bound, upper_bound, wait_for_no_prepared_xa

_ROUNDS = 10


class DumpUnit:
    """DM's Dump unit."""

    name: UnitName = "Dump"

    def __init__(
        self, subtask: SubtaskConfig, directory: Path, spark: SparkProvider, *, clock: Clock | None = None
    ) -> None:
        self._subtask = subtask
        self._directory = directory
        self._spark = spark
        self._rules = TableRules(subtask)
        self._keys = TargetKeys(subtask, self._rules)
        self._endpoint = subtask.source.endpoint
        self._progress = DumpProgress(clock or SystemClock())
        self._changed: set[TableName] = set()
        self._schemas: dict[tuple[TableName, str], TableSchema] = {}

    def status(self) -> Mapping[str, JSON]:
        """DM's dump fields."""
        return self._progress.status()

    def run(self, stop: threading.Event) -> None:
        """Dump until every wanted table is in files, or until stopped."""
        consistency = self._subtask.dumper.consistency
        if consistency == "lock":
            raise DMError("dump-consistency-unsupported", consistency=consistency)
        connection = question_session(self._endpoint)
        try:
            if self._wants_consistency(consistency):
                self._run_consistent(connection, stop)
            else:
                self._run(connection, stop)
        finally:
            connection.close()
            self._keys.close()

    @property
    def _syncs(self) -> bool:
        return self._subtask.mode in ("all", "load&sync")

    def _wants_consistency(self, consistency: str) -> bool:
        """Whether all rows must be of one moment: nobody corrects them later, or a duplicate would be an error."""
        if consistency == "auto":
            return not self._syncs or self._subtask.loader.on_duplicate_logical == "error"
        return consistency == "flush"

    def _run_consistent(self, connection: Connection, stop: threading.Event) -> None:
        facts = read_facts(connection)
        plan = self._resume(facts)
        if plan is not None and plan.finished:
            self._finish(plan)
            return
        remove_files(self._directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._progress.phase = "planning chunks"
        structures = read_structures(connection, self._rules.wanted)
        tables = [DumpedTable(name, text) for name, text in structures.items() if text is not None]
        # The point is taken later; nothing is resumed from this one.
        plan = self._new_plan(connection, facts, upper_bound(connection, facts), tables)
        plan = self._walk(connection, replace(plan, consistent=True), stop)
        if plan is None:
            return
        faults.hit("dumper.after_p0")
        planned = {table.name: table.structure for table in plan.tables}

        def opened() -> None:
            now = read_structures(connection, self._rules.wanted, planned)
            self._demand_unmoved({name for name, text in now.items() if not same(text, planned.get(name))})

        point = self._read_snapshots(connection, plan, facts, stop, opened)
        if point is None:
            return
        self._demand_unmoved(self._changed)
        faults.hit("dumper.before_p1")
        self._conclude(replace(plan, p0=point, p1=point))

    def _demand_unmoved(self, moved: Iterable[TableName]) -> None:
        """Snapshots of tables that are not what was planned are of no use; everything starts anew."""
        if moved:
            raise DMError("dump-table-unstable", table=", ".join(map(str, sorted(moved))), rounds=1)

    def _read_snapshots(
        self,
        connection: Connection,
        plan: DumpPlan,
        facts: ServerFacts,
        stop: threading.Event,
        opened: Callable[[], None],
    ) -> Position | None:
        """Read all chunks as of one point, and give the point; None when stopped."""
        self._progress.phase = "reading rows"
        context = self._spark.context()
        directory = self._directory / SLOTS_DIRECTORY
        directory.mkdir()
        chunks = tuple(task for table in plan.tables for task in self._missing(plan, table))
        slots = max(1, min(context.defaultParallelism, self._subtask.dumper.threads, len(chunks)))
        meeting = Meeting(directory, slots, connection, facts, self._endpoint.user, self._syncs)
        waiting = {task.file: task for task in chunks}

        def meanwhile() -> None:
            before = meeting.point
            if not meeting.step():
                return
            if before is None:
                opened()
                self._progress.reading()
            for name in [name for name in waiting if (self._directory / name).exists()]:
                task = waiting.pop(name)
                footer = read_footer(self._directory / name)
                if footer is not None:
                    self._progress.chunk(task.table, footer.rows, footer.size)

        def done(results: tuple[ChunkResult, ...]) -> None:
            self._changed.update(result.table for result in results if result.changed)
            faults.hit("dumper.chunk_recorded")

        reader = ChunkReader(self._endpoint, facts, self._directory, plan.dump_id, self._subtask.dumper.where)
        slot_tasks = [SlotTask(slot, chunks) for slot in range(slots)]
        description = f"{self._subtask.task}: read chunks of one snapshot"
        complete = run_tasks(context, SlotReader(reader, directory), slot_tasks, stop, done, description, meanwhile)
        shutil.rmtree(directory)
        return meeting.point if complete else None

    def _run(self, connection: Connection, stop: threading.Event) -> None:
        facts = read_facts(connection)
        plan = self._resume(facts)
        if plan is None:
            plan = self._begin(connection, facts, stop)
            if plan is None:
                return
        if plan.finished:
            self._finish(plan)
            return
        for table in plan.tables:
            self._announce(plan, table)
        for _ in range(_ROUNDS):
            planned = self._walk(connection, plan, stop)
            if planned is None or not self._read(planned, facts, stop):
                return
            plan, moved = self._compare(connection, facts, planned, stop)
            if stop.is_set():
                return
            if not moved:
                break
        else:
            raise DMError("dump-table-unstable", table=", ".join(map(str, sorted(moved))), rounds=_ROUNDS)
        faults.hit("dumper.before_p1")
        self._conclude(replace(plan, p1=upper_bound(connection, facts)))

    def _conclude(self, plan: DumpPlan) -> None:
        # Points of keyless tables are in their files; P1 was read after the last of them, so it covers them too.
        finished = self._with_points(plan)
        save_plan(self._directory, finished)
        write_readable(self._directory, finished)
        faults.hit("dumper.finished")
        self._finish(finished)

    def _resume(self, facts: ServerFacts) -> DumpPlan | None:
        self._directory.mkdir(parents=True, exist_ok=True)
        plan = load_plan(self._directory)
        if plan is None:
            remove_files(self._directory)
            self._directory.mkdir(parents=True, exist_ok=True)
            return None
        if (plan.task, plan.source_id) != (self._subtask.task, self._subtask.source.source_id):
            why = f"it is the dump of source {plan.source_id} in task {plan.task}"
            raise DMError("dump-directory-foreign", directory=self._directory, why=why)
        # A snapshot is gone with its session.
        if not plan.finished and (plan.consistent or plan.server_uuid != facts.server_uuid):
            remove_files(self._directory)
            self._directory.mkdir(parents=True, exist_ok=True)
            return None
        for left in self._directory.glob("*.tmp"):  # of a run that is gone
            left.unlink(missing_ok=True)
        return plan

    def _begin(self, connection: Connection, facts: ServerFacts, stop: threading.Event) -> DumpPlan | None:
        self._progress.phase = "taking the start point"
        settled = settle(connection, self._rules.wanted, partial(self._point, connection, facts, stop))
        if stop.is_set():
            return None
        tables = [
            self._table(facts, name, structure, None)
            for name, structure in settled.structures.items()
            if structure is not None
        ]
        # What was moving around P0 is found by the comparison at the end of the first round.
        plan = self._new_plan(connection, facts, settled.point, tables)
        save_plan(self._directory, plan)
        faults.hit("dumper.after_p0")
        return plan

    def _new_plan(
        self, connection: Connection, facts: ServerFacts, point: Position, tables: Sequence[DumpedTable]
    ) -> DumpPlan:
        return DumpPlan(
            dump_id=uuid.uuid4().hex,
            task=self._subtask.task,
            source_id=self._subtask.source.source_id,
            flavor=facts.flavor,
            version=facts.version,
            server_uuid=facts.server_uuid,
            p0=point,
            tables=tuple(tables),
            schemas=read_schemas(connection, {table.name.schema for table in tables}),
        )

    def _point(self, connection: Connection, facts: ServerFacts, stop: threading.Event) -> Position:
        point = lower_bound(partial(question_session, self._endpoint), facts, stop)
        wait_for_no_prepared_xa(connection, self._endpoint.user, stop)
        return point

    def _table(self, facts: ServerFacts, name: TableName, structure: str, point: Position | None) -> DumpedTable:
        schema = self._parsed(facts.flavor, facts.version, name, structure)
        keyless = self._keys.keyless(schema, "mariadb" if facts.flavor == "mariadb" else "mysql")
        return DumpedTable(name, structure, keyless=keyless, point=None if keyless else point)

    def _parsed(self, flavor: str, version: int, name: TableName, structure: str) -> TableSchema:
        key = (name, structure)
        if key not in self._schemas:
            context = SourceContext("mariadb" if flavor == "mariadb" else "mysql", version, name.schema)
            self._schemas[key] = parse_create_table(structure, context)
        return self._schemas[key]

    def _schema(self, plan: DumpPlan, table: DumpedTable) -> TableSchema:
        return self._parsed(plan.flavor, plan.version, table.name, table.structure)

    def _announce(self, plan: DumpPlan, table: DumpedTable) -> None:
        self._progress.plan(table.name, table.chunks, table.estimated_rows)
        if table.bounds is None:
            return
        for chunk in range(table.chunks):
            footer = finished_chunk(self._directory, plan, table, chunk)
            if footer is not None:
                self._progress.chunk(table.name, footer.rows, footer.size)

    def _walk(self, connection: Connection, plan: DumpPlan, stop: threading.Event) -> DumpPlan | None:
        """Give every table its chunk bounds; None when stopped."""
        unplanned = [table for table in plan.tables if table.bounds is None]
        if not unplanned:
            return plan
        self._progress.phase = "planning chunks"
        sizes = read_sizes(connection)
        walks: list[KeyWalk] = []
        planned: dict[TableName, DumpedTable] = {}
        for table in unplanned:
            size = sizes.get(table.name)
            dumper = self._subtask.dumper
            rows = rows_per_chunk(dumper.rows, dumper.chunk_filesize, 0 if size is None else size.average_row)
            estimate = 0 if size is None else size.rows
            planned[table.name] = replace(table, bounds=(), estimated_rows=estimate, chunk_rows=rows)
            key = None if table.keyless else walked_key(self._schema(plan, table))
            if key is not None:
                walks.append(KeyWalk(table.name, key, rows))

        def walked(result: WalkResult) -> None:
            if result.bounds is None:
                self._changed.add(result.table)
                return
            table = planned[result.table]
            known = len(result.bounds) * table.chunk_rows  # the walk has counted them
            estimate = known + min(table.chunk_rows, max(0, table.estimated_rows - known))
            planned[result.table] = replace(table, bounds=result.bounds, estimated_rows=estimate)

        context = self._spark.context()
        walker = KeyWalker(self._endpoint)
        if walks and not run_tasks(context, walker, walks, stop, walked, f"{self._subtask.task}: plan chunks"):
            return None
        plan = plan.with_tables(*planned.values())
        save_plan(self._directory, plan)
        for table in planned.values():
            self._announce(plan, table)
        return plan

    def _read(self, plan: DumpPlan, facts: ServerFacts, stop: threading.Event) -> bool:
        """Read every chunk that has no file; False when stopped."""
        self._progress.phase = "reading rows"
        tasks = [task for table in plan.tables for task in self._missing(plan, table)]
        if not tasks:
            return not stop.is_set()
        # A keyless table is one task however large it is: such tasks begin first.
        tasks.sort(key=lambda task: not task.keyless)
        reader = ChunkReader(self._endpoint, facts, self._directory, plan.dump_id, self._subtask.dumper.where)

        def done(result: ChunkResult) -> None:
            if result.changed:
                self._changed.add(result.table)
                return
            self._progress.chunk(result.table, result.rows, result.size)
            faults.hit("dumper.chunk_recorded")

        context = self._spark.context()
        self._progress.reading()
        return run_tasks(context, reader, tasks, stop, done, f"{self._subtask.task}: read chunks")

    def _missing(self, plan: DumpPlan, table: DumpedTable) -> Sequence[ChunkTask]:
        schema = self._schema(plan, table)
        key = None if table.keyless else walked_key(schema)
        select = select_text(schema, key.index if key and table.bounds else None)
        columns = selected_columns(schema)
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
                transactional=(schema.engine or "InnoDB").lower() == "innodb",
                structure=table.structure if table.keyless else "",
            )
            for chunk, condition in enumerate(conditions(key if table.bounds else None, table.bounds or ()))
            if finished_chunk(self._directory, plan, table, chunk) is None
        ]

    def _compare(
        self, connection: Connection, facts: ServerFacts, plan: DumpPlan, stop: threading.Event
    ) -> tuple[DumpPlan, set[TableName]]:
        """The plan after a round, and the tables that have to be read (again)."""
        self._progress.phase = "comparing structures"
        planned = {table.name: table for table in plan.tables}
        now = read_structures(connection, self._rules.wanted, planned)
        moved = {
            name
            for name, structure in now.items()
            if name in self._changed or not same(structure, planned[name].structure if name in planned else None)
        }
        moved -= {name for name in moved if name in plan.vanished and now[name] is None}
        if not moved:
            return plan, moved
        settled = settle(connection, self._rules.wanted, partial(self._point, connection, facts, stop), planned)
        entries: list[DumpedTable] = []
        vanished = dict(plan.vanished)
        for name in sorted(moved):
            if name not in settled.structures:
                continue  # still moving; the next round finds it again
            structure = settled.structures[name]
            self._changed.discard(name)
            if structure is None:
                if name in planned:
                    vanished[name] = settled.point
                    self._progress.forget(name)
                continue
            vanished.pop(name, None)
            entry = self._table(facts, name, structure, settled.point)
            if name in planned:
                entry = replace(entry, generation=planned[name].generation + 1)
            entries.append(entry)
        kept = tuple(table for table in plan.tables if table.name not in vanished)
        plan = replace(plan, tables=kept, vanished=vanished).with_tables(*entries)
        schemas = {**plan.schemas, **read_schemas(connection, {table.name.schema for table in entries})}
        plan = replace(plan, schemas=schemas)
        save_plan(self._directory, plan)
        for entry in entries:
            self._announce(plan, entry)
        return plan, moved

    def _with_points(self, plan: DumpPlan) -> DumpPlan:
        """Take the points of keyless tables from their files into the plan."""
        pointed = []
        for table in plan.tables:
            footers = [finished_chunk(self._directory, plan, table, chunk) for chunk in range(table.chunks)]
            if any(footer is None for footer in footers):
                raise DMError("dump-file-damaged", file=table.file_name(0), why=f"a chunk of {table.name} is missing")
            if table.keyless and footers[0] is not None:
                pointed.append(replace(table, point=footers[0].point))
        return plan.with_tables(*pointed)

    def _finish(self, plan: DumpPlan) -> None:
        for table in plan.tables:
            self._announce(plan, table)
        self._progress.phase = "finished"
        self._progress.finished = True
