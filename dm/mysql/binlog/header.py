"""The 19 bytes every binlog event starts with, and the type codes of both server families.

Layout and codes: MySQL source documentation, "Binlog event header" (mysql::binlog::event::Log_event_header); MariaDB
documentation, "1-Binlog events". Codes from 160 up are MariaDB's own; below that the two families agree.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from dm.accelerator.native import shared

HEADER_SIZE: Final = 19
CHECKSUM_SIZE: Final = 4

LOG_EVENT_BINLOG_IN_USE_F: Final = 0x1  # format description of a file that was not closed
LOG_EVENT_THREAD_SPECIFIC_F: Final = 0x4  # the statement uses temporary tables
LOG_EVENT_ARTIFICIAL_F: Final = 0x20  # made by the dump thread, not in the file
LOG_EVENT_RELAY_LOG_F: Final = 0x40
LOG_EVENT_IGNORABLE_F: Final = 0x80


class EventType(IntEnum):
    """Every event type either server family has written in binlog format 4."""

    UNKNOWN = 0
    START_V3 = 1
    QUERY = 2
    STOP = 3
    ROTATE = 4
    INTVAR = 5
    LOAD = 6
    SLAVE = 7
    CREATE_FILE = 8
    APPEND_BLOCK = 9
    EXEC_LOAD = 10
    DELETE_FILE = 11
    NEW_LOAD = 12
    RAND = 13
    USER_VAR = 14
    FORMAT_DESCRIPTION = 15
    XID = 16
    BEGIN_LOAD_QUERY = 17
    EXECUTE_LOAD_QUERY = 18
    TABLE_MAP = 19
    WRITE_ROWS_V0 = 20
    UPDATE_ROWS_V0 = 21
    DELETE_ROWS_V0 = 22
    WRITE_ROWS_V1 = 23
    UPDATE_ROWS_V1 = 24
    DELETE_ROWS_V1 = 25
    INCIDENT = 26
    HEARTBEAT = 27
    IGNORABLE = 28
    ROWS_QUERY = 29
    WRITE_ROWS = 30
    UPDATE_ROWS = 31
    DELETE_ROWS = 32
    GTID = 33
    ANONYMOUS_GTID = 34
    PREVIOUS_GTIDS = 35
    TRANSACTION_CONTEXT = 36
    VIEW_CHANGE = 37
    XA_PREPARE = 38
    PARTIAL_UPDATE_ROWS = 39
    TRANSACTION_PAYLOAD = 40
    HEARTBEAT_V2 = 41
    GTID_TAGGED = 42
    MARIADB_ANNOTATE_ROWS = 160
    MARIADB_BINLOG_CHECKPOINT = 161
    MARIADB_GTID = 162
    MARIADB_GTID_LIST = 163
    MARIADB_START_ENCRYPTION = 164
    MARIADB_QUERY_COMPRESSED = 165
    MARIADB_WRITE_ROWS_COMPRESSED_V1 = 166
    MARIADB_UPDATE_ROWS_COMPRESSED_V1 = 167
    MARIADB_DELETE_ROWS_COMPRESSED_V1 = 168
    MARIADB_WRITE_ROWS_COMPRESSED = 169
    MARIADB_UPDATE_ROWS_COMPRESSED = 170
    MARIADB_DELETE_ROWS_COMPRESSED = 171


_NAMES = {member.value: member.name for member in EventType}


# What a server sends while it has nothing to send: in no file.
HEARTBEATS: Final = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})

# Events between transactions: they move the complete end, but are no transactions.
NOT_TRANSACTIONS: Final = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.MARIADB_GTID_LIST,
        EventType.MARIADB_BINLOG_CHECKPOINT,
        EventType.MARIADB_START_ENCRYPTION,
        EventType.ROTATE,
        EventType.STOP,
        EventType.IGNORABLE,
    }
)


def type_name(code: int) -> str:
    """The name of an event type for messages; the number itself when it is unknown."""
    return _NAMES.get(code, str(code))


# Rows, and the statements logged with them: nearly all bytes of a busy source. They begin and end nothing.
ROWS_AND_THEIR_TEXT: Final = frozenset(
    {
        EventType.WRITE_ROWS,
        EventType.UPDATE_ROWS,
        EventType.DELETE_ROWS,
        EventType.WRITE_ROWS_V1,
        EventType.UPDATE_ROWS_V1,
        EventType.DELETE_ROWS_V1,
        EventType.ROWS_QUERY,
        EventType.MARIADB_ANNOTATE_ROWS,
    }
)


@shared
class EventHeader(NamedTuple):
    """The common header; `end` is the 32-bit log_pos of the event's end and wraps in files above 4 GiB."""

    timestamp: int
    type: int
    server_id: int
    size: int
    end: int
    flags: int

    @property
    def artificial(self) -> bool:
        """Whether the dump thread made this event up: it is in no file and moves no position."""
        return bool(self.flags & LOG_EVENT_ARTIFICIAL_F)

    @property
    def heartbeat(self) -> bool:
        """Whether the server only says that it has nothing to send."""
        kind = self.type
        return kind in HEARTBEATS


HEADER: Final = Struct("<IBIIIH")

# The same as EventHeader(*fields), without a Python call: every event passes here.
new_header: Final[Callable[[tuple[int, ...]], EventHeader]] = partial(tuple.__new__, EventHeader)


def parse_header(buf: bytes | bytearray | memoryview, at: int = 0) -> EventHeader:
    """Read a header; raises struct.error when fewer than 19 bytes are left."""
    return new_header(HEADER.unpack_from(buf, at))
