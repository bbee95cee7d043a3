"""How much of the time a validator may take, and how far it reads.

Problem: a look is work for the target, and a target that catches up has no time left. The lowest priority for the
validator's process holds back the process only, not what it asks a server for.

Invariant: while the syncer is behind, one look is under way at a time, and after each one nobody looks until it was
`SHARE` of the time, or `LONGEST_REST` is over. The reader takes such a share of a processor. Nothing is left out: it is
read and looked at later.

A mark tells whether the syncer is behind: the source's end at some moment. The syncer is behind while its checkpoint
has not passed a mark that is older than `PATIENCE`; and at first, until it has passed one. There is nobody to give way
to where no mark is to be had, and where the checkpoint does not move: then the syncer does not run, or it is within
one transaction.

**How far**: the validator reads to the syncer's checkpoint, and no further than the place of a cut-over. What lies
after the checkpoint may not be applied yet, so its rows would be found different and wait for nothing. The checkpoint
is read at the target.

At the place where business moves to the target (`dmctl validation update`), rows count as wrong without
`row-error-delay`: who moves does not want to wait for it. Nothing after that place is validated.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import structlog

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.pace.governor import Governor
from dm.position import Position
from dm.progress.checkpoint import read_position_of
from dm.progress.tables import SubtaskKey
from dm.progress.validator import Cutover

NICENESS: Final = 19  # of the validator's process
SHARE: Final = 0.05
LONGEST_REST: Final = 10.0  # seconds, after a look that took long for another reason
PATIENCE: Final = 20.0  # seconds; a running syncer stores its checkpoint each second
_LOOK_SECONDS: Final = 5.0  # from one look at the syncer to the next

Found = TypeVar("Found")


class Throttle:
    """One thread follows the syncer; any thread looks, or rests."""

    def __init__(self, source_end: Callable[[], Position], clock: Clock, pace: Governor | None = None) -> None:
        self._source_end = source_end
        self._pace = pace
        self._end = threading.Event()
        self._clock = clock
        self._turn = threading.Lock()
        self._free = threading.Event()  # nobody has to give way
        self._ended = False
        self._behind = True
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
        self._end.set()

    def look(self, act: Callable[[], Found], rows: int = 0) -> Found:
        """Call it, in its turn, when the task's pace lets so many rows be looked at."""
        if self._pace is not None and self._pace.limited:
            self._pace.ask(rows, 0, self._end)
        if self._free.is_set():
            return act()
        with self._turn:
            began = self._clock.monotonic()
            try:
                return act()
            finally:
                self.rest(self._clock.monotonic() - began)

    def rest(self, worked: float) -> None:
        """Rest until the seconds of work are a share of the time, if that is all one may take."""
        if not self._free.is_set():
            self._clock.wait(self._free, min(worked * (1 / SHARE - 1), LONGEST_REST))

    def due(self) -> bool:
        """Whether it is time to follow the syncer."""
        return self._clock.monotonic() >= self._due

    def follow(self, applied: Position | None) -> None:
        """The syncer's checkpoint is this one; None: there is nobody to give way to."""
        if applied is None:
            self._free.set()
            return
        now = self._clock.monotonic()
        if applied != self._applied:
            self._applied, self._moved_at = applied, now
        if self._mark is not None and _passes(applied, self._mark):
            self._behind, self._mark = False, None
        if self._mark is None:
            self._take_mark(now)
        late = now - self._marked_at > PATIENCE
        self._behind = self._mark is not None and (self._behind or late)
        if self._behind and now - self._moved_at <= PATIENCE:
            self._free.clear()
        else:
            self._free.set()
        if self._ended:  # maybe since the call began
            self._free.set()
        self._due = self._clock.monotonic() + _LOOK_SECONDS

    def _take_mark(self, now: float) -> None:
        try:
            self._mark, self._marked_at = self._source_end(), now
        except DMError as error:  # whoever needs the source tells what is wrong with it
            structlog.get_logger().info("the source's end is not known", error=error.name)


def _passes(applied: Position, mark: Position) -> bool:
    """Whether everything up to the mark is applied; also where it is of another server by now, and tells nothing."""
    try:
        return applied.covers(mark)
    except DMError:
        return True


_PLACE: Final = re.compile(r"\(\s*([^\s,()]+)\s*,\s*(\d+)\s*\)")


@dataclass
class CheckpointGate:
    """How far the syncer is; one thread waits at it."""

    connection: TargetConnection
    key: SubtaskKey
    clock: Clock
    interval: float  # seconds between two looks
    place: Position  # the syncer's checkpoint
    until: Position | None = None  # nothing after it is read
    moved: Callable[[], None] = field(default=lambda: None)  # the checkpoint is another one

    def passes(self, end: Position, stop: threading.Event) -> bool:
        """Wait until everything up to here is applied; False when stopped."""
        while not self.open_to(end):
            if self.clock.wait(stop, self.interval):
                return False
            self.look()
        return True

    def open_to(self, end: Position) -> bool:
        """Whether this may be read by now."""
        return self.place.covers(end) and (self.until is None or self.until.covers(end))

    def look(self) -> None:
        """Read the checkpoint; raises DMError."""
        found = read_position_of(self.connection, self.key)
        if found is not None and found != self.place:
            self.place = found
            self.moved()


@dataclass(frozen=True, slots=True)
class CutoverPlace:
    """A place as a person has said it."""

    told: Cutover

    @classmethod
    def checked(cls, place: str, gtid: str) -> CutoverPlace:
        """The place of a person's words; raises DMError `validator-bad-place`."""
        if place and _PLACE.fullmatch(place.strip()) is None:
            raise DMError("validator-bad-place", place=place)
        try:
            GtidSet.parse(gtid)
        except (DMError, ValueError):
            raise DMError("validator-bad-place", place=gtid) from None
        return cls(Cutover(place.strip(), gtid))

    def position(self, near: Position) -> Position | None:
        """The place on the server of another position; None where nothing is set."""
        if self.told.gtid:
            return replace(near, server_uuid="", file="", offset=0, gtid_set=GtidSet.parse(self.told.gtid))
        found = _PLACE.fullmatch(self.told.place)
        if found is None:
            return None
        return Position(near.server_uuid, found[1], int(found[2]))
