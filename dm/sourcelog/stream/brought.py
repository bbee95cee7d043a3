"""Up to where the opposite task had brought the target's writes, when each transaction of the source was made.

Two writes of one row are a conflict where neither writer's server had the other write (`conflicts: target-wins`). So of
each write that a losing task reads it has to tell which writes of its target were at the source when this one was made:
those up to the place in the target's binlog that the opposite had come to. The opposite brings whole transactions in
order, in one lane (`atomic-transactions`). The row of this lane is in each of its transactions, and has the place. So
the last such row before a transaction, in the source's binlog, tells the place for it. Writes of one row stand in a
binlog in the order in which they were made, because their lock is held until they do.

Neither an earlier nor a later row would do. The row that is stored now knows writes that came to the source after the
write was made, and a conflict with them would pass for none.

Two more of the opposite's rows tell the same. Its checkpoint also passes what it does not bring, as rows of tables that
its list did not have. The intent of a statement precedes it in the source's binlog, and has its place. The furthest of
the three counts. A row that is new is of a task that was begun anew, and counts alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap
from dm.position import Position


class StoredPlace(NamedTuple):
    """What a change of a row of progress says; None: no place was stored."""

    before: Position | None
    after: Position | None

    @property
    def earlier(self) -> Position | None:
        """The place before the change; where there was none, the first one."""
        return self.before or self.after


def further(known: Position | None, place: Position | None) -> Position | None:
    """The further of two places of one server; of two servers, the latter."""
    return known if place is None or (known is not None and known.reaches(place)) else place


@dataclass(frozen=True, slots=True)
class ProgressReaders:
    """How the opposite's rows of progress are read in the source's binlog; they raise DMError and Malformed."""

    lane: Callable[[TableMap, Rows], StoredPlace | None]  # None: the event is of other rows
    checkpoint: Callable[[TableMap, Rows], StoredPlace | None]
    intent: Callable[[TableMap, Rows], Position | None]


class BroughtPlaces:
    """Follows the opposite's progress in one reading of the source's log; belongs to the reader."""

    def __init__(self, read: ProgressReaders, begin: Position | None = None) -> None:
        self.now = begin
        """In the target's binlog, at the end of the last transaction read; None: not known yet."""
        self.first_lane: StoredPlace | None = None
        """What the first change of the lane's row says that has a place."""
        self.first_checkpoint: StoredPlace | None = None
        """The same of the checkpoint."""
        self._read = read
        self._lane: StoredPlace | None = None  # in the open transaction
        self._checkpoint: StoredPlace | None = None
        self._intent: Position | None = None  # the last one

    def lane(self, table_map: TableMap, rows: Rows) -> None:
        """Rows of the opposite's lanes; raises DMError and Malformed."""
        self._lane = self._read.lane(table_map, rows) or self._lane

    def checkpoint(self, table_map: TableMap, rows: Rows) -> None:
        """Rows of its checkpoint; raises DMError and Malformed."""
        self._checkpoint = self._read.checkpoint(table_map, rows) or self._checkpoint

    def intent(self, table_map: TableMap, rows: Rows) -> None:
        """It announces a statement; raises DMError and Malformed."""
        self._intent = self._read.intent(table_map, rows) or self._intent

    def ended(self, *, statement: bool) -> None:
        """The open transaction is complete; whether it was a statement of the opposite."""
        lane, checkpoint = self._lane, self._checkpoint
        if lane is not None and lane.earlier is not None:
            self.first_lane = self.first_lane or lane
        if checkpoint is not None and checkpoint.earlier is not None:
            self.first_checkpoint = self.first_checkpoint or checkpoint
        for stored in (lane, checkpoint):
            if stored is not None and stored.after is not None:
                self.now = further(None if stored.before is None else self.now, stored.after)
        if statement:
            self.now = further(self.now, self._intent)
        self.dropped()

    def dropped(self) -> None:
        """The open transaction comes again, or never was one."""
        self._lane = self._checkpoint = None
