"""The share's run: it follows its tables until it is near main, or to the place where main waits, and rests there.

`dm.progress.joining` says what is stored at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.joining import Joining, be_ready, read_place
from dm.progress.lane_rows import CONTROL
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.joining.caught_up import caught_up
from dm.syncer.joining.one_stream import OneStream, run_until
from dm.syncer.parts import Parts
from dm.syncer.state_found import StateFound


class ShareRun(OneStream):
    """One run of the share; `main` is whose tables they are to be."""

    def __init__(self, subtask: SubtaskConfig, main: SubtaskKey, joining: Joining) -> None:
        super().__init__(subtask)
        self._main = main
        self._joining = joining

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """It always runs."""
        return True

    def follow(
        self,
        parts: Parts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run, and be ready behind it; raises DMError."""
        called = self._joining.phase == "until"
        near = False

        def look(connection: TargetConnection) -> bool:
            nonlocal near
            near = self._near(connection, state, parts.completions.mark.position)
            return near

        if called:
            run()
        else:
            run_until(look, parts, sessions, failed, clock, run)
        stored = parts.progress.stored
        there = parts.reader.queue.exhausted if called else near
        if there and parts.completions.under_way == 0 and self._done(state, stored):
            be_ready(state.writer.connection, state.claims[CONTROL], self._main, self._joining, stored)

    def _near(self, connection: TargetConnection, state: StateFound, mark: Position) -> bool:
        """Whether it is where main is, or further, and nothing of the load is ahead."""
        main = read_place(connection, self._main)
        return main is not None and mark.reaches(main) and self._done(state, mark)

    @staticmethod
    def _done(state: StateFound, position: Position) -> bool:
        return caught_up(state, position) and not replace(state.checkpoint, position=position).points_ahead()
