"""What main's run and the share's have in common: each follows one stream, and needs nothing beside it to be set up."""

from __future__ import annotations

from collections.abc import Callable

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.tables import SubtaskKey
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.origin import Origin
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.beside import LOOK_SECONDS, BesideWatch
from dm.syncer.parts import RunParts
from dm.syncer.state_found import StateFound


class OneStream:
    """A `Beside` without `begin` and `follow`."""

    def __init__(self, subtask: SubtaskConfig) -> None:
        self.key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
        self.rules = TableRules(subtask)

    def floor(self, position: Position) -> Position:
        """All before the checkpoint is done, or held by who needs it."""
        return position

    def create_tables(self, connection: TargetConnection) -> None:
        """There are none beside those of every task."""

    def join(self, control: TargetConnection, state: StateFound, origin: Origin, clock: Clock) -> None:
        """Nothing."""


def run_until(
    look: Callable[[TargetConnection], bool],  # whether the run is to end
    parts: RunParts,
    sessions: TargetSessions,
    failed: Callable[[BaseException], None],
    clock: Clock,
    run: Callable[[], None],
    pause: float = LOOK_SECONDS,
) -> None:
    """Run until a look at the target says that the stream is to end, or the run ends by itself; raises DMError."""
    watch = BesideWatch(sessions.open, look, parts.reader.queue.break_off, failed, clock, pause)
    watch.start()
    watch.wake()
    try:
        run()
    finally:
        watch.stop()


# When a run may give tables to another stream, or take them.


def caught_up(state: StateFound, position: Position) -> bool:
    """Whether a run is past all that any run did or announced, its tables' own points included."""
    done = (state.checkpoint.bound, state.done.keyless, state.done.atomic, state.ordered.reached, state.ordered.done)
    points = (point.point for point in state.checkpoint.tables.values())
    announced = None if state.intent is None else state.intent.position
    return all(other is None or position.covers(other) for other in (*done, *points, announced))
