"""Events that begin, comment and end transactions: GTIDs, XID, XA prepare, rows-query texts.

A MySQL GTID has one of three forms: the plain event; the same with the "anonymous" type, whose GTID is void; and since
8.3 the tagged event, a message of MySQL's serialization library. That message has numbered fields in variable-length
integers; fields of later versions are skipped (MySQL source: Gtid_event, libs/mysql/serialization/readme.md). MariaDB's
event has no transaction length and no timestamp of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, Literal

from dm.gtid import Gtid
from dm.mysql.binlog.cursor import ByteCursor, Malformed

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
