"""One run of `dmctl heal`; `dm.progress.healed` says why its result is exact, and what a crash leaves."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final, Self

from dm.clock import Clock, SystemClock
from dm.dumper.chunk_group import SourceSessions
from dm.dumper.chunk_reader import is_changed
from dm.dumper.structures import same
from dm.dumpfiles.chunk_plan import in_innodb
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.handle import BulkPace, paced
from dm.position import Position
from dm.sourcelog.upstream.snapshot import table_snapshot
from dm.spark.session import SparkProvider
from dm.tools.diff.chunk import ChunkComparer
from dm.tools.diff.fix import Fix
from dm.tools.diff.planner import DiffPlanner, PlannedTable
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest, HealReport, HealRequest
from dm.tools.heal.mending import HealLanes, Mending
from dm.tools.heal.source import ALTERED, HealedSource
from dm.tools.heal.survey import HealSurvey, demand_loadable, demand_suited, demand_unshared, survey
from dm.unit import JSON, UnitName

_MOST_DELETIONS: Final = 1000  # each is found by a scan, in a table without a key
_MOST_BYTES: Final = 64 << 20  # of one transaction
_TOO_MUCH: Final = "it has no key, and differs in more rows than are mended in one transaction"

_Side = tuple[HealedSource, HealSurvey]  # a source, and its tables


class HealUnit:
    """Compares, mends, and moves the places."""

    name: UnitName = "Heal"

    def __init__(self, request: HealRequest, spark: SparkProvider, *, clock: Clock | None = None) -> None:
        self._request = request
        self._subtasks = [each.subtask for each in request.healed]
        self._spark = spark
        self._clock = clock or SystemClock()
        self._pace: BulkPace | None = None
        self._comparison: DiffUnit | None = None
        self.report = HealReport(tuple(each.source_id for each in self._subtasks), request.dry_run)

    def keep_pace(self, pace: BulkPace) -> Self:
        """Be as fast as this allows."""
        self._pace = pace
        return self

    def status(self) -> Mapping[str, JSON]:
        """How far it is; at the end also what came of it."""
        told = {} if self._comparison is None else self._comparison.status()
        chunks = {name: told.get(name) for name in ("doneChunks", "totalChunks", "secondsLeft")}
        return {**self.report.to_json(), **chunks, **({} if self._pace is None else self._pace.status())}

    def run(self, stop: threading.Event) -> None:
        """Heal, or tell what a heal would do; raises DMError."""
        with paced(self._pace), ExitStack() as stack:
            sides = self._looked_at([HealedSource(each, stack, self._clock) for each in self._request.healed], stop)
            mending = Mending(None, self.report.rows, stop, self._pace)
            if not self._request.dry_run:
                mending.lanes = self._lanes(sides, stack, stop)
            points = self._mend(sides, mending, stop)
            if stop.is_set():
                return
            self._look_at_the_end(sides, mending)
            self.report.end = {source.subtask.source_id: source.end_point() for source, _ in sides}
            for source, found in () if self._request.dry_run else sides:
                name = source.subtask.source_id
                source.end(found, self.report.begin[name], self.report.end[name], points[name])
        self.report.phase = "done"
        self.report.over = True

    def _looked_at(self, sources: Sequence[HealedSource], stop: threading.Event) -> list[_Side]:
        """Their places, and their tables; raises DMError where they can't be healed."""
        for source in sources:
            demand_suited(source.subtask, source.session, source.facts, source.control, source.key)
        demand_unshared(self._request, [(each.subtask, each.session) for each in sources], sources[0].control)
        with self.report.timed("looking at the tables", self._clock):
            settled = [source.begin(stop) for source in sources]
            named = zip(self.report.sources, settled, strict=True)
            self.report.begin = {name: each.point for name, each in named}
            begun = [source.surveyed(each) for source, each in zip(sources, settled, strict=True)]
            surveys = survey(self._request, begun)
        filled = {to for found in surveys for to in found.routes.values()}
        gone = {str(table): to for found in surveys for table, to in found.gone.items()}
        self.report.gone = sorted(gone)
        self.report.gone_from = {table: str(to) for table, to in gone.items() if to in filled}
        return list(zip(sources, surveys, strict=True))

    def _lanes(self, sides: Sequence[_Side], stack: ExitStack, stop: threading.Event) -> HealLanes:
        """What writes, by table; from here on nobody else does. Raises DMError."""
        every = [source.take(stop, self.report.enter) for source, _ in sides]
        of = {to: lane for lane, (_, found) in zip(every, sides, strict=True) for to in found.routes.values()}
        for lane in every:
            stack.callback(lane.close)
        return HealLanes(every, of)

    # -- Comparing

    def _mend(
        self, sides: Sequence[_Side], mending: Mending, stop: threading.Event
    ) -> dict[str, dict[TableName, Position]]:
        """Make the rows equal; gives, of each source, the places of the tables that are of one moment."""
        by_rows = sorted({table for _, found in sides for table in found.by_rows})
        if by_rows:
            request = self._request
            options = DiffRequest(rows=request.rows, threads=request.threads)
            comparison = DiffUnit(self._subtasks, options, self._spark)
            self._comparison = comparison.mend(mending, frozenset(by_rows), self._pace)
            with self.report.timed("comparing rows", self._clock):
                self._comparison.run(stop)
            self.report.chunks = sum(told.chunks for told in self._comparison.report.tables)
            for told in self._comparison.report.tables:
                if told.structure or told.not_compared:
                    _load_whole(sides, told.name, ALTERED, anew=True)
        with self.report.timed("comparing tables without a key", self._clock):
            points = {
                source.subtask.source_id: self._mend_keyless(source, found, mending, stop) for source, found in sides
            }
        self.report.differing_chunks = mending.chunks
        return points

    def _mend_keyless(
        self, source: HealedSource, found: HealSurvey, mending: Mending, stop: threading.Event
    ) -> dict[TableName, Position]:
        points = dict[TableName, Position]()
        planner = DiffPlanner([source.subtask], DiffRequest(), stop)
        for table in planner.plan(frozenset(found.at_once)) if found.at_once else ():
            if stop.is_set():
                break
            self.report.chunks += 1
            point = self._mend_at_once(planner, table, source, found, mending)
            if point is not None:
                points[table.name] = point
        return points

    def _mend_at_once(
        self, planner: DiffPlanner, table: PlannedTable, source: HealedSource, found: HealSurvey, mending: Mending
    ) -> Position | None:
        """H3; gives X, None where the table is loaded whole."""
        (name,), facts = found.origins(table.name), source.facts
        if table.compared is None or table.structure:
            found.load_whole(table.name, ALTERED, anew=True)
            return None
        comparer = ChunkComparer(planner.endpoints, (table.compared,), kept_bytes=_MOST_BYTES, words=0)
        fixes, size = list[Fix](), 0
        transactional = in_innodb(found.schemas[name].engine)
        with SourceSessions(source.subtask.source.endpoint, facts) as sessions:
            try:
                with table_snapshot(
                    sessions.questions, sessions.rows, facts, name, transactional=transactional
                ) as snapshot:
                    altered = not same(snapshot.structure, found.structures[name])
                    for outcome in () if altered else comparer.at_one_moment(0, {0: snapshot.connection}):
                        altered = altered or bool(outcome.changed)
                        size += sum(each.size for each in outcome.differences)
                        fixes += [each.fix for each in outcome.differences]
                        if altered or size > _MOST_BYTES:
                            break
                    point = snapshot.point
            except DMError as error:
                if not is_changed(error):
                    raise
                altered = True
        if altered:
            found.load_whole(table.name, ALTERED, anew=True)
            return None
        if size > _MOST_BYTES or sum(len(fix.deletions) for fix in fixes) > _MOST_DELETIONS:
            found.load_whole(table.name, _TOO_MUCH)
            return None
        if not fixes or mending.write_at_once(table.name, fixes):
            return point
        return None  # said at the end

    def _look_at_the_end(self, sides: Sequence[_Side], mending: Mending) -> None:
        """Tables that can't be left as they are are loaded whole; raises DMError where none can be."""
        self.report.enter("comparing structures")
        for source, found in sides:
            source.look_again(found)
        for table, why in mending.impossible.items():
            _load_whole(sides, table, why)
        whole = dict[TableName, str]()
        for source, found in sides:
            demand_loadable(source.subtask, found)
            whole |= found.whole
        self.report.whole = {str(table): why for table, why in whole.items()}
        for table in whole:
            self.report.rows.pop(str(table), None)


def _load_whole(sides: Sequence[_Side], table: TableName, why: str, *, anew: bool = False) -> None:
    """A table of the target was found not to be comparable after all."""
    for _, found in sides:
        if table in found.routes.values():
            found.load_whole(table, why, anew=anew)
