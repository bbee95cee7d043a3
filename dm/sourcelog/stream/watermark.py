"""Until when a source has surely nothing more to say: what raises the frontier of one that is idle.

The clock of the source is read first, then the end of its binlog. A transaction that is not before that end is written
later, so its commit time is later than the clock. Two things are taken off the clock. A clock may be set back by a
little. And MariaDB's commit times are whole seconds: those of the time at which the last statement began.

That statement may have begun long before its transaction is written. Then its time lies below the frontier. It counts
as committed at the frontier, which is between its own time and the time when it was really committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dm.clock import Clock
from dm.sourcelog.stream.source_monitor import SourceEnd
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end

INTERVAL_SECONDS: Final = 0.5  # between two looks at the source
FINE_MARGIN: Final = 200_000  # microseconds
COARSE_MARGIN: Final = 1_000_000  # where times are whole seconds


def has_fine_times(facts: ServerFacts) -> bool:
    """Whether the source's binlog has commit times in microseconds."""
    return facts.dialect.has_commit_times


class Watermark:
    """Written by the source monitor's thread, read by the dispatcher's."""

    def __init__(self, clock: Clock, told: Callable[[], None]) -> None:
        self._clock = clock
        self._told = told
        self._latest: tuple[SourceEnd, int] | None = None
        self.skew: int | None = None
        """The source's clock minus ours, in microseconds; as exact as half of a round trip."""

    @property
    def latest(self) -> tuple[SourceEnd, int] | None:
        """The last end read, and the moment up to which nothing comes after it."""
        return self._latest

    def look(self, connection: Connection, facts: ServerFacts, source_time: float) -> None:
        """Read the end after the clock; raises DMError."""
        moment = round(source_time * 1_000_000)
        self.skew = moment - round(self._clock.time() * 1_000_000)
        read_at = self._clock.monotonic()
        margin = FINE_MARGIN if has_fine_times(facts) else COARSE_MARGIN
        self._latest = SourceEnd(binlog_end(connection, facts), source_time, read_at), moment - margin
        self._told()
