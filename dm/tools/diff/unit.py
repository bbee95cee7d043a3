"""The comparison of a task's sources with its target. It locks nothing, and writes only its record at the target.

Chunks are compared as Spark jobs. While a syncer applies changes, rows also differ because they are on their way. So
each difference is looked at again once the target is past the source's position of the first look;
`dm.tools.diff.report` says when a row counts as different. Rows that keep changing are reported as unsettled. Rows that
were not looked at often enough, because the target did not get that far in time, are reported as undecided.

Differences are kept in memory until they are reported. When they fill the memory that rows may take, no more chunks are
compared until these are settled and written down. A chunk that shows that many differences only at a later look is cut
then, and its slices begin with a first look.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Self

from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.handle import BulkPace, PaceHandle, PaceHere, paced
from dm.progress.compared import RECENT, ComparedRecord, store_compared
from dm.progress.tables import SubtaskKey
from dm.spark.job import MOST_WEIGHT, grouped, run_tasks
from dm.spark.session import SparkProvider, warm_up
from dm.tools.diff.chunk import WORDED, Chunk, ChunkComparer, ChunkOutcome
from dm.tools.diff.done_chunks import Beginning, DoneChunks, EqualChunk, chunk_name
from dm.tools.diff.fix import Fixes, FixFiles
from dm.tools.diff.kept_rows import read_kept_rows
from dm.tools.diff.planner import DiffPlanner, PlannedTable
from dm.tools.diff.recent import Recent
from dm.tools.diff.report import DiffReport, Found, OpenRows, Suspects, TableReport
from dm.tools.diff.sample import Sample, sized
from dm.tools.diff.snapshot import TargetProgress, end_of
from dm.tools.diff.versions import Difference
from dm.tools.errands import DiffRequest
from dm.unit import JSON, UnitName

_LOOKS = 7  # at rows that differ while changes are applied
_PLANS = 4  # of a table whose structure changes meanwhile
# Each Spark task opens its own sessions. Where there is much to do, it takes as much as four full chunks at a time, and
# leaves to each thread eight tasks or more, so that they end at the same time.
_TOGETHER = 4.0
_TASKS_OF_A_THREAD = 8
_HERE = 8  # chunks of recent rows that a thread compares over one session, before it can be stopped


class _Enough(threading.Event):
    """Set when so much is found that it has to be settled, and when the comparison is stopped."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop
        self.reached = False

    def is_set(self) -> bool:
        return self.reached or self._stop.is_set()


