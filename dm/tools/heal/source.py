"""One source of a heal: the place where its stream goes on, its tables there, and the right to write for it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial

from dm import faults
from dm.clock import Clock
from dm.config.subtask import Share
from dm.downstream.connection import TargetConnection
from dm.dumper.structures import StructuresAtPoint, read_structures, same, structures_at_a_point
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import Handover
from dm.progress.healed import end_heal, release_lane
from dm.progress.joining.table_joining import Joining, ask, find_joining, take_away
from dm.progress.lane_rows import CONTROL, LaneClaim
from dm.progress.tables import SubtaskKey, create_tables
from dm.progress.takeover import Fence, Waiting, take_over
from dm.rules.table_rules import TableRules
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.file_births import FileBirth
from dm.sourcelog.upstream.connection import Connection, identity_for, read_source_settings
from dm.sourcelog.upstream.facts import binlog_files, question_session, read_facts
from dm.sourcelog.upstream.lineage import creation_time
from dm.sourcelog.upstream.snapshot import lower_bound, upper_bound, wait_for_no_prepared_xa
from dm.tools.errands import HealedSubtask
from dm.tools.heal.mending import Lane
from dm.tools.heal.survey import HealSurvey, Surveyed

ALTERED = "its structure was changed meanwhile"


class HealedSource:
    """Its sessions end with the stack."""

    def __init__(self, healed: HealedSubtask, stack: ExitStack, clock: Clock) -> None:
        self._healed = healed
        self.subtask = healed.subtask
        self.rules = TableRules(self.subtask)
        self.key = SubtaskKey(self.subtask.meta_schema, self.subtask.task, self.subtask.source_id)
        self.control = stack.enter_context(closing(TargetConnection(self.subtask.target, several=True)))
        self.session: Connection = stack.enter_context(closing(question_session(self.subtask.source.endpoint)))
        self.facts = read_facts(self.session)
        self.settings = read_source_settings(self.session)
        self._clock = clock
        self._claim: LaneClaim | None = None
        self._birth: FileBirth | None = None

    def begin(self, stop: threading.Event) -> StructuresAtPoint:
        """Take P0; raises DMError."""
        settled = structures_at_a_point(self.session, self.rules.wanted, lambda: self._point(stop))
        self._birth = self._born(settled.point)
        return settled

    def surveyed(self, settled: StructuresAtPoint) -> Surveyed:
        """What the look at its tables begins with."""
        return Surveyed(self.subtask, settled, self.facts, self.settings, self.control, self.key)

    def _point(self, stop: threading.Event) -> Position:
        endpoint = self.subtask.source.endpoint
        point = lower_bound(partial(question_session, endpoint, self.facts), self.facts, stop)
        wait_for_no_prepared_xa(self.session, endpoint.user, stop)
        return point

    def _born(self, point: Position) -> FileBirth:
        identity = identity_for(self.subtask.task, self.subtask.source_id)
        created = creation_time(self.subtask.source.endpoint, identity, point.file)
        return FileBirth(self.facts.server_uuid, point.file, created)

    def take(self, stop: threading.Event, says: Waiting) -> Lane:
        """Nobody else writes for the subtask from here on; gives what may. Raises DMError."""
        create_tables(self.control, self.key)
        fence = Fence(self.key, self._clock, stop, says)
        claim = self._claim = take_over({CONTROL: self.control}, fence).claims[CONTROL]
        release_lane(self.control, self.key)
        asked = find_joining(self.control, self.key)
        if asked is not None:  # and not begun: all tables are looked at
            take_away(self.control, self.key, asked)
        return Lane(self.subtask, self.settings, self.control, claim, fence)

    def look_again(self, found: HealSurvey) -> None:
        """Tables that were altered since P0 are loaded whole; raises DMError."""
        now = read_structures(self.session, self.rules.wanted, found.structures)
        for name, text in found.structures.items():
            if not same(now[name], text):
                found.load_whole(found.routes[name], ALTERED, anew=True)

    def end_point(self) -> Position:
        """P1, taken after the last read of any source; raises DMError where the stream can't begin at P0 any more."""
        end, birth = upper_bound(self.session, self.facts), self._birth
        assert birth is not None
        there = birth.file in dict(binlog_files(self.session))
        if not there or self._born(Position(birth.server_uuid, birth.file)) != birth:
            raise DMError("heal-place-lost", task=self.subtask.task, place=f"{birth.file} of {self.subtask.source_id}")
        return end

    def end(self, found: HealSurvey, begin: Position, end: Position, points: Mapping[TableName, Position]) -> None:
        """The syncer may begin at P0; raises DMError."""
        claim = self._claim
        assert claim is not None
        tables = {
            name: (found.schemas[name], points.get(to)) for name, to in found.routes.items() if to not in found.whole
        }
        handover = Handover(begin, end, tables, birth=self._birth)
        validated = self.subtask.validator.mode != "none"
        end_heal(self.control, claim, handover, self._ask_whole(found), validated=validated)
        # P0 has none. Until the place has moved, a run from the one before may need them.
        shutil.rmtree(self._healed.sync_directory / "prepared", ignore_errors=True)
        if self._healed.relay is not None:
            Hold(self._healed.relay, self.subtask.task).keep_from(handover.p0)

    def _ask_whole(self, found: HealSurvey) -> Joining | None:
        if not found.whole:
            return None
        names = sorted(name for name, to in found.routes.items() if to in found.whole)
        share = Share(tables=tuple((each.schema, each.table) for each in names))
        create_tables(self.control, self.key.share)
        asked = ask(self.control, self.key, "reload", share, sorted(found.whole), anew=found.anew)
        faults.hit("heal.whole_asked")
        return asked
