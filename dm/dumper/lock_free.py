"""Consistency `none`: chunks are read at any moment between P0 and P1, and the syncer brings them to one.

Invariant: P0 is at or before everything any chunk saw, P1 at or after it; the syncer replays from P0 and works in safe
mode up to P1, which brings every keyed row to its state at P1. Three kinds of tables need more than that:

- *keyless* ones (replaying twice would double rows): one chunk, read from one snapshot at an exact point;
- tables whose structure changed between P0 and the end: they are read again, from a later point of their own, until a
  round ends with everything as it was when it began (what one that goes without files has at the target is taken back
  first, or is an error where that can't be done);
- tables that vanished: a point after their end, so that the syncer does not apply their last changes to nothing;
  also those that were there at a point and gone before they could enter the plan.

Rounds: plan what has no bounds yet (Spark walks the keys), read what has no file yet (Spark reads the chunks), compare
all structures with the plan. When nothing moved, P1 is taken. What enters in a later round has files of a later
generation, so nothing of an earlier round is ever taken for it, also where a name was given up and used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from dm import faults
from dm.dumper.chunk_group import GroupReader
from dm.dumper.chunk_reader import ChunkResult
from dm.dumper.dump_run import DumpRun
from dm.dumper.planned_tables import TablePlanner
from dm.dumper.structures import read_schemas, read_structures, same, structures_at_a_point
from dm.dumpfiles.dump_files import STREAMED, DumpedTable, DumpPlan, save_plan
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.sourcelog.upstream.facts import question_session
from dm.sourcelog.upstream.snapshot import lower_bound, upper_bound, wait_for_no_prepared_xa
from dm.spark.job import grouped, run_tasks

_ROUNDS = 10


@dataclass
class LockFreeDump:
    """One run of a dump without locks."""

    run: DumpRun
    planner: TablePlanner

    def carry_on(self, plan: DumpPlan | None) -> DumpPlan | None:
        """Read what is missing, from the beginning where there is no plan; None when stopped."""
        plan = plan or self._begin()
        if plan is None:
            return None
        if self.run.stream is not None:
            self.run.stream.begin(plan, self.run.stop)
        for table in plan.tables:
            self.planner.announce(plan, table)
        for _ in range(_ROUNDS):
            walked = self.planner.walk(plan)
            planned = None if walked is None else self._read_as(walked)
            if planned is None:
                return None
            plan, moved = self._compare(planned)
            if self.run.stop.is_set():
                return None
            if not moved:
                break
        else:
            tables = ", ".join(map(str, sorted(moved)))
            raise DMError("dump-table-unstable", table=tables, rounds=_ROUNDS, cause=self.run.words_about(moved))
        faults.hit("dumper.before_p1")
        plan = replace(plan, p1=upper_bound(self.run.connection, self.run.facts))
        self.run.demand_same_history(plan.birth)
        return plan

    def _begin(self) -> DumpPlan | None:
        run = self.run
        run.progress.phase = "taking the start point"
        first = run.birth(upper_bound(run.connection, run.facts))
        found = structures_at_a_point(run.connection, run.rules.wanted, self._point)
        if run.stop.is_set():
            return None
        tables = [
            self.planner.table(name, structure, None)
            for name, structure in found.structures.items()
            if structure is not None
        ]
        # What was moving around P0 is looked at by the comparison at the end of the first round.
        plan = replace(
            run.new_plan(found.point, tables),
            unsettled=tuple(sorted(found.moving)),
            birth=run.birth(found.point),
        )
        run.demand_same_history(first)
        save_plan(run.storage, plan)
        faults.hit("dumper.after_p0")
        return plan

    def _point(self) -> Position:
        run = self.run
        point = lower_bound(partial(question_session, run.endpoint, run.facts), run.facts, run.stop)
        wait_for_no_prepared_xa(run.connection, run.endpoint.user, run.stop)
        return point

    def _read_as(self, plan: DumpPlan) -> DumpPlan | None:
        """Read what is missing, and give the plan as it was read; None when stopped.

        Rows that the target refuses may be those of a table that has changed. Then the round is over.
        """
        try:
            plan = self.planner.with_declined_in_files(plan)
            return plan if self._read(plan) else None
        except DMError as error:
            if self.run.stream is None or error.retryable:
                raise
            planned = {table.name: table for table in plan.tables}
            now = read_structures(self.run.connection, self.run.rules.wanted, planned)
            moved = {name for name, table in planned.items() if not same(now[name], table.structure)}
            streamed = self._demand_revocable(moved, planned, error.cause)
            if not streamed:
                raise
            for name in streamed:
                self.run.note_changed(name, error.cause)
            return plan

    def _read(self, plan: DumpPlan) -> bool:
        """Read every chunk that has no file; False when stopped."""
        run = self.run
        run.progress.phase = "reading rows"
        tasks = self.planner.missing(plan)
        if not tasks:
            return not run.stop.is_set()
        # A keyless table is one task however large it is: such tasks begin first.
        tasks.sort(key=lambda task: not task.keyless)
        waiting = {(task.table, task.chunk): task.file for task in tasks}

        def hear() -> None:
            self.planner.hear_reports((table, file) for (table, _), file in waiting.items())

        def done(results: tuple[ChunkResult, ...]) -> None:
            for result in results:
                self.planner.forget_report(waiting.pop((result.table, result.chunk)))
                if result.changed:
                    run.note_changed(result.table, result.words)
                    continue
                run.progress.chunk(result.table, result.rows, result.size)
                if run.stream is not None:
                    run.stream.wrote(result.table, result.generation, result.chunk, result.rows, result.size)
            hear()
            faults.hit("dumper.chunk_recorded")

        context, reader = run.spark.context(), GroupReader(self.planner.reader(plan))
        groups = grouped((task, task.weight) for task in tasks)
        run.progress.reading()
        description, at_once = f"{run.subtask.task}: read chunks", run.subtask.dumper.threads
        if run.stream is not None and plan.streamed:
            at_once = min(at_once, run.stream.writers)
        waits = run.progress.waits
        return run_tasks(context, reader, groups, run.stop, done, description, hear, waits=waits, at_once=at_once)

    def _compare(self, plan: DumpPlan) -> tuple[DumpPlan, set[TableName]]:
        """The plan after a round, and the tables that were not what it said."""
        run = self.run
        run.progress.phase = "comparing structures"
        planned = {table.name: table for table in plan.tables}
        known = {*planned, *plan.unsettled}
        now = read_structures(run.connection, run.rules.wanted, known)
        doubtful = run.changed | set(plan.unsettled)
        moved = {
            name
            for name, structure in now.items()
            if name in doubtful or not same(structure, planned[name].structure if name in planned else None)
        }
        if not moved:
            return plan, moved
        plan = self._take_back(plan, self._demand_revocable(moved, planned))
        planned = {table.name: table for table in plan.tables}
        found = structures_at_a_point(run.connection, run.rules.wanted, self._point, known)
        entries: list[DumpedTable] = []
        vanished = dict(plan.vanished)
        new = found.structures.keys() - known  # some came since the structures were read
        for name in sorted((moved | new) & found.structures.keys()):  # who still moves is found by the next round
            structure = found.structures[name]
            run.changed.discard(name)
            if structure is not None:
                vanished.pop(name, None)
                entries.append(self.planner.table(name, structure, found.point, plan.rounds + 1))
            elif name in known:
                vanished[name] = found.point
                run.progress.forget(name)
        plan = replace(
            plan,
            rounds=plan.rounds + 1,
            unsettled=tuple(sorted(found.moving - planned.keys())),
            tables=tuple(table for table in plan.tables if table.name not in vanished),
            vanished=vanished,
            schemas={**plan.schemas, **read_schemas(run.connection, {table.name.schema for table in entries})},
        ).with_tables(*entries)
        save_plan(run.storage, plan)
        gone = planned.keys() & (vanished.keys() | {entry.name for entry in entries})
        run.storage.remove(planned[name].file_name(chunk) for name in gone for chunk in range(planned[name].chunks))
        for entry in entries:
            self.planner.announce(plan, entry)
        return plan, moved

    def _demand_revocable(
        self, moved: set[TableName], planned: Mapping[TableName, DumpedTable], cause: str = ""
    ) -> set[TableName]:
        """Those of the moved tables that go without files; raises DMError where one can't be taken back.

        Other sources may have rows in the same table of the target, or it was there before.
        """
        streamed = {name for name in moved & planned.keys() if planned[name].form == STREAMED}
        stream = self.run.stream
        lasting = sorted(name for name in streamed if stream is None or not stream.revocable(planned[name]))
        if lasting:
            raise DMError("dump-streamed-table-changed", table=", ".join(map(str, lasting)), cause=cause)
        return streamed

    def _take_back(self, plan: DumpPlan, names: set[TableName]) -> DumpPlan:
        """The plan without these tables, of which nothing is at the target any more; they enter it anew."""
        if not names or self.run.stream is None:
            return plan
        left = tuple(table for table in plan.tables if table.name not in names)
        plan = replace(plan, tables=left, unsettled=tuple(sorted({*plan.unsettled, *names})))
        save_plan(self.run.storage, plan)
        faults.hit("dumper.tables_given_up")
        self.run.stream.begin(plan, self.run.stop)
        return plan
