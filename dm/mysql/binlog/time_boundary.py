"""Where a time begins in a stream of raw events: after the last older transaction."""

from __future__ import annotations

from dm.mysql.binlog.boundary import TransactionBoundary
from dm.mysql.binlog.gtid_history import format_has_checksum
from dm.mysql.binlog.header import NOT_TRANSACTIONS, EventType


class TimeBoundary:
    """Takes the events of files in order, starting between two transactions; the place is a file and an offset."""

    def __init__(self, time: int, file: str, offset: int, *, checksum: bool = True) -> None:
        self._time = time
        self._boundary = TransactionBoundary(checksum)
        self.file = file
        self.offset = offset
        self.older = False  # a transaction before the time was seen

    def reaches(self, event: bytes, file: str, end: int) -> bool:
        """Take an event that ends here; True when it ends the first transaction of the time or later."""
        if event[4] == EventType.FORMAT_DESCRIPTION:
            self._boundary.checksum = format_has_checksum(event)
        if not self._boundary.feed(event):
            return False
        if event[4] not in NOT_TRANSACTIONS:
            if int.from_bytes(event[:4], "little") >= self._time:
                return True
            self.older = True
        self.file, self.offset = file, end
        return False
