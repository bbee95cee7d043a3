"""The GTID set of everything complete in a stream of raw events, kept up to date at the speed of the relay.

A GTID joins the set when its transaction has ended, not when it begins. So the set always belongs to a place where a
reader may stop and start. Each file states the set before its first transaction (previous GTIDs, GTID list). A
transaction without a GTID makes the set `anonymous` (dm/gtid.py). Numbers of one server are mostly consecutive, so a
run is stored as its last number until the set is requested.

Events at a file's start that list the transactions before it.

MySQL stores a GTID set in one of two forms; the highest byte of the count says which. The tagged form, used once a
tagged GTID was ever executed, puts the count one byte higher and a tag after each uuid (MySQL source,
Gtid_set::encode). Intervals exclude their end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from dm.errors import DMError
from dm.gtid import Gtid, GtidFormatError, GtidSet
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.header import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    LOG_EVENT_ARTIFICIAL_F,
    NOT_TRANSACTIONS,
    ROWS_AND_THEIR_TEXT,
    EventType,
    parse_header,
)
from dm.mysql.binlog.transaction import BETWEEN, INSIDE, TransactionBoundary, parse_gtid_tagged, uuid_texts
from dm.mysql.dialect import Flavor

_UUID_AT: Final = HEADER_SIZE + 1  # after the flags byte
_plain = struct.Struct("<16sQ").unpack_from
_mariadb = struct.Struct("<QI").unpack_from
_MALFORMED: Final = (Malformed, GtidFormatError, struct.error, IndexError, UnicodeDecodeError)

_SPECIAL: Final = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.GTID,
        EventType.GTID_TAGGED,
        EventType.PREVIOUS_GTIDS,
        EventType.MARIADB_GTID,
        EventType.MARIADB_GTID_LIST,
    }
)

_XID: Final = int(EventType.XID)
_ENDING: Final = frozenset(
    {
        EventType.XID,
        EventType.QUERY,
        EventType.EXECUTE_LOAD_QUERY,
        EventType.XA_PREPARE,
        EventType.TRANSACTION_PAYLOAD,
        EventType.INCIDENT,
    }
)
# Inside a transaction these have no effect; most events of a busy source are of these types.
_PLAIN: Final = ROWS_AND_THEIR_TEXT | {EventType.TABLE_MAP}


def format_has_checksum(event: bytes) -> bool:
    """Whether the events after this format description end with a CRC-32; it says so before its own CRC."""
    return len(event) > HEADER_SIZE + CHECKSUM_SIZE and event[-CHECKSUM_SIZE - 1] == 1


class GtidHistory:
    """Takes the events of one server's files in order; knows the set of complete transactions."""

    def __init__(self, gtid_set: GtidSet) -> None:
        self.boundary = TransactionBoundary()
        self._set = gtid_set
        self._uuid = b""  # the run: numbers of this server not in the set yet
        self._first = 0
        self._last = 0
        self._pending: Gtid | tuple[bytes, int] | None = None

    @property
    def between(self) -> bool:
        """Whether no transaction is open."""
        return self.boundary.between

    @property
    def gtid_set(self) -> GtidSet:
        """Everything complete up to here."""
        if self._last:
            run = f"{uuid_texts[self._uuid]}:{self._first}-{self._last}"
            self._set = self._set | GtidSet.parse(run, "mysql")
            self._uuid, self._first, self._last = b"", 0, 0
        return self._set

    def restart(self, gtid_set: GtidSet) -> None:
        """Drop an open transaction; the set is this one."""
        self.boundary.reset()
        self._uuid, self._first, self._last = b"", 0, 0
        self._pending = None
        self._set = gtid_set

    def feed(self, event: bytes) -> bool:
        """Take the next event; True when no transaction is open after it."""
        kind = event[4]
        boundary = self.boundary
        if kind == _XID:
            boundary.state = BETWEEN
        elif kind in _PLAIN and boundary.state == INSIDE:
            return False
        else:
            if kind in _SPECIAL:
                try:
                    self._special(event)
                except _MALFORMED as error:
                    header = parse_header(event)
                    raise DMError("event-corrupt", event=header.type, end=header.end, what=str(error)) from error
            if not boundary.feed(event):
                return False
        pending = self._pending
        if pending is not None:
            self._absorb(pending)
            self._pending = None
        elif kind in _ENDING:
            self._set = self.gtid_set.then_anonymous()
        return True

    def _special(self, event: bytes) -> None:
        kind = event[4]
        end = len(event) - (CHECKSUM_SIZE if self.boundary.checksum else 0)
        if kind == EventType.GTID:
            self._pending = _plain(event, _UUID_AT)
        elif kind == EventType.MARIADB_GTID:
            number, domain = _mariadb(event, HEADER_SIZE)
            self._pending = Gtid("mariadb", str(domain), number, parse_header(event).server_id)
        elif kind == EventType.GTID_TAGGED:
            self._pending = parse_gtid_tagged(ByteCursor(event, HEADER_SIZE, end)).gtid
        elif kind == EventType.FORMAT_DESCRIPTION:
            self.boundary.checksum = format_has_checksum(event)
        elif not parse_header(event).flags & LOG_EVENT_ARTIFICIAL_F:
            cursor = ByteCursor(event, HEADER_SIZE, end)
            before = (
                parse_previous_gtids(cursor) if kind == EventType.PREVIOUS_GTIDS else parse_gtid_list(cursor)
            ).gtid_set
            self.restart(self._set | before)

    def _absorb(self, pending: Gtid | tuple[bytes, int]) -> None:
        if isinstance(pending, Gtid):
            self._set = self._set.with_gtid(pending)
            return
        uuid, number = pending
        if uuid == self._uuid and number == self._last + 1:
            self._last = number
            return
        self._set = self.gtid_set.named
        self._uuid, self._first, self._last = uuid, number, number


