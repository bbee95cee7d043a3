"""Consistency `flush` and `lock`: the dump of one moment, read by the slots of `snapshot_slots`.

Problem: rows that nobody will correct afterwards (a task without a syncer, or a load in which a duplicate is an error)
must all be of one moment. A snapshot lives in a connection, and connections live in different worker processes.

So there is one Spark task per slot and not per chunk. Each opens a session and reports; when all have, the driver
takes FLUSH TABLES WITH READ LOCK, which waits for commits that are under way and keeps new ones out; every slot opens
its snapshot and reports; the driver reads the binlog's end, which is exact now, and unlocks. The lock lasts for some
tens of milliseconds, since everything slow has been done before: structures and chunk bounds are found out. Bounds cut
a table at any time; a structure that changed until the snapshots were open is found by comparing again, which starts
the dump anew. Then the slots share the chunks, first come first served.

`lock`, and `flush` where the user lacks RELOAD (as dumpling does it), lock the dumped tables instead of the server:
LOCK TABLES .. READ waits for every transaction that has touched one of them, engine commit included, so the binlog end
is as exact for their changes. Tables of engines without transactions have no snapshots; a session of the driver keeps
them locked until everything is read.

A slot whose Spark task has not started can't report: a cluster may have fewer free cores than Spark says. So the driver
waits some seconds after the first report. It uses the slots that have reported by then. A later slot reads nothing.

They meet through empty files in a directory beside the chunk files, which all of them reach anyway. A claim of a
chunk is a file that only one process can create. When the driver dies the snapshots are gone: such a dump can't be
resumed. Nor can a slot: when Spark tries a lost one again, the moment is over, and the dump begins anew.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dm import faults
from dm.dumper.chunk_reader import ChunkReader, ChunkResult, ChunkTask, is_changed
from dm.dumper.dump_run import DumpRun
from dm.dumper.planned_tables import TablePlanner
from dm.dumper.structures import read_structures, same
from dm.dumpfiles.dump_files import SLOTS_DIRECTORY, DumpedTable, DumpPlan
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import ServerFacts, question_session, row_session
from dm.sourcelog.upstream.snapshot import (
    LOCK_SECONDS,
    lock_tables,
    locked_end,
    tables_locked_end,
    upper_bound,
    wait_for_no_prepared_xa,
)
from dm.spark.job import run_tasks


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


_LOCKED = "locked"
_GATHER_SECONDS = 15.0  # from the first slot on; Python workers of a busy host take some seconds to start
_OPEN_SECONDS = 20.0  # the longest that the whole server may be locked
_POLL_SECONDS = 0.002


@dataclass(frozen=True, slots=True)
class SlotTask:
    """One session's share: which it is, and all chunks there are."""

    slot: int
    chunks: tuple[ChunkTask, ...]


@dataclass(frozen=True)
class SlotReader:
    """Opens a snapshot when the driver says so, and reads chunks from it until none is left."""

    reader: ChunkReader
    meeting: Path

    def __call__(self, task: SlotTask) -> tuple[ChunkResult, ...]:
        """Read what this slot gets hold of."""
        self.reader.demand_shared()
        results: list[ChunkResult] = []
        if self._too_late(task.slot):
            return ()
        connection = row_session(self.reader.endpoint, self.reader.facts)
        try:
            self._connect(task.slot)
            _wait((self.meeting / _LOCKED).exists, 2 * LOCK_SECONDS, "the other sessions of the dump")
            if self._too_late(task.slot):
                return ()
            fetch(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT")
            (self.meeting / f"open-{task.slot}").touch()
            for number, chunk in enumerate(task.chunks):
                if self._claimed(number):
                    results.append(self._read(connection, chunk))
                    faults.hit("dumper.chunk_written")
        finally:
            connection.close()
        return tuple(results)

    def _too_late(self, slot: int) -> bool:
        return (self.meeting / _LOCKED).exists() and not (self.meeting / f"invited-{slot}").exists()

    def _connect(self, slot: int) -> None:
        """Report, as the first one of this slot: a second one would open its snapshot after the others' moment."""
        try:
            (self.meeting / f"connected-{slot}").touch(exist_ok=False)
        except FileExistsError as error:
            raise DMError("dump-snapshot-lost", slot=slot) from error

    def _read(self, connection: Connection, chunk: ChunkTask) -> ChunkResult:
        try:
            return self.reader.read(connection, chunk)
        except DMError as error:
            if not is_changed(error):
                raise
            return ChunkResult(chunk.table, chunk.generation, chunk.chunk, changed=True, words=error.cause)

    def _claimed(self, number: int) -> bool:
        try:
            os.close(os.open(self.meeting / f"claim-{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True


def _wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DMError("dump-lock-refused", what=what, seconds=int(seconds))
        time.sleep(_POLL_SECONDS)


@dataclass
class Meeting:
    """The driver's side: called again and again while the slots run."""

    directory: Path
    slots: int
    connection: Connection
    facts: ServerFacts
    user: str
    replayed: bool  # a syncer goes on from the point
    tables: Sequence[TableName]
    lock_tables: bool = False  # rather than the whole server
    keep: Callable[[], None] = lambda: None  # locks what has no snapshots; called under the lock
    point: Position | None = None
    _first: float | None = None  # when a slot was there
    _invited: tuple[int, ...] = ()

    def step(self) -> bool:
        """Bring the slots to their snapshots once all are there that can be; True when that has been done."""
        if self.point is None and self._gathered():
            for slot in self._invited:
                (self.directory / f"invited-{slot}").touch()
            self.point = self._locked_end()
        return self.point is not None

    def _gathered(self) -> bool:
        there = tuple(slot for slot in range(self.slots) if (self.directory / f"connected-{slot}").exists())
        if there and self._first is None:
            self._first = time.monotonic()
        over = self._first is not None and time.monotonic() - self._first > _GATHER_SECONDS
        if len(there) == self.slots or over:
            self._invited = there
        return bool(self._invited)

    def _locked_end(self) -> Position:
        if not self.lock_tables:
            try:
                return locked_end(self.connection, self.facts, self._open)
            except DMError as error:
                if error.name != "privilege-missing" or self._all_open():
                    raise
        return tables_locked_end(self.connection, self.facts, self.tables, self._open)

    def _all_open(self) -> bool:
        return all((self.directory / f"open-{slot}").exists() for slot in self._invited)

    def _open(self) -> None:
        self.keep()
        (self.directory / _LOCKED).touch()
        _wait(self._all_open, _OPEN_SECONDS, "snapshots of the dump's sessions")
        if self.replayed:
            wait_for_no_prepared_xa(self.connection, self.user, threading.Event(), seconds=0)
