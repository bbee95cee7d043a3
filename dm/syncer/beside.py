"""What a sync unit's run has beside it where the tables of its source have more than one stream.

Shards that are held and read again (`sharding`), and tables that are loaded beside the stream (`joining`).
Everything that a run does by itself stays in `unit.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.tables import SubtaskKey
from dm.progress.takeover import Takeover
from dm.rules.table_rules import TableRules
from dm.syncer.apply.target_sessions import TargetSessions
from dm.syncer.parts import Parts
from dm.syncer.state_found import StateFound
from dm.syncer.stream.origin import Origin


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
        parts: Parts,
        state: StateFound,
        sessions: TargetSessions,
        failed: Callable[[BaseException], None],
        clock: Clock,
        run: Callable[[], None],
    ) -> None:
        """Run, and do what is to be done behind it; raises DMError."""
        ...
