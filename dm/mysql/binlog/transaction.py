"""Events that begin, comment and end transactions, and where a transaction ends in a stream of raw events.

A MySQL GTID has one of three forms: the plain event; the same with the "anonymous" type, whose GTID is void; and since
8.3 the tagged event, a message of MySQL's serialization library. That message has numbered fields in variable-length
integers; fields of later versions are skipped (MySQL source: Gtid_event, libs/mysql/serialization/readme.md). MariaDB's
event has no transaction length and no timestamp of its own.

Where one transaction of a binlog ends and the next may begin, seen from the raw events.

The relay cuts its file here after a crash, and a reader reconnects here, so "inside" must never be taken for "between".
These events open and end a transaction (MySQL `sql/binlog.cc`, `sql/xa.cc`; MariaDB "Gtid_log_event"):

  MySQL    GTID (plain, tagged, anonymous), then one of
             Query "BEGIN" or "XA START ..", events, and Xid | Query "COMMIT" | Query "ROLLBACK" | XA prepare
             one Query that is neither: a DDL, or XA COMMIT / XA ROLLBACK
             one transaction payload, or an incident
           without GTID events (5.6) the same from the Query on
  MariaDB  GTID with the standalone flag, then one Query;
           GTID without it, events, and Xid | Query "COMMIT" | "ROLLBACK" | "XA COMMIT .." | "XA ROLLBACK .." | XA
           prepare

`ROLLBACK TO`, `SAVEPOINT` and `XA END` are queries inside. A compressed MariaDB query never ends a transaction: the
server compresses only texts longer than the words that do.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, Literal

from dm.gtid import Gtid
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.header import HEADER_SIZE, EventType

AlterPhase = Literal["start", "commit", "rollback"]

_FIXED = Struct("<B16sqBqq")  # flags, uuid, number, kind of logical clock, last committed, sequence number
_LOGICAL_CLOCK: Final = 2
_UUIDS_KEPT: Final = 1024
_SERIALIZATION_VERSION: Final = 1


@dataclass(slots=True)
class GtidEvent:
    """The start of a transaction, with its identity; `gtid` is None if the source runs without GTIDs."""

    gtid: Gtid | None
    commit_timestamp_us: int | None = None  # of the commit at the server that sends this
    original_commit_timestamp_us: int | None = None  # of the commit where the transaction came from
    transaction_length: int | None = None  # bytes, this event included
    last_committed: int = 0
    sequence_number: int = 0
    is_ddl_standalone: bool = False  # MariaDB: the group is one statement, no COMMIT or XID follows
    is_ddl: bool = False  # MariaDB: the group is a DDL
    xa: str | None = None  # MariaDB: XID text of a prepared or completed XA transaction
    alter_phase: AlterPhase | None = (
        None  # MariaDB, binlog_alter_two_phase: an ALTER logged when it starts and when it ends
    )
    alter_start: int | None = None  # the sequence number of the "start" group a "commit" or "rollback" refers to


@dataclass(slots=True)
class Xid:
    """The commit of a transaction in a transactional engine."""

    number: int


@dataclass(slots=True)
class XaPrepare:
    """The end of an XA transaction's first phase; `one_phase` means it commits here."""

    xid: str
    one_phase: bool


@dataclass(slots=True)
class RowsQuery:
    """The statement that made the following rows, if the source logs it."""

    text: str


