"""How much of the time a validator's looks may take: a small share while the syncer is behind, else all of it.

Problem: a look is work for the target, and a target that catches up has no time left. The low priority of the
validator's process holds back the process only, not what it asks a server for.

Invariant: while the syncer is behind, one look is under way at a time, and after each one nobody looks until it was
`SHARE` of the time. Few rows are read ahead of the looks, and nothing is left out: it is looked at later.

A mark tells whether the syncer is behind: the source's end at some moment. The syncer is behind while its checkpoint
has not passed a mark that is older than a checkpoint may be; and at first, until it has passed one. A checkpoint that
does not move is of a syncer that does not run, or is within one transaction: then there is nobody to give way to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from dm.clock import Clock
from dm.errors import DMError
from dm.position import Position

NICENESS: Final = 19  # of the validator's process
SHARE: Final = 0.05
_PATIENCE: Final = 10.0  # seconds that a checkpoint may be late

Found = TypeVar("Found")


class Pace:
    """One thread follows the syncer; any thread looks."""

    def __init__(
        self, source_end: Callable[[], Position], clock: Clock, interval: float, flush_interval: float
    ) -> None:
        self._source_end = source_end
        self._clock = clock
        self._interval = interval
        self._patience = flush_interval + interval + _PATIENCE
        self._turn = threading.Lock()
        self._free = threading.Event()  # nobody has to give way
        self._behind, self._ended = True, False
        self._mark: Position | None = None
        self._applied: Position | None = None
        self._marked_at = self._moved_at = self._due = clock.monotonic()

    @property
    def gives_way(self) -> bool:
        """Whether looks take a share of the time only."""
        return not self._free.is_set()

    def end(self) -> None:
        """Let nobody rest any more."""
        self._ended = True
        self._free.set()

    def look(self, act: Callable[[], Found]) -> Found:
        """Call it, in its turn."""
        if self._free.is_set():
            return act()
        with self._turn:
            began = self._clock.monotonic()
            try:
                return act()
            finally:
                self._clock.wait(self._free, (self._clock.monotonic() - began) * (1 / SHARE - 1))

    def due(self) -> bool:
        """Whether it is time to follow the syncer."""
        return self._clock.monotonic() >= self._due

    def follow(self, applied: Position | None) -> None:
        """The syncer's checkpoint is this one; without any, there is nobody to give way to."""
        now = self._clock.monotonic()
        self._due = now + self._interval
        if applied != self._applied:
            self._applied, self._moved_at = applied, now
        if applied is not None and self._mark is not None and _covers(applied, self._mark) is not False:
            self._behind, self._mark = False, None
        if self._mark is None:
            self._take_mark(now)
        elif now - self._marked_at > self._patience:
            self._behind = True
        if self._behind and applied is not None and now - self._moved_at <= self._patience:
            self._free.clear()
        else:
            self._free.set()
        if self._ended:  # meanwhile
            self._free.set()

    def _take_mark(self, now: float) -> None:
        try:
            self._mark, self._marked_at = self._source_end(), now
        except DMError as error:  # whoever needs the source tells what is wrong with it
            structlog.get_logger().info("the source's end is not known", error=error.name)


def _covers(applied: Position, mark: Position) -> bool | None:
    """Whether the mark is passed; None if it is of another server by now."""
    try:
        return applied.covers(mark)
    except DMError:
        return None
