"""How a run begins to resolve conflicts (`conflicts`): what it agrees on with the opposite task, and what it reads.

The order matters. A run has stored its own setting before it asks for the opposite's, so of two that start together at
least one sees the other. Its lane has a place before the opposite may look for it. A losing task knows the opposite's
place where it begins before it reads on, and reads the target's binlog from there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import Position
from dm.progress.conflict_record import create_record
from dm.progress.opposite import marks_of, opposite_of
from dm.progress.opposite_place import LookAhead, ProgressRows, demand_alike, place_lane, store_setting
from dm.progress.opposite_sources import OppositeSources
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.sourcelog.stream.marks import Marks
from dm.sourcelog.stream.source_server import SourceServer
from dm.sourcelog.upstream.connection import Connection
from dm.syncer.apply.resolution import Record, Resolution, SourceWins, TargetWins
from dm.syncer.apply.target_writes import TargetWrites


def declare_conflicts(control: TargetConnection, key: SubtaskKey, subtask: SubtaskConfig) -> None:
    """Before a run takes over: store its setting; raises DMError."""
    store_setting(control, key, subtask)
    if subtask.syncer.one_side_wins:
        create_record(control, key)


def agree(
    subtask: SubtaskConfig, server: SourceServer, taken: Takeover, control: TargetConnection, start: Position
) -> None:
    """Once it has taken over: demand that the opposite resolves alike, and let it know this task's place.

    Raises DMError.
    """
    demand_alike(subtask, lambda: server.addresses.open()[0])
    if subtask.syncer.one_side_wins:
        place_lane(control, taken.claims, taken.rows, start)


@dataclass(frozen=True, slots=True)
class Resolving:
    """What resolves the conflicts of a run."""

    resolution: Resolution
    writes: TargetWrites | None = None  # of a losing task

    def let_go(self) -> None:
        """The run ends: no lane waits any more."""
        if self.writes is not None:
            self.writes.let_go()

    def close(self) -> None:
        """After the lanes."""
        if self.writes is not None:
            self.writes.close()


@dataclass(frozen=True, slots=True)
class ResolvingContext:
    """What resolving needs of a run."""

    open_session: Callable[[], TargetConnection]  # at the target
    scratch: Path
    clock: Clock
    stop: threading.Event
    failed: Callable[[BaseException], None]


def begin_resolving(
    subtask: SubtaskConfig,
    server: SourceServer,
    key: SubtaskKey,
    start: Position,
    marks: Marks | None,
    context: ResolvingContext,
) -> Resolving | None:
    """Begin to resolve as the task's file says; None where no side wins. Raises DMError."""
    settings = subtask.syncer
    if not settings.one_side_wins or marks is None:
        return None
    record = Record(key, rows=settings.conflict_rows == "keep")
    if settings.conflicts == "source-wins":
        return Resolving(SourceWins(record))
    brought = _place(subtask, server, start, marks, context)
    writes = TargetWrites(subtask, context.open_session, context.scratch / "writes", context.clock, context.failed)
    try:
        writes.start(brought)
    except BaseException:
        writes.close()
        raise
    return Resolving(TargetWins(record, writes), writes)


def _place(
    subtask: SubtaskConfig, server: SourceServer, start: Position, marks: Marks, context: ResolvingContext
) -> Position:
    """Where the opposite had come at the start; the marks of the run follow it from there."""
    opposite = opposite_of(subtask)
    assert opposite is not None, "one side wins, so there is an opposite"

    def source() -> Connection:
        return server.addresses.open()[0]

    of = OppositeSources(source, subtask.target, opposite.key)
    rows = ProgressRows(opposite, server.facts, lambda name: not of.of_others(name))

    def reading() -> Marks:
        found = marks_of(subtask, server.facts, source)
        assert found is not None
        return found

    ahead = LookAhead(opposite, rows, reading, server.event_source(), server.facts, source)
    brought = ahead.at(start, context.scratch / "ahead", context.stop)
    if brought is None:
        raise DMError("conflicts-not-begun", task=opposite.task)
    marks.places = rows.following(brought)
    return brought
