"""The dump of one source.

Problem: a database that keeps changing is copied by many readers at different moments, the copy must have a place in
the binlog, and the process may die anywhere.

Two ways: `lock_free` where a syncer follows, `one_moment` where nobody corrects the rows afterwards. Both leave chunk
files and a plan (`dm.dumpfiles.dump_files`); the dump is finished when the plan has a P1. Every run starts from the
stored plan and from which files exist, so a run after a SIGKILL is a run like any other. Another server after the
same address (a failover), or a source that was reset, makes P0 meaningless: the dump starts from zero. Where that
happens during a run the run ends with it; after its end the syncer finds it, by the birth of P0's file.

The files of a dump that people and other tools read: `metadata`, the schema files and the manifest.

`metadata` has the lines that DM reads of dumpling's (dm/pkg/dumpling/utils.go there): a status ends at an empty line,
lines that are not known are passed over. So what we add stands between the second status and the end: the own point of
each table that was not read as of the first one.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Self

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.dumper.chunk_file import Stream
from dm.dumper.dump_run import DumpProgress, DumpRun
from dm.dumper.hidden_tables import demand_all_seen
from dm.dumper.lock_free import LockFreeDump
from dm.dumper.one_moment import OneMomentDump
from dm.dumper.planned_tables import TablePlanner
from dm.dumper.structures import TargetKeys
from dm.dumpfiles.dump_files import (
    MANIFEST_FILE,
    METADATA_FILE,
    PLAN_FILE,
    STREAMED,
    DumpPlan,
    file_stem,
    finished_chunk,
    foreign_file,
    load_plan,
    remove_files,
    save_plan,
)
from dm.dumpfiles.literals import SCHEMA_HEADER
from dm.dumpfiles.manifest import ListedFile, manifest_text, sha256_of
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect import dialect, flavor_named
from dm.pace.handle import BulkPace, paced
from dm.position import Position
from dm.rules import TableRules
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.upstream.facts import question_session, read_facts
from dm.spark.session import SparkProvider
from dm.text import is_decimal
from dm.unit import JSON, UnitName


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
        self._pace: BulkPace | None = None
        self._begin_anew: Callable[[threading.Event], None] = lambda _: None
        self._clock = clock or SystemClock()
        self._progress = DumpProgress(self._clock, streamed=stream is not None)

    def keep_pace(self, pace: BulkPace) -> Self:
        """Be as fast as this allows."""
        self._pace = pace
        return self

    def when_anew(self, give_up: Callable[[threading.Event], None]) -> Self:
        """Before a dump begins, have this take back what an earlier one has at the target."""
        self._begin_anew = give_up
        return self

    def status(self) -> Mapping[str, JSON]:
        """DM's dump fields, and rows per second, remaining time and phase."""
        return {**self._progress.status(), **({} if self._pace is None else self._pace.status())}

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
                    self._pace,
                )
                with paced(self._pace):
                    self._run(run)
            finally:
                connection.close()
        except DMError as error:
            # Waiting for a lock, or for an earlier run's sessions at the target, ends with the stop; what it waited for
            # is asked for again by the next run.
            if not (stop.is_set() and error.name in ("dump-lock-refused", "load-busy")):
                fenced = None if self._stream is None else self._stream.ended_by_newer(error, stop)
                raise fenced or error from error.__cause__
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
        if plan is None or self._subtask.dump_of_one_moment:
            self._begin_anew(run.stop)
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


def _place(position: Position) -> str:
    return f"\tLog: {position.file}\n\tPos: {position.offset}\n\tGTID:{position.gtid_set}\n\n"


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def metadata_text(plan: DumpPlan, finished: float) -> str:
    """Dumpling's metadata: P0 as the status, P1 as the status after all connections were made (consistency none)."""
    title = (
        "SHOW BINARY LOG STATUS:"
        if dialect(flavor_named(plan.flavor), plan.version).says_binary_log_status
        else "SHOW MASTER STATUS:"
    )
    text = f"Started dump at: {_time(plan.started)}\n{title}\n{_place(plan.p0)}"
    if plan.p1 is not None:
        text += f"{title} /* AFTER CONNECTION POOL ESTABLISHED */\n{_place(plan.p1)}"
    for table in plan.tables:
        if table.point is not None:
            text += f"TABLE {json.dumps(table.name.sql)}:\n{_place(table.point)}"
    return f"{text}Finished dump at: {_time(finished)}\n"


def write_readable(storage: DumpStorage, plan: DumpPlan, finished: float, checksums: Mapping[str, str]) -> None:
    """Write them all; `checksums` has those of chunk files that are known already."""
    texts = {METADATA_FILE: metadata_text(plan, finished)}
    for schema, (charset, collation) in plan.schemas.items():
        create = f"CREATE DATABASE {Ident(schema).sql} DEFAULT CHARACTER SET {charset} COLLATE {collation};\n"
        texts[f"{file_stem(TableName(schema, ''))}-schema-create.sql"] = SCHEMA_HEADER + create
    for table in plan.tables:
        texts[f"{file_stem(table.name)}-schema.sql"] = f"{SCHEMA_HEADER}{table.structure};\n"
    contents = {name: text.encode() for name, text in texts.items()}
    files = [ListedFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()]
    chunks = _chunk_files(storage, plan, checksums)
    _remove_leftovers(storage, {chunk.name for chunk in chunks})
    manifest = manifest_text(plan.dump_id, [*files, *chunks])
    storage.store(contents | {MANIFEST_FILE: manifest.encode()})


def _chunk_files(storage: DumpStorage, plan: DumpPlan, checksums: Mapping[str, str]) -> list[ListedFile]:
    found = []
    for table in plan.tables:
        for chunk in range(0 if table.form == STREAMED else table.chunks):
            name = table.file_name(chunk)
            footer = finished_chunk(storage, plan, table, chunk)
            if footer is None:
                raise DMError("dump-file-damaged", file=storage.shown(name), why="it is missing or of another dump")
            # An earlier run of the dump has told the checksums of its files to nobody.
            checksum = checksums.get(name) or sha256_of(storage, name)
            found.append(ListedFile(name, storage.size(name), checksum, table.name, footer.rows))
    return found


def _remove_leftovers(storage: DumpStorage, chunks: set[str]) -> None:
    """Other tools take every SQL file for a part of the dump: what an earlier round has left must go."""
    names = storage.names()
    if PLAN_FILE not in names:
        return
    numbers = {name: name.removesuffix(".sql").rpartition(".")[2] for name in names if name.endswith(".sql")}
    storage.remove(
        name for name, number in numbers.items() if name not in chunks and is_decimal(number) and len(number) >= 9
    )