class DiffUnit:
    """One run of `dmctl diff`."""

    name: UnitName = "Diff"

    def __init__(
        self,
        subtasks: Sequence[SubtaskConfig],
        options: DiffRequest,
        spark: SparkProvider,
        *,
        directory: Path | None = None,
        clock: Clock | None = None,
        relays: Mapping[str, Path] | None = None,
    ) -> None:
        self._subtasks = subtasks
        self._options = options
        self._spark = spark
        self._clock = clock or SystemClock()
        self.report = DiffReport()
        self._pace: BulkPace | None = None
        self._others: Sequence[SubtaskConfig] = ()
        self._began = 0.0
        self._directory = directory
        self._relays = relays or {}
        self._here = False  # so little is compared that it needs no Spark
        self._done = DoneChunks(None, options.asked, Beginning(), resume=False)
        self._digests: dict[TableName, dict[int, str]] = {}  # of chunks that are equal, by their number
        self._fixes: Fixes | None = FixFiles(Path(options.fix_sql)) if options.fix_sql else None
        self._mends = False
        self._only: frozenset[TableName] | None = None
        self.most_kept = (0, 0)  # rows that a task kept at a time, and bytes of differences that were kept here

    def keep_pace(self, pace: BulkPace) -> Self:
        """Be as fast as this allows; chunks have no more rows than what a second allows."""
        self._pace, most = pace, pace.rows_per_second
        if most is not None and most < self._options.rows:
            self._options = replace(self._options, rows=most)
        return self

    def among(self, others: Sequence[SubtaskConfig]) -> Self:
        """Have no statement delete rows that these may have at the target."""
        self._others = others
        return self

    def mend(self, fixes: Fixes, only: frozenset[TableName], pace: BulkPace | None) -> Self:
        """Have differences of just these tables mended, where structures are the same; nothing is recorded.

        The pace is that of another unit, which this one is a part of.
        """
        self._fixes, self._mends, self._only = fixes, True, only
        return self if pace is None else self.keep_pace(pace)

    def status(self) -> Mapping[str, JSON]:
        """How far it is; at the end also what was found."""
        return {**self.report.status(), **({} if self._pace is None else self._pace.status())}

    def get_ready(self) -> None:
        """Start Spark's session and its workers if so many rows will be compared that it takes part. Raises DMError."""
        planned = DiffPlanner(self._subtasks, self._options, threading.Event()).plan()
        if not self._needs_no_spark([each for each in planned if each.compared is not None]):
            warm_up(self._spark.context())

    def run(self, stop: threading.Event) -> None:
        """Compare everything, or until stopped."""
        self._began = self._clock.monotonic()
        with paced(None if self._mends else self._pace), nullcontext() if self._fixes is None else self._fixes.held():
            beginning = Beginning(round(self._clock.time()), {each.source_id: end_of(each) for each in self._subtasks})
            self._done = DoneChunks(self._directory, self._options.asked, beginning, resume=self._options.resume)
            try:
                self._run(stop)
            finally:
                self._done.close(over=self.report.over)

    def _run(self, stop: threading.Event) -> None:
        kept = read_kept_rows(self._subtasks, self._others) if self._options.fix_sql else None
        planner = DiffPlanner(self._subtasks, self._options, stop, self._recent(stop), kept)
        tables = {planned.name: planned for planned in self._settled(planner, planner.plan(self._only), stop)}
        if self._options.sample:
            self._time_sample(planner, list(tables.values()), stop)
            return
        reports = {name: TableReport(name) for name in tables}
        self.report.tables = list(reports.values())
        left = frozenset(tables)
        for attempt in range(_PLANS):
            planned = [tables[name] for name in sorted(left)]
            changed = self._compare(planner, planned, reports, stop)
            if stop.is_set() or not changed:
                break
            if attempt == _PLANS - 1:
                self._forget(changed, reports)
                for name, words in changed.items():
                    reports[name].not_compared = f"its structure changed while it was compared: {words}"
                break
            tables = {each.name: each for each in self._settled(planner, planner.plan(frozenset(changed)), stop)}
            left = frozenset(tables)
            gone = changed.keys() - left  # from the sources, by now
            self.report.tables = [each for each in self.report.tables if each.name not in gone]
        self.report.seconds = self._clock.monotonic() - self._began
        if not stop.is_set() and not planner.snapshots.past and not self._mends:
            self.report.phase = "storing what was found"
            self._record(tables)
        self.report.over = not stop.is_set()
        self.report.phase = "finished"

    def _time_sample(self, planner: DiffPlanner, planned: Sequence[PlannedTable], stop: threading.Event) -> None:
        """How long all rows take once Spark has begun (`get_ready`); what differs is of no interest."""
        self.report.phase = "comparing some rows"
        with_rows = [each for each in planned if each.compared is not None]
        self._here = self._needs_no_spark(with_rows)
        if not self._here:  # it has begun by the time that all rows are compared
            before = self._clock.monotonic()
            warm_up(self._spark.context())
            self._began += self._clock.monotonic() - before
        chunks = [chunk for number, each in enumerate(with_rows) for chunk in sized(number, each)]
        sample, comparer = Sample.of(chunks, self._options.threads), self._comparer(planner, with_rows, stop)
        self._look(comparer, sample.first, with_rows, stop)
        began = self._clock.monotonic()
        self._look(comparer, sample.timed, with_rows, stop)
        now = self._clock.monotonic()
        self.report.seconds = now - self._began
        if not stop.is_set():
            self.report.seconds_of_all = round(sample.seconds_of_all(self.report.seconds, now - began), 1)
            self.report.over = True
        self.report.phase = "finished"

    def _comparer(
        self, planner: DiffPlanner, with_rows: Sequence[PlannedTable], stop: threading.Event
    ) -> ChunkComparer:
        pace: PaceHandle | PaceHere | None = None
        if self._pace is not None:
            pace = self._pace.here(stop) if self._here else self._pace.handle(self._spark.context())
        tables = tuple(each.compared for each in with_rows if each.compared is not None)
        return ChunkComparer(
            planner.endpoints, tables, self._options.where, self._options.max_load, dict(planner.readings),
            self._options.kept_bytes, words=max(WORDED, self._options.shown), fixes=self._fixes is not None,
            pace=pace,
        )  # fmt: skip

    def _recent(self, stop: threading.Event) -> Recent | None:
        """What was written since, if only that is asked for."""
        if not self._options.recent:
            return None
        self.report.phase = "reading what was written since"
        with tempfile.TemporaryDirectory(prefix="dm-diff-") as scratch:
            found = Recent(self._subtasks, self._relays, Path(scratch), self._clock, self._options.kept_bytes)
            found.read(self._done.beginning.places, stop)
        return found

    def _record(self, tables: Mapping[TableName, PlannedTable]) -> None:
        """Store what was found of each table at the target; an account that may not is told of."""
        part, words = self._options.part
        now = round(self._clock.time())
        found: dict[int, list[ComparedRecord]] = {}
        for report in self.report.tables:
            verdict = report.verdict
            if verdict == "not compared":
                continue
            sums = self._digests.get(report.name, {})
            digest = ""
            if verdict == "equal" and len(sums) == report.chunks:
                digest = hashlib.sha256("".join(f"{sums[at]}\n" for at in sorted(sums)).encode()).hexdigest()
            report.digest = digest
            record = ComparedRecord(
                report.name, verdict, report.source_rows, report.target_rows, report.chunks, digest,
                self._done.beginning.at, now, part, words, tables[report.name].basis,
            )  # fmt: skip
            if report.rests is not None:
                record = replace(record, part=RECENT, asked=f"what was written since {report.rests.since.place}")
            for place in tables[report.name].places:
                found.setdefault(place, []).append(record)
        try:
            with closing(TargetConnection(self._subtasks[0].target)) as connection:
                for place, records in found.items():
                    subtask = self._subtasks[place]
                    key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
                    since = self._done.beginning.places.get(subtask.source_id)
                    store_compared(connection, key, records, since)
        except DMError as error:
            self.report.not_recorded = error.message if not error.cause else f"{error.message}: {error.cause}"

    def _settled(self, planner: DiffPlanner, planned: list[PlannedTable], stop: threading.Event) -> list[PlannedTable]:
        """The same tables; structures differ only if several looks say so, as rows do.

        A statement that was executed at a source is on its way to the target.
        """
        if not self._options.follows or planner.snapshots.past:
            return planned

        def told() -> dict[TableName, dict[str, list[str]]]:
            return {each.name: {"\n".join(each.structure): each.structure} for each in planned if each.structure}

        suspects = Suspects(told())
        with closing(self._progress()) as progress:
            for _ in range(_LOOKS):
                open_ones = frozenset(suspects.open)
                if stop.is_set() or not open_ones or not progress.wait_past(stop):
                    break
                again = {each.name: each for each in planner.plan(open_ones)}
                there = [each for each in planned if each.name not in open_ones or each.name in again]
                planned = [again.get(each.name, each) for each in there]
                suspects.look(told(), rests=progress.rests())
        why = "its structure came to no rest while it was looked at"
        if progress.lag is not None:
            why = f"its structure is not decided, {progress.lag}; it differed in this"
        moving = {name for name, _ in suspects.unsettled()}
        for each in planned:
            if each.name in moving and each.structure:
                each.skipped = f"{why}: {each.structure[0]}"
                each.structure, each.compared, each.conditions = [], None, []
        return planned

    def _progress(self) -> TargetProgress:
        followed = [each for each in self._subtasks if each.source_id in self._options.follows]
        return TargetProgress(followed, self._clock)

    def _compare(
        self,
        planner: DiffPlanner,
        planned: Sequence[PlannedTable],
        reports: Mapping[TableName, TableReport],
        stop: threading.Event,
    ) -> dict[TableName, str]:
        """Compare these tables; gives those that changed meanwhile."""
        self._forget([each.name for each in planned], reports)
        for each in planned:
            report = reports[each.name]
            report.structure, report.allowed = each.structure, each.allowed
            report.not_compared, report.chunks = each.skipped, len(each.conditions)
            report.rests, report.whole_because = each.rests, each.whole_because
        with_rows = [each for each in planned if each.compared is not None]
        self._here = self._needs_no_spark(with_rows)
        chunks = [chunk for number, each in enumerate(with_rows) for chunk in each.chunks(number)]
        comparer = self._comparer(planner, with_rows, stop)
        names = [each.name for each in with_rows]

        def count(outcome: ChunkOutcome) -> None:
            report = reports[names[outcome.chunk.table]]
            report.done += 1
            report.source_rows += outcome.source_rows
            report.target_rows += outcome.target_rows
            if outcome.equal and outcome.chunk.slice is None:
                known = EqualChunk(outcome.source_rows, outcome.target_rows, outcome.digest)
                self._done.add(chunk_names[outcome.chunk], known)
            self.report.seconds = self._clock.monotonic() - self._began

        asked = self._options.snapshots if planner.snapshots.past else ()
        chunk_names = {
            chunk: chunk_name(
                planner.endpoints, comparer.tables[chunk.table], chunk.condition, self._options.where, asked
            )
            for chunk in chunks
        }
        chunks = [
            chunk for chunk in chunks if not self._is_done(reports[names[chunk.table]], chunk, chunk_names[chunk])
        ]
        changed = dict[int, str]()
        left: Sequence[Chunk] = chunks
        while left and not stop.is_set():
            self.report.phase = "comparing rows"
            first, left = self._look(comparer, left, with_rows, stop, count)
            suspects, open_ones = self._look_again(planner, comparer, first, with_rows, stop)
            changed |= first.changed
            for chunk, differences in suspects.confirmed():
                if chunk.table not in changed:
                    self._tell(reports[names[chunk.table]], differences)
            for chunk, identities in suspects.unsettled():
                reports[names[chunk.table]].leave_open(identities, open_ones, self._options.shown)
            slices = list(chain.from_iterable(first.cut.values()))
            for chunk in slices:
                reports[names[chunk.table]].chunks += 1
            left = [chunk for chunk in (*left, *slices) if chunk.table not in changed]
        return {names[number]: words for number, words in changed.items()}

    def _needs_no_spark(self, planned: Sequence[PlannedTable]) -> bool:
        """Whether threads of this process do: the servers compute what there is to compute, of rows that are few."""
        whole = [each for each in planned if each.rests is None]
        computed = all(each.compared is not None and each.compared.computed_by_servers for each in whole)
        rows = sum(max(each.estimated_rows, self._options.rows * (len(each.conditions) - 1)) for each in whole)
        return not whole or (computed and rows < self._options.spark_from)

    def _forget(self, names: Collection[TableName], reports: Mapping[TableName, TableReport]) -> None:
        """What was told of these tables was told of another structure."""
        for name in names:
            reports[name].forget()
            self._digests.pop(name, None)
        if self._fixes is not None:
            self._fixes.begin(names)

    def _is_done(self, report: TableReport, chunk: Chunk, name: str) -> bool:
        """Whether an unfinished comparison has found the chunk equal; then it counts as done."""
        known = self._done.known(name)
        if known is None:
            return False
        report.done += 1
        report.source_rows += known.source_rows
        report.target_rows += known.target_rows
        self._digests.setdefault(report.name, {})[chunk.number] = known.digest
        return True

    def _look(
        self,
        comparer: ChunkComparer,
        chunks: Sequence[Chunk],
        planned: Sequence[PlannedTable],
        stop: threading.Event,
        count: Callable[[ChunkOutcome], None] = lambda _: None,
    ) -> tuple[Found, list[Chunk]]:
        """What was found, and what was not looked at since it was enough."""
        found, enough = Found(), _Enough(stop)
        left = dict.fromkeys(chunks)

        def done(outcomes: tuple[ChunkOutcome, ...]) -> None:
            for outcome in outcomes:
                if enough.reached:
                    return  # these are compared again; what is kept stays bounded
                del left[outcome.chunk]
                found.hear(outcome)
                if outcome.digest:
                    name = planned[outcome.chunk.table].name
                    self._digests.setdefault(name, {})[outcome.chunk.number] = outcome.digest
                count(outcome)
                enough.reached = found.size >= self._options.kept_bytes

        def weight(chunk: Chunk) -> float:
            if chunk.slice is not None:
                return _TOGETHER  # alone: it takes all the memory that a thread may have
            table = planned[chunk.table]
            return min(1.0, table.estimated_rows / len(table.conditions) / self._options.rows)

        description = f"{self._subtasks[0].task}: compare"
        while left and not enough.is_set():
            if self._here:
                self._compare_here(comparer, list(left), enough, done)
                continue
            weighed = [(chunk, weight(chunk)) for chunk in left]
            share = sum(each for _, each in weighed) / (_TASKS_OF_A_THREAD * self._options.threads)
            groups = grouped(weighed, most=max(MOST_WEIGHT, min(_TOGETHER, share)))
            run_tasks(self._spark.context(), comparer, groups, enough, done, description, at_once=self._options.threads)
        rows, size = self.most_kept
        self.most_kept = max(rows, found.kept), max(size, found.size)
        return found, list(left)

    def _compare_here(
        self,
        comparer: ChunkComparer,
        chunks: Sequence[Chunk],
        enough: threading.Event,
        done: Callable[[tuple[ChunkOutcome, ...]], None],
    ) -> None:
        """By threads of this process: Spark would take longer to begin than this to end."""
        threads = self._options.threads
        size = max(1, min(_HERE, len(chunks) // threads))
        with ThreadPoolExecutor(threads) as pool:
            running = [pool.submit(comparer, tuple(chunks[at : at + size])) for at in range(0, len(chunks), size)]
            try:
                for each in as_completed(running):
                    if enough.is_set():
                        return
                    done(each.result())
            finally:
                for each in running:
                    each.cancel()

    def _look_again(
        self,
        planner: DiffPlanner,
        comparer: ChunkComparer,
        first: Found,
        planned: Sequence[PlannedTable],
        stop: threading.Event,
    ) -> tuple[Suspects[Chunk, Difference], OpenRows]:
        """What stays different, or is not decided; what changed or was cut meanwhile is added to the first."""
        suspects, open_ones = Suspects(first.different), OpenRows()
        if not suspects.open:
            return suspects, open_ones
        if not self._options.follows or planner.snapshots.past:
            suspects.look(first.different, rests=True)  # what differs as of a moment that stays differs
            return suspects, open_ones
        open_ones.name(first)
        first.different.clear()  # a later look finds again what is different
        with closing(self._progress()) as progress:
            for _ in range(_LOOKS):
                self.report.phase = "waiting until the target is past the last look"
                if stop.is_set() or not suspects.open or not progress.wait_past(stop):
                    break
                self.report.phase = "looking again at what differed"
                renewed = replace(comparer, readings=planner.moments())
                left: Sequence[Chunk] = suspects.open
                while left and not stop.is_set():
                    again, later = self._look(renewed, left, planned, stop)
                    open_ones.name(again)
                    first.changed.update(again.changed)
                    first.cut.update(again.cut)
                    suspects.forget(again.cut)
                    if not stop.is_set():
                        looked = frozenset(left).difference(later)
                        suspects.look(again.different, rests=progress.rests(), at=looked)
                    left = later
        open_ones.lag = progress.lag
        return suspects, open_ones

    def _tell(self, report: TableReport, differences: Sequence[Difference]) -> None:
        unique = {each.identity: each for each in differences}
        report.differing += len(unique)
        for each in unique.values():
            if each.worded and len(report.shown) < self._options.shown:
                report.shown.append(each)
            report.note(each.fix)
        if self._fixes is not None and not (self._mends and report.structure):
            report.fix_file = self._fixes.write(report.name, [each.fix for each in unique.values()])