class _Uuids(dict[bytes, str]):
    """Texts of the few uuids of a stream; the 16 bytes are the key."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) >= _UUIDS_KEPT:
            self.clear()
        digits = raw.hex()
        text = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
        self[raw] = text
        return text


uuid_texts: Final = _Uuids()


def parse_gtid(data: bytes, at: int, end: int, anonymous: bool) -> GtidEvent:
    """Read a plain or an anonymous GTID event's body; older servers end it earlier."""
    if end - at < _FIXED.size:
        # 5.6 wrote flags, uuid and number only
        cursor = ByteCursor(data, at, end)
        cursor.take(1)
        uuid, number = cursor.take(16), cursor.sint(8)
        last_committed = sequence_number = 0
        at = end
    else:
        _, uuid, number, clock, last_committed, sequence_number = _FIXED.unpack_from(data, at)
        at += _FIXED.size
        if clock != _LOGICAL_CLOCK:
            last_committed = sequence_number = 0
            at = end
    if anonymous:
        gtid = None
    elif number < 1:
        raise Malformed(f"{number} is no transaction number")
    else:
        gtid = Gtid("mysql", uuid_texts[uuid], number)
    if at + 7 > end:
        return GtidEvent(gtid, None, None, None, last_committed, sequence_number)
    immediate = int.from_bytes(data[at : at + 7], "little")
    original = immediate & 0x7FFFFFFFFFFFFF
    at += 7
    if immediate >> 55:
        if at + 7 > end:
            raise Malformed("the original commit timestamp is cut off")
        immediate, original = original, int.from_bytes(data[at : at + 7], "little")
        at += 7
    length = None
    if at < end:
        first = data[at]
        if first == 0xFC and at + 3 <= end:  # nearly every transaction; ByteCursor reads the others
            length = data[at + 1] | data[at + 2] << 8
        else:
            length = ByteCursor(data, at, end).packed()
    return GtidEvent(gtid, immediate, original, length, last_committed, sequence_number)


def parse_gtid_tagged(cursor: ByteCursor) -> GtidEvent:
    """Read a tagged GTID event's body."""
    start = cursor.at
    if (version := cursor.varlen()) != _SERIALIZATION_VERSION:
        raise Malformed(f"serialization version {version} is not known")
    size = cursor.varlen()
    stop = start + size
    if not cursor.at <= stop <= cursor.end:
        raise Malformed(f"a message of {size} bytes does not fit")
    cursor.end = stop
    last_needed = cursor.varlen()
    uuid, tag, number = b"", b"", 0
    event = GtidEvent(None)
    while cursor.left:
        field = cursor.varlen()
        if field == 0:
            cursor.varlen()
        elif field == 1:
            uuid = bytes(cursor.varlen() & 0xFF for _ in range(16))
        elif field == 2:
            number = cursor.varlen_signed()
        elif field == 3:
            tag = cursor.take(cursor.varlen())
        elif field == 4:
            event.last_committed = cursor.varlen_signed()
        elif field == 5:
            event.sequence_number = cursor.varlen_signed()
        elif field == 6:
            event.commit_timestamp_us = cursor.varlen()
        elif field == 7:
            event.original_commit_timestamp_us = cursor.varlen()
        elif field == 8:
            event.transaction_length = cursor.varlen()
        elif field in (9, 10, 11):  # server versions and the commit group's ticket
            cursor.varlen()
        elif field <= last_needed:
            raise Malformed(f"field {field} is needed and not known")
        else:
            break  # later fields are marked as ignorable, and their lengths are not known
    if len(uuid) != 16 or number < 1:
        raise Malformed("it holds no GTID")
    if event.original_commit_timestamp_us is None:
        event.original_commit_timestamp_us = event.commit_timestamp_us
    source = uuid_texts[uuid]
    event.gtid = Gtid("mysql", f"{source}:{tag.decode('ascii')}" if tag else source, number)
    return event


_STANDALONE, _GROUP_COMMIT_ID, _DDL, _PREPARED_XA, _COMPLETED_XA = 0x01, 0x02, 0x20, 0x40, 0x80
_EXTRA_MULTI_ENGINE, _START_ALTER, _COMMIT_ALTER, _ROLLBACK_ALTER = 0x01, 0x02, 0x04, 0x08


def parse_gtid_mariadb(cursor: ByteCursor, server_id: int) -> GtidEvent:
    """Read MariaDB's GTID event (MariaDB documentation, "GTID_EVENT"; source, Gtid_log_event)."""
    number = cursor.uint(8)
    domain = cursor.uint(4)
    flags = cursor.uint(1)
    event = GtidEvent(
        Gtid("mariadb", str(domain), number, server_id),
        is_ddl_standalone=bool(flags & _STANDALONE),
        is_ddl=bool(flags & _DDL),
    )
    if flags & _GROUP_COMMIT_ID:
        cursor.take(8)
    if flags & (_PREPARED_XA | _COMPLETED_XA):
        format_id = cursor.sint(4)
        global_length, branch_length = cursor.uint(1), cursor.uint(1)
        event.xa = xid_text(format_id, cursor.take(global_length), cursor.take(branch_length))
    if cursor.left:
        extra = cursor.uint(1)  # 0 where the event is only padded to its fixed 19 bytes
        if extra & _EXTRA_MULTI_ENGINE:
            cursor.uint(1)
        if extra & (_COMMIT_ALTER | _ROLLBACK_ALTER):
            event.alter_start = cursor.uint(8)
            event.alter_phase = "commit" if extra & _COMMIT_ALTER else "rollback"
        elif extra & _START_ALTER:
            event.alter_phase = "start"
    return event


