"""Where a second pass ends: exactly where the source's stream, main, waits and goes on.

On one server places tell. Another server may have taken the source's place since main came to wait, or since the
tables of the pass were held. Then GTIDs tell: the pass takes main's transactions and none that main has still to read.
All of main's have to come before the others there. One that is left out in between would be lost where a table is held
again after it, since its place counts it as read.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.position import Position
from dm.sourcelog.stream.origin import Origin
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.unit import JSON


@dataclass(slots=True)
class PassEnd:
    """Main's place, as an end of what is read (`dm.sourcelog.stream.until`)."""

    place: Position
    told: bool = True  # whether GTIDs tell what is read: MariaDB's may be out of order without its strict mode

    def settle(self, origin: Origin, start: Position) -> None:
        """Check that the server has all up to the place, before anything is read from `start`; raises DMError."""
        origin.switch_bound(self.place)
        self.told = origin.facts.gtid_ordered and bool(start.gtid_set)
        self.place = origin.here(self.place)

    def reached(self, position: Position) -> bool:
        """At the place or after it, with all that main has read.

        Main may have read some of it on another server, and this server may have that after the place. Which server
        the pass began on does not tell: an earlier run of it may have come to the place.
        """
        if position.same_files(self.place) and (not position.reaches(self.place) or not self._tells):
            return position.reaches(self.place)
        return self._has_all(position)

    def admits(self, transaction: SourceTransaction) -> bool:
        """What main has read; raises DMError where a server has something else in between."""
        end, gtid = transaction.end, transaction.gtid
        if end.same_files(self.place) and (end.order <= self.place.order or not self._tells):
            return end.order <= self.place.order
        if self._has_all(transaction.begin):
            return False
        if end.same_files(self.place):
            raise self._elsewhere(end, self.place.gtid_set - transaction.begin.gtid_set)
        if transaction.moves or (self._tells and gtid is not None and gtid.ordered and gtid in self.place.gtid_set):
            return True
        raise self._elsewhere(end, gtid)

    def bound(self, found: Position) -> Position:
        """The earlier of both: after a switch to another server `found` is that server's end."""
        return self.place if found.covers(self.place) else found

    def demand_ahead(self, start: Position, bound: Position | None) -> None:
        """Main waits after all that was held, and every run of the pass ends here."""

    def passed(self, source_time: float) -> bool:
        """A place is reached by events only."""
        return False

    def to_json(self) -> dict[str, JSON]:
        """With the server, whose files they are."""
        place = self.place
        return {"kind": "position", "server": place.server_uuid, "file": place.file, "offset": place.offset}

    def _has_all(self, position: Position) -> bool:
        return self._tells and position.gtid_set >= self.place.gtid_set

    @property
    def _tells(self) -> bool:
        return self.told and bool(self.place.gtid_set) and not self.place.gtid_set.anonymous

    def _elsewhere(self, now: Position, gtids: Gtid | GtidSet | None) -> DMError:
        return DMError(
            "shard-pass-elsewhere",
            place=self,
            server=self.place.server_uuid,
            now=now.server_uuid,
            gtid=gtids or "without a GTID",
        )

    def __str__(self) -> str:
        return str(self.place)
