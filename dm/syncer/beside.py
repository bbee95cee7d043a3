"""What a sync unit's run has beside it where the tables of its source have more than one stream.

Shards that are held and read again (`sharding`), and tables that are loaded beside the stream (`joining`).
Everything that a run does by itself stays in `unit.py`.

Looks at the target, while something goes on beside a run, whether the run is to end because of it.

Where nothing is to be looked for yet this thread sleeps.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.origin import Origin
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.parts import RunParts
from dm.syncer.state_found import StateFound


class Beside(Protocol):
    """Asked by the run, in this order."""

    @property
    def key(self) -> SubtaskKey:
        """Whose progress the run has."""
        ...

    @property
    def rules(self) -> TableRules:
        """The rules of the run, once it has begun."""
        ...

    def floor(self, position: Position) -> Position:
        """From where on the binlog is needed, with this checkpoint."""
        ...

    def create_tables(self, connection: TargetConnection) -> None:
        """Create progress tables beside those of every task."""
        ...

    def begin(self, control: TargetConnection, taken: Takeover) -> bool:
        """Nothing older runs any more; False where this is not the time for a run. Raises DMError."""
        ...

    def join(self, control: TargetConnection, state: StateFound, origin: Origin, clock: Clock) -> None:
        """The state is read, and nothing is dispatched yet; raises DMError."""
        ...

    def follow(
        self,
        parts: RunParts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run, and do what is to be done after it; raises DMError."""
        ...


LOOK_SECONDS: Final = 0.3


class BesideWatch:
    """One thread with a session of its own; it tells once that the run is to end."""

    def __init__(
        self,
        open_session: Callable[[], TargetConnection],
        look: Callable[[TargetConnection], bool],  # whether the run is to end
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
        """Begin; it sleeps until `wake`."""
        self._thread.start()

    def wake(self) -> None:
        """There is something to be looked for from now on."""
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
