"""What runs beside a sync unit's run: its role among the streams of its source.

An ordinary run is its source's only stream (`Beside`). Held shards are read again by a second pass
(`dm.syncer.shards`), and tables may be loaded beside the stream (`dm.syncer.joined_sync`). Everything that a run does
alone is in `unit.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from dm.clock import Clock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.mysql.schema.table import TableSchema
from dm.position import Position
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.prepared import PreparedTransactions
from dm.sourcelog.stream.source_server import SourceServer
from dm.syncer.apply.progress_writer import ProgressWriter
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.ddl.gate import DdlGate, GateSides, OpenGate
from dm.syncer.resources import RunParts
from dm.syncer.state_found import StateFound


class Beside:
    """Called by the run, in this order except `floor`; by default, nothing is beside the run."""

    def __init__(self, subtask: SubtaskConfig) -> None:
        self.key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)  # the progress that the run has
        self.rules = TableRules(subtask)  # of the run, once it has begun
        self.rows_beside: int | None = None  # of a larger table, long statements leave the run with it

    @property
    def main_key(self) -> SubtaskKey | None:
        """The subtask whose operators change with the run's own."""
        return None

    def floor(self, position: Position) -> Position:
        """From where the binlog is needed, with this checkpoint."""
        return position

    def attend(self, prepared: PreparedTransactions) -> None:
        """These are the unit's XA transactions."""

    def create_tables(self, connection: TargetConnection) -> None:
        """Create progress tables beside those of every task."""

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """All older runs have ended; False if this is not the time for a run. Raises DMError."""
        return True

    def join(self, control: TargetConnection, state: StateFound, server: SourceServer, clock: Clock) -> None:
        """The state is read, and nothing is dispatched yet; raises DMError."""

    def bound(self, found: Position | None) -> Position | None:
        """How far earlier runs may have gone beyond the checkpoint; `found` is the stored bound."""
        return found

    def gate(self, sides: GateSides) -> DdlGate:
        """The gate that every statement has to pass."""
        return OpenGate()

    def structure_found(self, progress: ProgressWriter, schema: TableSchema) -> None:
        """Rows have shown a structure, and are not applied yet; raises DMError."""

    def others_have(self, progress: ProgressWriter, table: TableName, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Which of these columns other shards of a table's target have, or may have."""
        return ()

    def follow(
        self,
        parts: RunParts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run, and do what follows the run; raises DMError."""
        run()


LOOK_SECONDS: Final = 0.3


class BesideWatch:
    """Looks at the target whether the run has to end, in a thread with its own session; tells it once."""

    def __init__(
        self,
        open_session: Callable[[], TargetConnection],
        look: Callable[[TargetConnection], bool],  # whether the run has to end
        due: Callable[[], None],
        failed: Callable[[BaseException], None],
        clock: Clock,
        pause: float = LOOK_SECONDS,
    ) -> None:
        self._open = open_session
        self._look = look
        self._due = due
        self._failed = failed
        self._clock = clock
        self._pause = pause
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="beside", daemon=True)

    def start(self) -> None:
        """Start the thread; it sleeps until `wake`."""
        self._thread.start()

    def wake(self) -> None:
        """Look from now on."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._wake.wait()
            if self._stop.is_set():
                return
            connection = self._open()
            while not self._clock.wait(self._stop, self._pause):
                if self._look(connection):
                    self._due()
                    return
        except BaseException as error:  # handed to the owner, which raises it in the unit's own thread
            if not self._stop.is_set():
                self._failed(error)


def run_until(
    look: Callable[[TargetConnection], bool],  # whether the run has to end
    parts: RunParts,
    sessions: TargetSessions,
    failed: Callable[[BaseException], None],
    clock: Clock,
    run: Callable[[], None],
    pause: float = LOOK_SECONDS,
) -> None:
    """Run until a look at the target says that the run has to end, or it ends by itself; raises DMError."""
    watch = BesideWatch(sessions.open, look, parts.reader.queue.break_off, failed, clock, pause)
    watch.start()
    watch.wake()
    try:
        run()
    finally:
        watch.stop()


def caught_up(state: StateFound, position: Position) -> bool:
    """Whether a run is past everything that any run did or announced, and its tables' own points.

    Then it may give tables to another stream, or take them.
    """
    done = (state.checkpoint.bound, state.done.ordered, state.done.atomic, state.ordered.reached, state.ordered.done)
    points = (point.point for point in state.checkpoint.tables.values())
    announced = None if state.intent is None else state.intent.position
    return all(other is None or position.covers(other) for other in (*done, *points, announced))
