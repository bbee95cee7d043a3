"""Binlog events made by hand, with checksums, as both flavours write them."""

from __future__ import annotations

import struct
import uuid
import zlib

from dm.mysql.binlog.frame import MAGIC
from dm.mysql.binlog.header import HEADER, EventType

SERVER = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CREATED = 1_700_000_000


def event(kind: int, body: bytes, end: int = 0, *, flags: int = 0, time: int = CREATED, server_id: int = 1) -> bytes:
    size = 19 + len(body) + 4
    data = HEADER.pack(time, kind, server_id, size, end & 0xFFFFFFFF, flags) + body
    return data + zlib.crc32(data).to_bytes(4, "little")


def format_description(end: int = 0, *, time: int = CREATED, version: bytes = b"8.0.36") -> bytes:
    body = struct.pack("<H50sIB", 4, version, 0, 19) + bytes(41) + b"\x01"
    return event(EventType.FORMAT_DESCRIPTION, body, end, time=time)


def previous_gtids(last: int) -> bytes:
    if not last:
        return event(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 0))
    body = struct.pack("<Q16sQQQ", 1, uuid.UUID(SERVER).bytes, 1, 1, last + 1)
    return event(EventType.PREVIOUS_GTIDS, body)


def gtid(number: int, *, commit: int = 0) -> bytes:
    """As 5.7 writes it, or with the commit time (microseconds) and the transaction's length, as 8.0 does."""
    body = struct.pack("<B16sqBqq", 0, uuid.UUID(SERVER).bytes, number, 2, 0, number)
    return event(EventType.GTID, body + (commit.to_bytes(7, "little") + b"\xfa" if commit else b""))


def anonymous(number: int = 1, size: int = 40) -> list[bytes]:
    """A transaction of a server whose gtid_mode is not ON."""
    start = event(EventType.ANONYMOUS_GTID, struct.pack("<B16sqBqq", 0, bytes(16), 0, 2, 0, number))
    return [start, *transaction(number, size)[1:]]


def mariadb_gtid(number: int, *, standalone: bool) -> bytes:
    return event(EventType.MARIADB_GTID, struct.pack("<QIB6x", number, 0, 1 if standalone else 0))


def query(text: bytes, schema: bytes = b"x") -> bytes:
    body = struct.pack("<IIBHH", 1, 0, len(schema), 0, 3) + b"\x00\x01\x02" + schema + b"\x00" + text
    return event(EventType.QUERY, body)


def rows(size: int = 40) -> bytes:
    return event(EventType.WRITE_ROWS, bytes(size))


def table_map(table_id: int = 7, schema: bytes = b"x", table: bytes = b"a") -> bytes:
    names = bytes([len(schema)]) + schema + b"\x00" + bytes([len(table)]) + table + b"\x00"
    return event(EventType.TABLE_MAP, table_id.to_bytes(6, "little") + b"\x01\x00" + names + b"\x01\x03\x00\x01")


def xid(number: int = 1) -> bytes:
    return event(EventType.XID, struct.pack("<Q", number))


def rotate(name: str, offset: int = 4, *, artificial: bool = False) -> bytes:
    return event(EventType.ROTATE, struct.pack("<Q", offset) + name.encode(), flags=0x20 if artificial else 0)


def transaction(number: int, size: int = 40) -> list[bytes]:
    return [gtid(number), query(b"BEGIN"), table_map(), rows(size), xid(number)]


def placed(events: list[bytes], at: int = 4) -> list[bytes]:
    """The same events with the log_pos they have when they stand one after another in a file."""
    found = []
    for data in events:
        at += len(data)
        head = data[:13] + struct.pack("<I", at & 0xFFFFFFFF) + data[17:-4]
        found.append(head + zlib.crc32(head).to_bytes(4, "little"))
    return found


def placed_without_checksums(events: list[bytes], at: int = 4) -> list[bytes]:
    """The same under binlog_checksum=NONE: only the format description has a checksum, and says so."""
    found = []
    for data in events:
        described = data[4] == EventType.FORMAT_DESCRIPTION
        body = data[19:-5] + b"\x00" if described else data[19:-4]
        size = 19 + len(body) + (4 if described else 0)
        at += size
        head = data[:9] + struct.pack("<II", size, at & 0xFFFFFFFF) + data[17:19] + body
        found.append(head + zlib.crc32(head).to_bytes(4, "little") if described else head)
    return found


def file_bytes(events: list[bytes]) -> bytes:
    return MAGIC + b"".join(placed(events))
