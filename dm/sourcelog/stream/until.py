"""`start-task --until`: where in the source's binlog a task ends by itself.

What is asked for cuts the binlog in two at a transaction boundary: everything before the cut is applied, nothing after
it. So the first transaction that does not belong ends the task, whatever comes after it:

- a file and an offset: every transaction that ends there or before;
- a GTID set: every transaction up to the last one of the set. Others that the source committed in between are applied
  too, as with MySQL's SQL_AFTER_GTIDS: a cut that left them out would be no state that the source ever had;
- a time: every transaction before the first one that ends at this second or later. It is the place where
  `start-task --start-time` with the same time begins, so two tasks share a binlog without a gap.

The cut depends on the binlog alone, so a run after a crash finds the same one. Nothing beyond it is ever given to a
lane: a bound B after the cut is the work of a run that was not asked to end there, and the task can't end there then.

A place that the source has not reached yet is waited for. On a source that rests nothing comes at or after a time; the
task then ends when the source's clock has passed the time by some seconds and everything up to its end is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, cast

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.dialect import flavor_named
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.unit import JSON

GRACE_SECONDS: Final = 3.0  # between a transaction's time and its place in the binlog


class Until(Protocol):
    """Where a task ends."""

    def reached(self, position: Position) -> bool:
        """Whether nothing that belongs can come after this position."""
        ...

    def admits(self, transaction: SourceTransaction) -> bool:
        """Whether the transaction belongs to what is to be applied; raises DMError where that can't be told."""
        ...

    def demand_ahead(self, start: Position, bound: Position | None) -> None:
        """Raise DMError where it lies before what is applied: the checkpoint, and what runs did beyond it."""
        ...

    def passed(self, source_time: float) -> bool:
        """Whether the source's clock says that nothing more belongs, once its end is read."""
        ...

    def to_json(self) -> dict[str, JSON]:
        """For the registry and the pipe."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class UntilPosition:
    """A file and an offset of one server."""

    position: Position

    def reached(self, position: Position) -> bool:
        """At the place or after it."""
        return position.reaches(self.position)

    def admits(self, transaction: SourceTransaction) -> bool:
        """What ends there or before."""
        end = transaction.end
        if not end.same_files(self.position):
            raise DMError("until-elsewhere", place=self, now=end.server_uuid, server=self.position.server_uuid)
        return end.order <= self.position.order

    def demand_ahead(self, start: Position, bound: Position | None) -> None:
        """Places of one server are compared."""
        for point in (start, bound):
            if point is not None and point.same_files(self.position) and point.order > self.position.order:
                raise DMError("until-passed", place=self, checkpoint=point)

    def passed(self, source_time: float) -> bool:
        """A place is reached by events only."""
        return False

    def to_json(self) -> dict[str, JSON]:
        """With the server, whose files they are."""
        place = self.position
        return {"kind": "position", "server": place.server_uuid, "file": place.file, "offset": place.offset}

    def __str__(self) -> str:
        return str(self.position)


@dataclass(frozen=True, slots=True)
class UntilGtids:
    """Everything up to the last transaction of a set."""

    gtid_set: GtidSet

    def reached(self, position: Position) -> bool:
        """All of the set is at or before the position."""
        return position.gtid_set >= self.gtid_set

    def admits(self, transaction: SourceTransaction) -> bool:
        """What comes before the set is complete."""
        return not self.reached(transaction.begin)

    def demand_ahead(self, start: Position, bound: Position | None) -> None:
        """The start's set has to be known; what runs did beyond it has to belong."""
        if not start.gtid_set and start.offset > MAGIC_SIZE:
            raise DMError("until-without-gtids", place=self, checkpoint=start)
        if bound is not None and bound.gtid_set and not self.gtid_set >= bound.gtid_set:
            raise DMError("until-passed", place=self, checkpoint=bound)

    def passed(self, source_time: float) -> bool:
        """A set is complete by events only."""
        return False

    def to_json(self) -> dict[str, JSON]:
        """As the servers print it."""
        return {"kind": "gtid", "set": str(self.gtid_set), "flavor": self.gtid_set.flavor}

    def __str__(self) -> str:
        return str(self.gtid_set)


@dataclass(frozen=True, slots=True)
class UntilTime:
    """A second of the source's clock."""

    seconds: int  # since the epoch
    text: str  # as a person wrote it

    def reached(self, position: Position) -> bool:
        """A position has no time."""
        return False

    def admits(self, transaction: SourceTransaction) -> bool:
        """What ended before the second; where a file begins or ends says nothing."""
        return transaction.moves or transaction.timestamp < self.seconds

    def demand_ahead(self, start: Position, bound: Position | None) -> None:
        """Nothing is known of the times of places; the end of the run compares the place that it found."""

    def passed(self, source_time: float) -> bool:
        """The second is over, and whoever committed in it has written it to the binlog."""
        return source_time >= self.seconds + GRACE_SECONDS

    def to_json(self) -> dict[str, JSON]:
        """The second itself: zones change, it does not."""
        return {"kind": "time", "seconds": self.seconds, "text": self.text}

    def __str__(self) -> str:
        return self.text


def until_from_json(record: JSON) -> Until | None:
    """The inverse of `to_json`; None for null."""
    match record:
        case {"kind": "position", "server": str(server), "file": str(file), "offset": int(offset)}:
            return UntilPosition(Position(server, file, offset))
        case {"kind": "gtid", "set": str(text), "flavor": flavor}:
            return UntilGtids(GtidSet.parse(text, flavor_named(flavor)))
        case {"kind": "time", "seconds": int(seconds), "text": str(text)}:
            return UntilTime(seconds, text)
    assert record is None, record
    return None


def until_to_json(until: Until | None) -> JSON:
    """Null where there is none."""
    return None if until is None else cast("JSON", until.to_json())
