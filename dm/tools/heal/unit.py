"""One run of `dmctl heal`; `dm.progress.healed` says why its result is exact, and what a crash leaves."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial
from typing import Final, Self

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import Share
from dm.downstream.connection import TargetConnection
from dm.dumper.chunk_group import SourceSessions
from dm.dumper.chunk_reader import is_changed
from dm.dumper.structures import read_structures, same, settle
from dm.dumpfiles.chunk_plan import in_innodb
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.handle import BulkPace, paced
from dm.position import Position
from dm.progress.checkpoint import Handover
from dm.progress.healed import end_heal, release_lane
from dm.progress.lane_rows import CONTROL, LaneClaim
from dm.progress.table_joining import Joining, ask, find_joining, take_away
from dm.progress.tables import SubtaskKey, create_tables
from dm.progress.takeover import Fence, take_over
from dm.rules.table_rules import TableRules
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.file_births import FileBirth
from dm.sourcelog.upstream.connection import Connection, identity_for, read_source_settings
from dm.sourcelog.upstream.facts import ServerFacts, binlog_files, question_session, read_facts
from dm.sourcelog.upstream.lineage import creation_time
from dm.sourcelog.upstream.snapshot import lower_bound, table_snapshot, upper_bound, wait_for_no_prepared_xa
from dm.spark.session import SparkProvider
from dm.tools.diff.chunk import ChunkComparer
from dm.tools.diff.fix import Fix
from dm.tools.diff.planner import DiffPlanner, PlannedTable
from dm.tools.diff.unit import DiffUnit
from dm.tools.errands import DiffRequest, HealReport, HealRequest
from dm.tools.heal.mending import Lane, Mending
from dm.tools.heal.survey import HealSurvey, demand_loadable, demand_suited, survey
from dm.unit import JSON, UnitName

_MOST_DELETIONS: Final = 1000  # each is found by a scan, in a table without a key
_MOST_BYTES: Final = 64 << 20  # of one transaction
_ALTERED: Final = "its structure was changed meanwhile"
_TOO_MUCH: Final = "it has no key, and differs in more rows than are mended in one transaction"


class HealUnit:
    """Compares, mends, and moves the place."""

    name: UnitName = "Heal"

    def __init__(self, request: HealRequest, spark: SparkProvider, *, clock: Clock | None = None) -> None:
        subtask = request.subtask
        self._request = request
        self._subtask = subtask
        self._spark = spark
        self._clock = clock or SystemClock()
        self._key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
        self._rules = TableRules(subtask)
        self._pace: BulkPace | None = None
        self._comparison: DiffUnit | None = None
        self.report = HealReport(subtask.source_id, request.dry_run)

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
        subtask = self._subtask
        with paced(self._pace), ExitStack() as stack:
            control = stack.enter_context(closing(TargetConnection(subtask.target, several=True)))
            source = stack.enter_context(closing(question_session(subtask.source.endpoint)))
            facts = read_facts(source)
            demand_suited(self._request, source, control, self._key)
            with self.report.timed("looking at the tables", self._clock):
                settled = settle(source, self._rules.wanted, lambda: self._point(source, facts, stop))
                self.report.begin = settled.point
                birth = self._birth(facts, settled.point)
                found = survey(self._request, settled, facts, control, self._key)
            self.report.gone = [str(table) for table in found.gone]
            claim = None if self._request.dry_run else self._taken(control, stop)
            mending = Mending(None, self.report.rows, stop, self._pace)
            if claim is not None:
                mending.lane = Lane(subtask, read_source_settings(source), control, claim, self._fence(stop))
                stack.callback(mending.lane.close)
            points = self._mend(found, facts, mending, stop)
            if stop.is_set():
                return
            self._look_at_the_end(found, source, mending)
            end = self.report.end = upper_bound(source, facts)
            self._demand_kept(source, facts, birth)
            if claim is not None:
                tables = {
                    name: (found.schemas[name], points.get(to))
                    for name, to in found.routes.items()
                    if to not in found.whole
                }
                handover = Handover(settled.point, end, tables, birth=birth)
                self._end(control, claim, handover, self._ask_whole(control, found))
        self.report.phase = "done"
        self.report.over = True

    # -- Before and after

    def _point(self, source: Connection, facts: ServerFacts, stop: threading.Event) -> Position:
        endpoint = self._subtask.source.endpoint
        point = lower_bound(partial(question_session, endpoint, facts), facts, stop)
        wait_for_no_prepared_xa(source, endpoint.user, stop)
        return point

    def _birth(self, facts: ServerFacts, point: Position) -> FileBirth:
        identity = identity_for(self._subtask.task, self._subtask.source_id)
        created = creation_time(self._subtask.source.endpoint, identity, point.file)
        return FileBirth(facts.server_uuid, point.file, created)

    def _fence(self, stop: threading.Event) -> Fence:
        return Fence(self._key, self._clock, stop, self.report.enter)

    def _taken(self, control: TargetConnection, stop: threading.Event) -> LaneClaim:
        """Nobody else writes for the subtask from here on; raises DMError."""
        create_tables(control, self._key)
        claim = take_over({CONTROL: control}, self._fence(stop)).claims[CONTROL]
        release_lane(control, self._key)
        asked = find_joining(control, self._key)
        if asked is not None:  # and not begun: all tables are looked at
            take_away(control, self._key, asked)
        return claim

    def _demand_kept(self, source: Connection, facts: ServerFacts, birth: FileBirth) -> None:
        """Raise DMError where the stream can't begin at P0 any more."""
        there = birth.file in dict(binlog_files(source))
        if not there or self._birth(facts, Position(birth.server_uuid, birth.file)) != birth:
            raise DMError("heal-place-lost", task=self._subtask.task, place=self.report.begin)

    def _ask_whole(self, control: TargetConnection, found: HealSurvey) -> Joining | None:
        if not found.whole:
            return None
        names = sorted(name for name, to in found.routes.items() if to in found.whole)
        share = Share(tables=tuple((each.schema, each.table) for each in names))
        create_tables(control, self._key.share)
        asked = ask(control, self._key, "reload", share, sorted(found.whole), anew=found.anew)
        faults.hit("heal.whole_asked")
        return asked

    def _end(self, control: TargetConnection, claim: LaneClaim, handover: Handover, whole: Joining | None) -> None:
        end_heal(control, claim, handover, whole, validated=self._subtask.validator.mode != "none")
        # P0 has none. Until the place has moved, a run from the one before may need them.
        shutil.rmtree(self._request.sync_directory / "prepared", ignore_errors=True)
        if self._request.relay is not None:
            Hold(self._request.relay, self._subtask.task).keep_from(handover.p0)

    # -- Comparing

    def _mend(
        self, found: HealSurvey, facts: ServerFacts, mending: Mending, stop: threading.Event
    ) -> dict[TableName, Position]:
        """Make the rows equal; gives the places of the tables that are of one moment."""
        points = dict[TableName, Position]()
        if found.by_rows:
            request = self._request
            options = DiffRequest(tuple(map(str, found.by_rows)), rows=request.rows, threads=request.threads)
            self._comparison = DiffUnit([self._subtask], options, self._spark).mend(mending, self._pace)
            with self.report.timed("comparing rows", self._clock):
                self._comparison.run(stop)
            self.report.chunks = sum(told.chunks for told in self._comparison.report.tables)
            for told in self._comparison.report.tables:
                if told.structure or told.not_compared:
                    found.load_whole(told.name, _ALTERED, anew=True)
        planner = DiffPlanner([self._subtask], DiffRequest(), stop)
        with self.report.timed("comparing tables without a key", self._clock):
            for table in planner.plan(frozenset(found.at_once)) if found.at_once else ():
                if stop.is_set():
                    break
                self.report.chunks += 1
                point = self._mend_at_once(planner, table, found, facts, mending)
                if point is not None:
                    points[table.name] = point
        self.report.differing_chunks = mending.chunks
        return points

    def _mend_at_once(
        self, planner: DiffPlanner, table: PlannedTable, found: HealSurvey, facts: ServerFacts, mending: Mending
    ) -> Position | None:
        """H3; gives X, None where the table is loaded whole."""
        (name,) = found.origins(table.name)
        if table.compared is None or table.structure:
            found.load_whole(table.name, _ALTERED, anew=True)
            return None
        comparer = ChunkComparer(planner.endpoints, (table.compared,), kept_bytes=_MOST_BYTES, words=0)
        fixes, size = list[Fix](), 0
        transactional = in_innodb(found.schemas[name].engine)
        with SourceSessions(self._subtask.source.endpoint, facts) as sessions:
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
            found.load_whole(table.name, _ALTERED, anew=True)
            return None
        if size > _MOST_BYTES or sum(len(fix.deletions) for fix in fixes) > _MOST_DELETIONS:
            found.load_whole(table.name, _TOO_MUCH)
            return None
        if not fixes or mending.write_at_once(table.name, fixes):
            return point
        return None  # said at the end

    def _look_at_the_end(self, found: HealSurvey, source: Connection, mending: Mending) -> None:
        """Tables that can't be left as they are are loaded whole; raises DMError where none can be."""
        self.report.enter("comparing structures")
        now = read_structures(source, self._rules.wanted, found.structures)
        for name, text in found.structures.items():
            if not same(now[name], text):
                found.load_whole(found.routes[name], _ALTERED, anew=True)
        for table, why in mending.impossible.items():
            found.load_whole(table, why)
        demand_loadable(self._request, found)
        self.report.whole = {str(table): why for table, why in found.whole.items()}
        for table in found.whole:
            self.report.rows.pop(str(table), None)
