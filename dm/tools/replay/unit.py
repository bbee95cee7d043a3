"""`dmctl replay`: the backlog of a paused task, applied by Spark's tasks.

    read      a task per piece of the relay: rows by the syncer's own path, reduced to the net effect on each
    begin     the plan is stored, with the end as the bound
    remove    a task per bucket of keys: rows that go, or whose unique keys change
    write     a task per bucket of keys: rows that come, and those that stay
    end       the checkpoint, or the points of the replayed tables, move to the end

It ends before the first transaction that it does not take. `dm.progress.replayed` tells what a crash finds at each
step, and why a person may resume the task at any of them.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Final, Self, TypeVar

from dm import faults
from dm.clock import Clock, SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.source_session_settings import with_settings
from dm.errors import DMError
from dm.ident import TableName
from dm.pace.handle import BulkPace, handle_of, paced
from dm.position import Position
from dm.progress.lane_rows import CONTROL
from dm.progress.prepared_places import read_prepared
from dm.progress.replayed import (
    MOST_LANES,
    REMOVALS,
    WRITES,
    RelayRange,
    StoredReplay,
    begin_replay,
    continue_replay,
    create_record,
    end_replay,
    forget_replay,
    release_lanes,
)
from dm.progress.tables import SubtaskKey, create_tables
from dm.progress.takeover import Fence, take_over
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.source_server import SourceServer, open_source_server
from dm.sourcelog.stream.until import Until
from dm.spark.job import run_tasks
from dm.spark.session import SparkProvider
from dm.tools.errands import ReplayReport, ReplayRequest
from dm.tools.replay.applying import BucketApplier, BucketResult
from dm.tools.replay.decoding import Decoded, PieceDecoder
from dm.tools.replay.pieces import (
    RelayStretch,
    ReplayStart,
    demand_covered,
    demand_planned,
    find_beginning,
    place_of_end,
    plan_of,
    refuse_unsuited,
    total_bytes,
)
from dm.tools.replay.reduction import ReplayContext
from dm.unit import JSON, UnitName

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_BUCKET_BYTES: Final = 64 << 20  # of the relay, for each bucket
_MOST_BUCKETS: Final = 512
# What each further call would meet again while it goes on with the same plan and files.
_ENDS_THE_PLAN: Final = {"replay-target-changed", "replay-file-lost", "replay-parts-unlike"}


class _Stopped(Exception):
    """The unit is to come to rest."""


class ReplayUnit:
    """One run of `dmctl replay`; `place` tells what a person's place means at a source."""

    name: UnitName = "Replay"

    def __init__(
        self,
        request: ReplayRequest,
        place: Callable[[SubtaskConfig, str], Until],
        spark: SparkProvider,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._request = request
        self._place = place
        self._spark = spark
        self._clock = clock or SystemClock()
        self._key = SubtaskKey(request.subtask.meta_schema, request.subtask.task, request.subtask.source_id)
        self._directory = request.directory
        self._pace: BulkPace | None = None
        self._views: frozenset[TableName] = frozenset()  # of the source
        self.report = ReplayReport(request.subtask.source_id)

    def keep_pace(self, pace: BulkPace) -> Self:
        """Be as fast as this allows."""
        self._pace = pace
        return self

    def status(self) -> Mapping[str, JSON]:
        """How far it is; at the end also what came of it."""
        return {**self.report.to_json(), **({} if self._pace is None else self._pace.status())}

    def run(self, stop: threading.Event) -> None:
        """Replay the backlog, or as much of it as can be replayed; raises DMError."""
        with paced(self._pace), suppress(_Stopped):
            self._run(stop)

    def _run(self, stop: threading.Event) -> None:
        subtask, key = self._request.subtask, self._key
        server = open_source_server(subtask, self._request.relay, self._clock)
        with closing(TargetConnection(subtask.target)) as control:
            refuse_unsuited(subtask, server, control)
            create_tables(control, key)
            create_record(control, key)
            taken = take_over({CONTROL: control}, Fence(key, self._clock, stop, self.report.enter, subtask.run_by))
            release_lanes(control, key, taken.rows)
            if self._request.cancel:
                forget_replay(control, taken.claims[CONTROL])
                shutil.rmtree(self._directory, ignore_errors=True)
                self.report.enter("cancelled")
                self.report.over = True
                return
            beginning = find_beginning(subtask, taken, control, server)
            self._views = server.views()
            self.report.begin = beginning.checkpoint.position
            prepared = PreparedTransactions(self._request.sync_directory / "prepared")
            listed = read_prepared(control, key)
            prepared.open(beginning.claim.epoch, beginning.checkpoint.position, listed)
            if prepared.without_rows():  # they are on another host
                why = "rows of prepared XA transactions were on another host, and are read again by a syncer"
                raise DMError("replay-unsuited", task=subtask.task, why=why)
            stretch = RelayStretch.at(self._request.relay, beginning.checkpoint.position, server.facts.flavor)
            try:
                replay = self._planned(control, beginning, stretch, server, stop)
                self._apply(replay, self._around(replay, beginning, server), stop)
            except DMError as error:
                if error.name in _ENDS_THE_PLAN:
                    with suppress(DMError):  # the next call meets the same error, and tries again
                        forget_replay(control, beginning.claim)
                raise
            text = listed if replay.left else prepared.make_durable(replay.end)
            end_replay(control, beginning.claim, beginning.checkpoint, replay, (text, stretch.birth(replay.end.file)))
            prepared.delete_decided(beginning.checkpoint.position if replay.left else replay.end)
        shutil.rmtree(self._directory, ignore_errors=True)
        self.report.enter("done")
        self.report.over = True

    # -- The plan

    def _planned(
        self,
        control: TargetConnection,
        beginning: ReplayStart,
        stretch: RelayStretch,
        server: SourceServer,
        stop: threading.Event,
    ) -> StoredReplay:
        """The plan, stored, with all its pieces read."""
        stored = beginning.stored
        if stored is not None:
            self.report.goes_on = True
            replay, self.report.applied = continue_replay(control, beginning.claim, stored, self._lanes())
            asked = self._asked(beginning, server, stop)
            if asked is not None:
                demand_covered(asked, replay.end, self._request.subtask.task)
            around = self._around(replay, beginning, server)
            missing = [piece for piece in replay.pieces if not around.spill(piece).exists()]
            for decoded in self._read(around, replay.buckets, missing, stop):
                demand_planned(replay, decoded)
        else:
            replay = self._read_anew(beginning, stretch, server, stop)
            begin_replay(control, beginning.claim, beginning.checkpoint, replay, self._lanes())
        self.report.end, self.report.ends_before = replay.end, replay.ends_before
        self.report.replayed, self.report.left = replay.replayed or {}, replay.left or {}
        return replay

    def _read_anew(
        self, beginning: ReplayStart, stretch: RelayStretch, server: SourceServer, stop: threading.Event
    ) -> StoredReplay:
        shutil.rmtree(self._directory, ignore_errors=True)
        request, start = self._request, beginning.checkpoint.position
        self.report.enter("looking at the relay")
        asked = self._asked(beginning, server, stop)
        pieces = stretch.pieces(end=asked)
        if not pieces:
            why = f"the relay ends at {start}"
            if asked is not None:
                why = f"nothing after the checkpoint, {start}, lies before the place that was asked for, {asked}"
            raise DMError("replay-nothing", task=request.subtask.task, why=why)
        buckets = min(_MOST_BUCKETS, max(2 * self._cores(), total_bytes(pieces) // _BUCKET_BYTES))
        replay = StoredReplay(
            uuid.uuid4().hex, beginning.claim.epoch, start, start, tuple(pieces), buckets, beginning.again
        )
        found = self._read(self._around(replay, beginning, server), buckets, pieces, stop)
        route = TableRules(request.subtask).route
        return plan_of(replay, found, stretch, request.subtask.task, beginning.checkpoint.bound, route)

    def _asked(self, beginning: ReplayStart, server: SourceServer, stop: threading.Event) -> Position | None:
        """The place that was asked for; None where the relay's end comes first. Raises DMError."""
        request = self._request
        if not request.until:
            return None
        until, room = self._place(request.subtask, request.until), request.subtask.syncer.reading_quota
        return place_of_end(until, request.relay, server.facts, beginning.checkpoint.position, room, stop)

    def _around(self, replay: StoredReplay, beginning: ReplayStart, server: SourceServer) -> ReplayContext:
        subtask = self._request.subtask
        target = with_settings(subtask.target, server.settings)
        return ReplayContext(
            subtask.model_copy(update={"target": target}),
            server.facts,
            server.settings,
            server.collations,
            self._views,
            beginning.known,
            self._request.relay,
            self._directory / replay.number,
            replay.start.server_uuid,
            replay.again,
        )

    # -- The jobs

    def _read(
        self, around: ReplayContext, buckets: int, pieces: Sequence[RelayRange], stop: threading.Event
    ) -> list[Decoded]:
        report = self.report
        report.pieces, report.bytes = len(pieces), total_bytes(pieces)
        found: list[Decoded] = []

        def done(decoded: Decoded) -> None:
            found.append(decoded)
            report.done_pieces += 1
            report.done_bytes += total_bytes([decoded.piece])
            report.changes += decoded.changes

        with self.report.timed("reading", self._clock):
            self._tasks(PieceDecoder(around, buckets), pieces, done, "replay: read", stop)
        return found

    def _apply(self, replay: StoredReplay, around: ReplayContext, stop: threading.Event) -> None:
        report = self.report

        def applied(one: BucketResult) -> None:
            report.done_buckets += 1
            report.applied += one.changes
            report.as_events += one.as_events

        for phase, words in ((REMOVALS, "removing"), (WRITES, "writing")):
            if phase == REMOVALS and not replay.removals:
                continue
            buckets = range(replay.buckets)
            report.buckets, report.done_buckets = len(buckets), 0
            pace = handle_of(self._pace, self._spark.context())
            applier = BucketApplier(around, self._key, replay.epoch, self._lanes(), replay.pieces, phase, pace)
            with self.report.timed(words, self._clock):
                self._tasks(applier, buckets, applied, f"replay: {words}", stop)
            if phase == REMOVALS:
                faults.hit("replay.removed")

    def _tasks(
        self,
        function: Callable[[ItemT], ResultT],
        items: Sequence[ItemT],
        done: Callable[[ResultT], None],
        description: str,
        stop: threading.Event,
    ) -> None:
        if items and not run_tasks(
            self._spark.context(), function, items, stop, done, description, waits=self._waits, at_once=self._lanes()
        ):
            raise _Stopped

    def _cores(self) -> int:
        return int(self._spark.context().defaultParallelism)

    def _lanes(self) -> int:
        """How many sessions may apply at a time; a lost one may hold its lane for a moment."""
        return min(MOST_LANES, 2 * self._cores() + 2)

    def _waits(self, what: str) -> None:
        if what:
            self.report.phase = what
