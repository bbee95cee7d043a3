"""The share's run: it follows its tables, says when it is near main, and comes to where main waits, and rests there.

Main's other tables wait meanwhile. So it is the running share that comes, without a start in between, and it rests at
the first place at which it can: there, or a little further.

`dm.progress.joining.steps` says what is stored at each step.
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
from dm.progress.joining.made import note_piece
from dm.progress.joining.steps import Joining, Phase, be_near, be_ready, read_joining, read_place
from dm.progress.lane_rows import CONTROL
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.beside import Beside, caught_up, run_until
from dm.syncer.ddl.execution import Structures
from dm.syncer.parts import RunParts
from dm.syncer.state_found import StateFound

_LOOK_SECONDS: Final = 0.1  # main may wait
_FOLLOWING: Final[tuple[Phase, ...]] = ("loading", "undo", "near", "until")


class ShareRun(Beside):
    """One run of the share; `main` is whose tables they are to be."""

    def __init__(self, subtask: SubtaskConfig, main: SubtaskKey, joining: Joining) -> None:
        super().__init__(subtask)
        self._main = main
        self._joining = joining

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Whether it is to follow still: an older run, which has ended by now, may be ready."""
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
        """Run, and be ready after it; raises DMError."""
        there = False
        parts.ddl.execution.tell(lambda piece, now: self._note(parts, piece, now))

        def look(connection: TargetConnection) -> bool:
            nonlocal there
            there = self._look(connection, parts, state)
            return there

        run_until(look, parts, sessions, failed, clock, run, _LOOK_SECONDS)
        stored = parts.progress.stored
        if there and parts.completions.under_way == 0 and self._done(state, stored):
            be_ready(state.writer.connection, state.claims[CONTROL], self._main, self._joining, stored)

    def _note(self, parts: RunParts, piece: Piece, now: Structures) -> None:
        """Before it is executed, store what a cancel will have to drop because of it."""
        if self._joining.kind == "add" and (piece.made or piece.renames):
            parts.progress.beside(lambda control: note_piece(control, self._main, piece, now))
            faults.hit("join.noted")

    def _look(self, connection: TargetConnection, parts: RunParts, state: StateFound) -> bool:
        """Whether it is to end: main waits here, or it can't come there, or is not wanted. Says where it is near."""
        found, mark = self._found(connection), parts.completions.mark.position
        if found is None or found.phase not in _FOLLOWING:
            return True
        if not self._done(state, mark):
            return False
        if found.phase == "until":
            place = found.place
            return place is None or mark.reaches(place) or not mark.same_files(place)
        if found.phase in ("loading", "undo"):
            main = read_place(connection, self._main)
            if main is not None and mark.reaches(main):
                parts.progress.beside(lambda control: be_near(control, self._main, found))
                faults.hit("join.near")
        return False

    def _found(self, connection: TargetConnection) -> Joining | None:
        """The row, if it is that of this time."""
        found = read_joining(connection, self._main)
        return found if found is not None and found.number == self._joining.number else None

    @staticmethod
    def _done(state: StateFound, position: Position) -> bool:
        """Whether nothing of the load, or of an earlier run, is ahead."""
        return caught_up(state, position) and not replace(state.checkpoint, position=position).points_ahead()
