"""A run of a stream that comes back to main: of tables that were loaded beside it, or of a branch.

It follows like any sync, reports that it is near, and rests where main waits for it (J1 to J3 of
`dm.progress.joining.table_joining`).

Main's other tables wait for a share that is near, so it is near only while it gets on, or has nothing to do. A branch
that executes a long statement is not: it stands at the place where it left, and main's checkpoint may still be there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from dm import faults
from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.mysql.sql.piece import Piece
from dm.position import Position
from dm.progress.checkpoint import read_position_of
from dm.progress.joining.table_joining import Joining, Phase, be_near, be_ready, note_piece, read_current
from dm.progress.lane_rows import CONTROL
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.ddl.execution import Structures
from dm.syncer.resources import RunParts
from dm.syncer.state_found import StateFound
from dm.syncer.stream_role import Beside, caught_up, run_until
from dm.syncer.sync_status import is_at_rest

_SHARE_LOOK_SECONDS: Final = 0.1  # main may wait
_FOLLOWING: Final[tuple[Phase, ...]] = ("loading", "undo", "near", "until")


class ShareRun(Beside):
    """One run of the share; `main` will get its tables."""

    def __init__(self, subtask: SubtaskConfig, main: SubtaskKey, joining: Joining) -> None:
        super().__init__(subtask)
        self.key = joining.progress(main)
        self._main = main
        self._joining = joining
        self._seen: Position | None = None  # the mark at the last look
        self._rested = False  # and whether there was nothing to do

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Whether the share still has to follow: an older run may have become ready before it ended."""
        found = self._found(control)
        return found is not None and found.phase in _FOLLOWING

    def follow(
        self,
        parts: RunParts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run, and report that the share is ready; raises DMError."""
        there = False
        self._seen = state.checkpoint.position
        parts.ddl.execution.tell(lambda piece, now: self._note(parts, piece, now))

        def look(connection: TargetConnection) -> bool:
            nonlocal there
            there = self._look(connection, parts, state)
            return there

        run_until(look, parts, sessions, failed, clock, run, _SHARE_LOOK_SECONDS)
        stored = parts.progress.stored
        if there and parts.completions.under_way == 0 and self._done(state, stored):
            be_ready(state.writer.connection, state.claims[CONTROL], self._main, self._joining, stored)

    def _note(self, parts: RunParts, piece: Piece, now: Structures) -> None:
        """Before a piece is executed, store the tables that a cancellation would have to drop."""
        if self._joining.kind == "add" and (piece.made or piece.renames):
            parts.progress.beside(lambda control: note_piece(control, self._main, piece, now))
            faults.hit("join.noted")

    def _look(self, connection: TargetConnection, parts: RunParts, state: StateFound) -> bool:
        """Whether the run has to end: main waits here, or it can't come there, or is not wanted. Reports being near."""
        found, mark = self._found(connection), parts.completions.mark.position
        rested, self._rested = self._rested, is_at_rest(parts)
        gets_on, self._seen = mark != self._seen or (rested and self._rested), mark
        if found is None or found.phase not in _FOLLOWING:
            return True
        if not self._done(state, mark):
            return False
        if found.phase == "until":
            place = found.place
            return place is None or mark.reaches(place) or not mark.same_files(place)
        if found.phase in ("loading", "undo") and gets_on:
            main = read_position_of(connection, self._main)
            if main is not None and mark.reaches(main):
                parts.progress.beside(lambda control: be_near(control, self._main, found))
                faults.hit("join.near")
        return False

    def _found(self, connection: TargetConnection) -> Joining | None:
        """The row, unless it belongs to another join."""
        return read_current(connection, self._main, self._joining)

    @staticmethod
    def _done(state: StateFound, position: Position) -> bool:
        """Whether the position is past the load's window and everything that earlier runs did."""
        return caught_up(state, position) and not replace(state.checkpoint, position=position).points_ahead()
