"""Looks, while tables are loaded beside the stream, whether a run is to end because of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.syncer.state_found import StateFound

LOOK_SECONDS: Final = 0.3


def caught_up(state: StateFound, position: Position) -> bool:
    """Whether a run is behind all that any run did or announced, its tables' own points included."""
    done = (state.checkpoint.bound, state.done.keyless, state.done.atomic, state.ordered.reached, state.ordered.done)
    points = (point.point for point in state.checkpoint.tables.values())
    announced = None if state.intent is None else state.intent.position
    return all(other is None or position.covers(other) for other in (*done, *points, announced))


class JoinWatch:
    """One thread with a session of its own; it ends the run's queue once."""

    def __init__(
        self,
        open_session: Callable[[], TargetConnection],
        look: Callable[[TargetConnection], bool],  # whether the run is to end
        due: Callable[[], None],
        failed: Callable[[BaseException], None],
        clock: Clock,
    ) -> None:
        self._open = open_session
        self._look = look
        self._due = due
        self._failed = failed
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="join", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            connection = self._open()
            while not self._clock.wait(self._stop, LOOK_SECONDS):
                if self._look(connection):
                    self._due()
                    return
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            if not self._stop.is_set():
                self._failed(error)
