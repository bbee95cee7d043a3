"""The dump of one source.

Problem: a database that keeps changing is copied by many readers at different moments, the copy must have a place in
the binlog, and the process may die anywhere.

Two ways: `lock_free` where a syncer follows, `one_moment` where nobody corrects the rows afterwards. Both leave chunk
files and a plan (`dm.dumpfiles.dump_files`); the dump is finished when the plan has a P1. Every run starts from the
stored plan and from which files exist, so a run after a SIGKILL is a run like any other. Another server behind the
same address (a failover), or a source that was reset, makes P0 meaningless: the dump starts from zero. Where that
happens during a run the run ends with it; behind its end the syncer finds it, by the birth of P0's file.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.dumper.dump_run import DumpRun
from dm.dumper.hidden_tables import demand_all_seen
from dm.dumper.lock_free import LockFreeDump
from dm.dumper.one_moment import OneMomentDump
from dm.dumper.progress import DumpProgress
from dm.dumper.readable import write_readable
from dm.dumper.stream import Stream
from dm.dumper.table_planner import TablePlanner
from dm.dumper.target_keys import TargetKeys
from dm.dumpfiles.dump_directory import foreign_file, remove_files
from dm.dumpfiles.dump_files import STREAMED, DumpPlan, load_plan, save_plan
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.relaylog.hold import Hold
from dm.rules import TableRules
from dm.spark.session import SparkProvider
from dm.unit import JSON, UnitName
from dm.upstream.facts import read_facts
from dm.upstream.row_session import question_session


class DumpUnit:
    """DM's Dump unit."""

    name: UnitName = "Dump"

    def __init__(
        self,
        subtask: SubtaskConfig,
        storage: DumpStorage,
        spark: SparkProvider,
        *,
        clock: Clock | None = None,
        hold: Hold | None = None,
        stream: Stream | None = None,
    ) -> None:
        self._subtask = subtask
        self._storage = storage
        self._spark = spark
        self._hold = hold
        self._stream = stream
        self._clock = clock or SystemClock()
        self._progress = DumpProgress(self._clock, streamed=stream is not None)

    def status(self) -> Mapping[str, JSON]:
        """DM's dump fields, and rows per second, remaining time and phase."""
        return self._progress.status()

    def run(self, stop: threading.Event) -> None:
        """Dump until every wanted table is in files, or until stopped."""
        rules = TableRules(self._subtask)
        keys = TargetKeys(self._subtask, rules)
        try:
            connection = question_session(self._subtask.source.endpoint)
            try:
                facts = read_facts(connection)
                run = DumpRun(
                    self._subtask,
                    self._storage,
                    self._spark,
                    rules,
                    keys,
                    self._progress,
                    connection,
                    facts,
                    stop,
                    self._hold,
                    self._stream,
                )
                self._run(run)
            finally:
                connection.close()
        except DMError as error:
            # Waiting for a lock, or for an earlier run's sessions at the target, ends with the stop; what it waited for
            # is asked for again by the next run.
            if not (stop.is_set() and error.name in ("dump-lock-refused", "load-busy")):
                raise
        finally:
            keys.close()

    def _run(self, run: DumpRun) -> None:
        planner = TablePlanner(run)
        with self._storage.writing():
            plan = self._stored(run)
        if plan is not None:
            run.keep_from(plan.p0)
        if plan is not None and plan.finished:
            self._finish(run, planner, plan)
            return
        demand_all_seen(run)
        if self._subtask.dump_of_one_moment:
            self._clear()
            complete = OneMomentDump(run, planner).carry_on()
        else:
            complete = LockFreeDump(run, planner).carry_on(plan)
        if complete is None:
            return
        demand_all_seen(run)  # a privilege that was taken away meanwhile looks like tables that were dropped
        if not complete.tables and not run.syncs:
            raise DMError("dump-without-tables")
        # Points of keyless tables are in their files; P1 was read after the last of them, so it covers them too.
        complete = planner.with_points(complete)
        with self._storage.writing():
            write_readable(self._storage, complete, self._clock.time(), planner.checksums)
        self._remove_left()
        save_plan(self._storage, complete)
        faults.hit("dumper.finished")
        self._finish(run, planner, complete)

    def _stored(self, run: DumpRun) -> DumpPlan | None:
        """The plan to go on with; None, and an empty directory, when the dump has to begin."""
        self._storage.prepare()
        plan = load_plan(self._storage)
        if plan is None:
            foreign = foreign_file(self._storage)
            if foreign is not None:  # DM would remove it
                why = f"{foreign}, which this task has not written"
                raise DMError("dump-directory-foreign", directory=self._storage, why=why)
            self._clear()
            return None
        if (plan.task, plan.source_id) != (self._subtask.task, self._subtask.source.source_id):
            why = f"it is the dump of source {plan.source_id} in task {plan.task}"
            raise DMError("dump-directory-foreign", directory=self._storage, why=why)
        # A snapshot is gone with its session, and a point means nothing on another server. Files of two forms in one
        # directory are no dump for other tools, and chunks of two conditions none at all.
        forms = {self._subtask.spark.dump_format, STREAMED if run.stream is not None else ""}
        other_rows = plan.where != self._subtask.dumper.where
        other_form = any(table.form not in forms for table in plan.tables)
        other_server = plan.server_uuid != run.facts.server_uuid
        other_history = not plan.finished and not other_server and run.reset_since(plan.birth) != ""
        if plan.finished and other_rows:
            why = f"it was dumped with {f'`where: {plan.where}`' if plan.where else 'no `where`'}"
            raise DMError("dump-directory-foreign", directory=self._storage, why=why)
        if not plan.finished and (plan.consistent or other_rows or other_form or other_server or other_history):
            self._clear()
            return None
        self._remove_left()
        return plan

    def _remove_left(self) -> None:
        """Remove what nobody needs any more; workers of a driver that was killed write for a moment longer."""
        self._storage.sweep()

    def _clear(self) -> None:
        remove_files(self._storage)
        self._storage.prepare()

    def _finish(self, run: DumpRun, planner: TablePlanner, plan: DumpPlan) -> None:
        if run.stream is not None and plan.streamed:
            run.stream.begin(plan, run.stop)
        for table in plan.tables:
            planner.announce(plan, table)
        self._progress.under_way({})
        self._progress.phase = "finished"
        self._progress.finished = True
