"""Consistency `flush` and `lock`: the dump of one moment, read by the slots of `snapshot_slots`.

Structures and chunk bounds are found out beforehand, so that the lock is short; bounds cut a table at any time, and a
structure that changed until the snapshots were open is found by comparing again, which starts the dump anew.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace

from dm import faults
from dm.dumper.chunk_reader import ChunkResult
from dm.dumper.dump_run import DumpRun
from dm.dumper.snapshot_slots import Meeting, SlotReader, SlotTask
from dm.dumper.structures import read_structures, same
from dm.dumper.table_planner import TablePlanner
from dm.dumpfiles.dump_directory import SLOTS_DIRECTORY
from dm.dumpfiles.dump_files import DumpedTable, DumpPlan
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.spark.job import run_tasks
from dm.upstream.connection import fetch
from dm.upstream.row_session import question_session
from dm.upstream.snapshot import lock_tables, upper_bound


@dataclass
class OneMomentDump:
    """One run of a consistent dump; always from the beginning, since snapshots end with their sessions."""

    run: DumpRun
    planner: TablePlanner

    def carry_on(self) -> DumpPlan | None:
        """Read everything; None when stopped."""
        run = self.run
        structures = read_structures(run.connection, run.rules.wanted)
        form = run.subtask.spark.dump_format
        tables = [DumpedTable(name, text, form=form) for name, text in structures.items() if text is not None]
        # The point is taken later; nothing is resumed from this one.
        plan = run.new_plan(upper_bound(run.connection, run.facts), tables)
        first = run.birth(plan.p0)
        planned = self.planner.walk(replace(plan, consistent=True))
        if planned is None:
            return None
        faults.hit("dumper.after_p0")
        point = self._read(planned)
        if point is None:
            return None
        _demand_unmoved(run.changed, run.words_about(run.changed))
        faults.hit("dumper.before_p1")
        birth = run.birth(point)
        run.demand_same_history(first)
        return replace(planned, p0=point, p1=point, birth=birth)

    def _compare(self, plan: DumpPlan) -> None:
        planned = {table.name: table.structure for table in plan.tables}
        now = read_structures(self.run.connection, self.run.rules.wanted, planned)
        _demand_unmoved({name for name, text in now.items() if not same(text, planned.get(name))})

    def _read(self, plan: DumpPlan) -> Position | None:
        """Read all chunks as of one point, and give the point; None when stopped."""
        run = self.run
        run.progress.phase = "reading rows"
        context = run.spark.context()
        directory = run.storage.work / SLOTS_DIRECTORY
        directory.mkdir()
        chunks = tuple(self.planner.missing(plan))
        slots = max(1, min(context.defaultParallelism, run.subtask.dumper.threads, len(chunks)))
        unsnapshotted = sorted({task.table for task in chunks if not task.transactional})
        keeper = question_session(run.endpoint, run.facts) if unsnapshotted else None

        def keep() -> None:
            if keeper is not None:
                lock_tables(keeper, unsnapshotted)

        meeting = Meeting(
            directory,
            slots,
            run.connection,
            run.facts,
            run.endpoint.user,
            run.syncs,
            tables=[table.name for table in plan.tables],
            lock_tables=run.subtask.dumper.consistency == "lock",
            keep=keep,
        )
        waiting = {task.file: task for task in chunks}

        def meanwhile() -> None:
            before = meeting.point
            if not meeting.step():
                return
            if before is None:
                self._compare(plan)
                run.progress.reading()
            for name, rows, size in self.planner.reported_whole(waiting):
                run.progress.chunk(waiting.pop(name).table, rows, size)
                self.planner.forget_report(name)
            self.planner.hear_reports((task.table, name) for name, task in waiting.items())

        def done(results: tuple[ChunkResult, ...]) -> None:
            for result in results:
                if result.changed:
                    run.note_changed(result.table, result.words)
            faults.hit("dumper.chunk_recorded")

        reader = SlotReader(self.planner.reader(plan), directory)
        tasks = [SlotTask(slot, chunks) for slot in range(slots)]
        description = f"{run.subtask.task}: read chunks of one snapshot"
        try:
            waits = run.progress.waits
            complete = run_tasks(context, reader, tasks, run.stop, done, description, meanwhile, waits=waits)
            if keeper is not None:
                fetch(keeper, "SELECT 1")  # raises where the session, and its locks, ended while rows were read
        finally:
            if keeper is not None:
                keeper.close()
        shutil.rmtree(directory)
        return meeting.point if complete else None


def _demand_unmoved(moved: Iterable[TableName], words: str = "") -> None:
    """Snapshots of tables that are not what was planned are of no use; everything starts anew."""
    tables = ", ".join(map(str, sorted(moved)))
    if tables:
        raise DMError("dump-table-unstable", table=tables, rounds=1, cause=words)
