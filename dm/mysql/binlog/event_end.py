"""Events that do not say where they end in their file, and the end that is written into them.

MariaDB computes the checksums of a transaction's events before it knows the transaction's place since 11.4 (MDEV-31273,
`binlog_legacy_event_pos`): its rows, table maps and statements have log_pos 0 in the file itself.
"""

from __future__ import annotations

import zlib
from typing import Final

from dm.mysql.binlog.frame import CRC_RESIDUE
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, ROWS_AND_THEIR_TEXT, EventType

WITHOUT_END: Final = ROWS_AND_THEIR_TEXT | {
    EventType.TABLE_MAP,
    EventType.QUERY,
    EventType.INTVAR,
    EventType.RAND,
    EventType.USER_VAR,
    EventType.BEGIN_LOAD_QUERY,
    EventType.EXECUTE_LOAD_QUERY,
    EventType.MARIADB_QUERY_COMPRESSED,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED_V1,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED_V1,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED_V1,
    EventType.MARIADB_WRITE_ROWS_COMPRESSED,
    EventType.MARIADB_UPDATE_ROWS_COMPRESSED,
    EventType.MARIADB_DELETE_ROWS_COMPRESSED,
}
"""The types of these events."""

_END: Final = slice(13, 17)  # log_pos of an event


def has_checksum(event: bytes) -> bool:
    """Whether the last four bytes are the CRC-32 of the others."""
    # A STOP event, the last one of a server that was shut down, is a header and a checksum.
    return len(event) >= HEADER_SIZE + CHECKSUM_SIZE and zlib.crc32(event) == CRC_RESIDUE


def with_end(event: bytes, offset: int) -> bytes:
    """The event with its end in the file, if it does not say it; its checksum is made anew, if it has one."""
    if any(event[_END]):
        return event
    return ending_at(event, offset, checksum=has_checksum(event))


def ending_at(event: bytes, offset: int, *, checksum: bool) -> bytes:
    """The event with another end, and with the checksum of what it is then."""
    changed = bytearray(event)
    changed[_END] = (offset & 0xFFFFFFFF).to_bytes(4, "little")
    if checksum:
        changed[-CHECKSUM_SIZE:] = zlib.crc32(changed[:-CHECKSUM_SIZE]).to_bytes(CHECKSUM_SIZE, "little")
    return bytes(changed)