def xid_text(format_id: int, global_part: bytes, branch_part: bytes) -> str:
    """An XID as the servers write it into XA statements: X'..',X'..',n."""
    return f"X'{global_part.hex()}',X'{branch_part.hex()}',{format_id}"


def parse_xa_prepare(cursor: ByteCursor) -> XaPrepare:
    """Read the end of an XA transaction's first phase (MySQL source, XA_prepare_event)."""
    one_phase = cursor.uint(1) != 0
    format_id = cursor.sint(4)
    global_length, branch_length = cursor.uint(4), cursor.uint(4)
    if global_length > 64 or branch_length > 64:
        raise Malformed("an XID part has more than 64 bytes")
    return XaPrepare(xid_text(format_id, cursor.take(global_length), cursor.take(branch_length)), one_phase)


BETWEEN: Final = 0
_OPENED: Final = 1  # a MySQL GTID was seen; the next event tells the kind of transaction
_SINGLE: Final = 2  # a MariaDB standalone group: one query
INSIDE: Final = 3

_MARIADB_STANDALONE: Final = 1
_GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED})
_QUERIES: Final = frozenset({EventType.QUERY, EventType.MARIADB_QUERY_COMPRESSED, EventType.EXECUTE_LOAD_QUERY})
_RELEVANT: Final = frozenset(
    {
        *_GTIDS,
        *_QUERIES,
        EventType.MARIADB_GTID,
        EventType.XID,
        EventType.XA_PREPARE,
        EventType.TRANSACTION_PAYLOAD,
        EventType.INCIDENT,
    }
)
_query_header = Struct("<IIBHH").unpack_from  # thread, seconds, length of schema, error, length of status variables
_QUERY_HEADER_SIZE: Final = 13


def query_text(event: bytes, checksum: bool) -> bytes:
    """The statement of a Query event, not decoded."""
    _, _, schema, _, variables = _query_header(event, HEADER_SIZE)
    start = HEADER_SIZE + _QUERY_HEADER_SIZE + variables + schema + 1
    return event[start : len(event) - 4 if checksum else None]


class TransactionBoundary:
    """Follows the events of one stream and knows whether the last one ended a transaction."""

    __slots__ = ("checksum", "state")

    def __init__(self, checksum: bool = True) -> None:
        self.checksum = checksum  # whether events end with a checksum; from the format description
        self.state = BETWEEN  # a plain attribute, because the relay reads it once per event

    @property
    def between(self) -> bool:
        """Whether no transaction is open."""
        return self.state == BETWEEN

    def reset(self) -> None:
        """Start between two transactions."""
        self.state = BETWEEN

    def feed(self, event: bytes) -> bool:
        """Take the next event; True when no transaction is open after it."""
        kind = event[4]
        if kind in _RELEVANT:
            self.state = self._next(kind, event)
        elif self.state == _OPENED:
            self.state = INSIDE
        return self.state == BETWEEN

    def _next(self, kind: int, event: bytes) -> int:
        if kind in _GTIDS:
            return _OPENED
        if kind == EventType.MARIADB_GTID:
            return _SINGLE if event[HEADER_SIZE + 12] & _MARIADB_STANDALONE else INSIDE
        if kind in _QUERIES:
            return self._after_query(query_text(event, self.checksum) if kind == EventType.QUERY else b"")
        return BETWEEN

    def _after_query(self, text: bytes) -> int:
        if self.state == _SINGLE:
            return BETWEEN
        head = text[:12].upper()
        if self.state == INSIDE:
            ends = head in {b"COMMIT", b"ROLLBACK"} or head.startswith((b"XA COMMIT", b"XA ROLLBACK"))
            return BETWEEN if ends else INSIDE
        return INSIDE if head == b"BEGIN" or head.startswith(b"XA START") else BETWEEN
