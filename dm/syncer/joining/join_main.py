"""Main's run while tables are loaded beside it: it leaves them out, ends where they may come back, and takes them back.

`dm.progress.joining.steps` says what is stored at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.checkpoint import Checkpoint
from dm.progress.joining.steps import Joining, call, give_up, let_go, read_joining, same_place, take_back
from dm.progress.lane_rows import CONTROL, LaneClaim
from dm.progress.ordered_tables import read_ordered
from dm.progress.takeover import Takeover
from dm.rules.owned_tables import BesideShare
from dm.sourcelog.stream.until import UntilPosition
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.beside import Beside, caught_up, run_until
from dm.syncer.parts import RunParts
from dm.syncer.state_found import StateFound
from dm.unit import JSON


class MainRun(Beside):
    """One reading of main; where nothing is loaded beside it, an ordinary run."""

    def __init__(self, subtask: SubtaskConfig, *, bounded: bool = False, call_at: float = 0.0) -> None:
        super().__init__(subtask)
        self._subtask = subtask
        self._bounded = bounded  # it goes on to the share's place, and ends there
        self._call_at = call_at  # by the clock: not before that it rests for a share that is near
        self.joining: Joining | None = None
        self.again = False  # another reading follows
        self.until: UntilPosition | None = None  # where that one is to end: at the share's place
        self.called: Position | None = None  # where the share is to come to before it
        self._log = structlog.get_logger()

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Give tables up, or take them back, where main rests at its checkpoint; raises DMError."""
        joining = read_joining(control, self.key)
        if joining is not None and taken.checkpoint is not None:
            if self._hands_over(control, taken, joining, taken.checkpoint):
                self.again = True
                return False
            joining = read_joining(control, self.key)
        self.joining = joining
        if joining is not None and not (joining.kind == "reload" and joining.phase == "asked"):
            self.rules = BesideShare(self._subtask, joining.share)
        return True

    def _hands_over(self, control: TargetConnection, taken: Takeover, joining: Joining, checkpoint: Checkpoint) -> bool:
        """Do what can be done at rest; whether tables may have changed hands. Raises DMError."""
        claim, place, here = taken.claims[CONTROL], joining.place, checkpoint.position
        rests, may = self._rests(control, taken), self._wants(joining)
        if joining.phase == "asked":
            given = (rests or joining.kind == "add") and may and give_up(control, claim, joining, checkpoint)
            if given:
                self._log.info("tables leave the stream", tables=_words(joining), place=str(here))
            return given
        if joining.phase == "ready" and rests and may and place is not None:
            if same_place(place, here):
                if take_back(control, claim, joining, checkpoint):
                    self._log.info("tables join the stream", tables=_words(joining), place=str(place))
                return True
            if not _ahead(place, here):
                let_go(control, claim, joining)
        return False

    def _wants(self, joining: Joining) -> bool:
        """Whether this run has the list that tables are added by: the one of before did not want them."""
        return joining.kind == "reload" or self._subtask.block_allow_list != joining.share.older

    @staticmethod
    def _rests(control: TargetConnection, taken: Takeover) -> bool:
        """Whether no run has done anything after the checkpoint, or announced it."""
        if taken.checkpoint is None or taken.checkpoint.points_ahead():
            return False
        if taken.intent is not None and not taken.checkpoint.position.covers(taken.intent.position):
            return False
        ordered = read_ordered(control, taken.claims[CONTROL].key)
        done = (taken.checkpoint.bound, taken.reached(ordered.reached), taken.reached(ordered.done))
        return all(each is None for each in done)

    def follow(
        self,
        parts: RunParts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run until the tables may change hands; raises DMError."""
        joining = self.joining
        if joining is None:
            run()
            return

        def look(connection: TargetConnection) -> bool:
            self.again = self._ends(connection, joining, state, parts.completions.mark.position, clock)
            return self.again

        run_until(look, parts, sessions, failed, clock, run)
        self.again = self.again or (self._bounded and parts.reader.queue.exhausted)
        stored = parts.progress.stored
        if self.again and parts.completions.under_way == 0 and caught_up(state, stored):
            self._meet(state.writer.connection, state.claims[CONTROL], joining, stored)

    def _ends(
        self, connection: TargetConnection, joining: Joining, state: StateFound, mark: Position, clock: Clock
    ) -> bool:
        """Whether the run is to end."""
        found = read_joining(connection, self.key)
        self.joining = found
        if found is None or found.number != joining.number:
            return True
        if found.phase == "asked":
            return found.kind == "reload" and caught_up(state, mark)
        if self._bounded or not self._wants(found) or (found.phase == "near" and clock.monotonic() < self._call_at):
            return False
        return found.phase in ("near", "ready") and caught_up(state, mark)

    def _meet(self, control: TargetConnection, claim: LaneClaim, joining: Joining, stored: Position) -> None:
        """A share that is near is to come here; where it rests ahead, main goes on to it."""
        found = read_joining(control, self.key)
        if found is None or found.number != joining.number:
            return
        if found.phase == "near":
            call(control, claim, found, stored)
            self.called, self.joining = stored, replace(found, phase="until", place=stored)
        elif found.phase == "ready" and found.place is not None and _ahead(found.place, stored):
            self.until = UntilPosition(found.place)

    def status(self) -> dict[str, JSON]:
        """For `query-status`."""
        joining = self.joining
        if joining is None:
            return {}
        shown: dict[str, JSON] = {
            "number": joining.number,
            "kind": joining.kind,
            "phase": joining.phase,
            "tables": [table.sql for table in joining.names],
        }
        return {"synced": False, "joining": shown}


def _ahead(place: Position, stored: Position) -> bool:
    """Whether main comes to the share's place if it goes on."""
    return place.same_files(stored) and stored.order < place.order


def _words(joining: Joining) -> str:
    return ", ".join(map(str, joining.names)) or "those that the list has got"
