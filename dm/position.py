"""Where in a server's binlog we are.

A position names a server, one of its files, a byte offset at a transaction's end, and the GTID set up to there. Offsets
of two servers have no common order, so a comparison uses them only within one server uuid. Across servers only GTID
membership counts. Where it is missing, or tells nothing because transactions without GTIDs may matter (dm/gtid.py),
the comparison refuses instead of guessing (DMError `position-incomparable`). A server whose `log_bin` was renamed
numbers its files from 1 again, so names with different bases have no order either.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.mysql.dialect import Flavor
from dm.text import is_decimal
from dm.unit import JSON

# Asked several times for each transaction, of the same few files.
_NUMBERS_KEPT = 256

MAGIC_SIZE = 4  # a binlog file starts with 4 magic bytes; its first event stands at offset 4


@lru_cache(_NUMBERS_KEPT)
def _number(file: str) -> int:
    suffix = file.rpartition(".")[2]
    return int(suffix) if is_decimal(suffix) else -1


@dataclass(frozen=True, slots=True)
class Position:
    """A point between two transactions of one server's binlog."""

    server_uuid: str
    file: str
    offset: int = MAGIC_SIZE
    gtid_set: GtidSet = field(default_factory=GtidSet.empty)

    def to_json(self) -> list[JSON]:
        """For records and pipes."""
        return [self.server_uuid, self.file, self.offset, str(self.gtid_set), self.gtid_set.flavor]

    @classmethod
    def from_json(cls, found: Any) -> Self:
        """The inverse of `to_json`; raises ValueError and TypeError for anything else."""
        uuid, file, offset, gtids, flavor = found
        return cls(uuid, file, int(offset), GtidSet.parse(gtids, flavor))

    @property
    def file_number(self) -> int:
        """The number after the last dot; -1 when there is none (no file is known)."""
        return _number(self.file)

    @property
    def order(self) -> tuple[int, int]:
        """Sort key; only meaningful where `same_files`."""
        return (_number(self.file), self.offset)

    def same_place(self, server_uuid: str, file: str) -> bool:
        """Whether it is in this file of this server."""
        return self.file == file and self.server_uuid == server_uuid

    def same_files(self, other: Position) -> bool:
        """Whether file and offset of the two have an order: one server, and one name before the number."""
        if self.server_uuid != other.server_uuid:
            return False
        return self.file == other.file or not self.file or not other.file or self._base == other._base

    def reaches(self, other: Position) -> bool:
        """Whether file and offset tell that `other` lies at or before this position."""
        if self.file == other.file:  # nearly always
            return self.offset >= other.offset and self.server_uuid == other.server_uuid
        return self.same_files(other) and self.order >= other.order

    def same_base(self, file: str) -> bool:
        """Whether a file's name differs from this one's in its number only."""
        return self._base == file.rpartition(".")[0]

    @property
    def _base(self) -> str:
        return self.file.rpartition(".")[0]

    @property
    def flavor(self) -> Flavor:
        """Which flavour the GTID set is of."""
        return self.gtid_set.flavor

    def covers(self, other: Position) -> bool:
        """Whether everything up to `other` is also up to here; raises DMError when that can't be known."""
        if self.same_files(other):
            return self.order >= other.order
        if not other.gtid_set or not self.gtid_set or other.gtid_set.anonymous:
            raise DMError("position-incomparable", ours=str(self), theirs=str(other))
        return self.gtid_set >= other.gtid_set

    def at_or_after(self, point: Position) -> bool:
        """Whether nothing after here is processed by `point`, whose GTID set may know more than its place.

        Sets only grow: a point without one lies before every position that has one, on whatever server.
        """
        if not self.same_files(point) and not point.gtid_set and self.gtid_set:
            return True
        return self.covers(point) and (not point.gtid_set or self.gtid_set >= point.gtid_set)

    def join(self, other: Position) -> Position:
        """The smallest position that covers both; file and offset stay on the later of one server."""
        later = self if self.covers(other) else other
        return replace(later, gtid_set=self.gtid_set | other.gtid_set)

    def has_processed(self, gtid: Gtid | None, end: Position) -> bool:
        """Whether the transaction `gtid` that ends at `end` lies at or before this position; raises DMError."""
        if self.reaches(end):
            return True
        if self.same_files(end):
            if gtid is not None and not gtid.ordered:
                return False  # a lower number after a higher one is another transaction: the place tells
        elif self.file and gtid is not None and not gtid.ordered:
            raise DMError("gtid-order-loose", now=end.server_uuid, before=self.server_uuid, ours=self.gtid_set)
        elif self.server_uuid and (gtid is None or (self.server_uuid == end.server_uuid and not self.gtid_set)):
            raise DMError("position-incomparable", ours=str(self), theirs=str(end))
        return gtid is not None and bool(self.gtid_set) and gtid in self.gtid_set

    def __str__(self) -> str:
        # The form DM prints: (mysql-bin.000001, 154)
        return f"({self.file}, {self.offset})"


@dataclass(frozen=True, slots=True)
class TimePlace:
    """Where a time begins: after the last transaction that is older."""

    position: Position
    known: bool  # there is an older transaction; else this is where the files begin, and the place may lie before