def empty_history(flavor: Flavor) -> GtidHistory:
    """An empty history; a file's own first events fill it."""
    return GtidHistory(GtidSet.empty(flavor))


_MAX_NUMBER = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class PreviousGtids:
    """MySQL: every GTID in the files before this one."""

    gtid_set: GtidSet


@dataclass(frozen=True, slots=True)
class GtidList:
    """MariaDB: the position, per replication domain, at the start of this file."""

    gtid_set: GtidSet


def parse_previous_gtids(cursor: ByteCursor) -> PreviousGtids:
    """Read MySQL's previous-GTIDs event."""
    head = cursor.uint(8)
    form = head >> 56
    if form not in (0, 1):
        raise Malformed(f"GTID set format {form} is not known")
    count = head if form == 0 else head >> 8 & 0xFFFFFFFFFFFF
    parts: list[str] = []
    for _ in range(count):
        source = uuid_texts[cursor.take(16)]
        if form == 1 and (length := cursor.varlen()):
            source = f"{source}:{cursor.take(length).decode('ascii')}"
        for _ in range(cursor.uint(8)):
            first, after = cursor.uint(8), cursor.uint(8)
            if not 1 <= first < after <= _MAX_NUMBER:
                raise Malformed(f"{first}-{after} is no GTID interval")
            parts.append(f"{source}:{first}-{after - 1}")
    return PreviousGtids(GtidSet.parse(",".join(parts), "mysql"))


def parse_gtid_list(cursor: ByteCursor) -> GtidList:
    """Read MariaDB's GTID list: domain, server, sequence number; the count's four high bits are flags."""
    parts = []
    for _ in range(cursor.uint(4) & 0x0FFFFFFF):
        domain, server_id, number = cursor.uint(4), cursor.uint(4), cursor.uint(8)
        parts.append(f"{domain}-{server_id}-{number}")
    return GtidList(GtidSet.parse(",".join(parts), "mariadb"))


class TimeBoundary:
    """Where a time begins in a stream of raw events: after the last older transaction.

    It takes the events of files in order, starting between two transactions; the place is a file and an offset.
    """

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
