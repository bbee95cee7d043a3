"""The place where business moves to the target (`dmctl validation update`): nothing after it is validated.

At that place, rows count as wrong without `row-error-delay`: who moves does not want to wait for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.progress.validator.progress import Cutover

_PLACE: Final = re.compile(r"\(\s*([^\s,()]+)\s*,\s*(\d+)\s*\)")


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
