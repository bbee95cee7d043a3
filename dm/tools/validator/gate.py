"""How far the validator reads: to the syncer's checkpoint, and no further than the place of a cut-over.

What lies after the checkpoint may not be applied yet, so its rows would be found different and wait for nothing. The
checkpoint is read at the target.

At the place where business moves to the target (`dmctl validation update`), rows count as wrong without
`row-error-delay`: who moves does not want to wait for it. Nothing after that place is validated.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from dm.clock import Clock
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.progress.checkpoint import read_position_of
from dm.progress.tables import SubtaskKey
from dm.progress.validator import Cutover

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
