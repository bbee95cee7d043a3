"""From raw events to typed ones.

`EventParser` takes one stream's events in order, because an event can't be read alone: the format description at a
file's start says whether checksums end the events and which server family writes them. Before the first one (the dump
thread opens with a fake rotate) the checksum is found by trial: the chance that four last bytes happen to be the CRC-32
of the rest is one in four billion.

For any bytes `parse` returns an event or raises DMError. Every reader below raises Malformed, or one of the errors in
`_DAMAGE` from Python's own conversions, and only this module translates them.

An unknown event type passes only if the server marked it as ignorable; any other could contain changes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar
from zlib import crc32

from dm.accelerator.native import Native
from dm.accelerator.switch import Twins
from dm.errors import DMError
from dm.mysql.binlog import compression as payload
from dm.mysql.binlog import event, gtid_history, query, transaction
from dm.mysql.binlog.compression import LARGEST_UNPACKED, TransactionPayload, decompress_event
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.event import (
    CheckedEvent,
    FormatDescription,
    Heartbeat,
    Ignorable,
    InnerEvent,
    MariadbBinlogCheckpoint,
    RawEvent,
    Rotate,
    StatementInput,
    Stop,
)
from dm.mysql.binlog.frame import CRC_RESIDUE, verify_crc
from dm.mysql.binlog.gtid_history import GtidList, PreviousGtids
from dm.mysql.binlog.header import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    LOG_EVENT_IGNORABLE_F,
    EventHeader,
    EventType,
    type_name,
)
from dm.mysql.binlog.query import Query
from dm.mysql.binlog.row_events import (
    PLAIN_ROWS,
    ROWS_OF,
    ROWS_TYPES,
    TRANSACTIONS_OF,
    FoundRows,
    FoundTransaction,
    Rows,
    StreamState,
    no_rows,
    parse_rows,
)
from dm.mysql.binlog.table_map import TABLE_ID_SIZE, TableMap, TableMapEvent, parse_table_map
from dm.mysql.binlog.transaction import GtidEvent, RowsQuery, XaPrepare, Xid
from dm.mysql.dialect import Flavor
from dm.mysql.dialect.pair import same_server

__all__ = [
    "Event",
    "EventParser",
    "FormatDescription",
    "FoundTransaction",
    "GtidEvent",
    "GtidList",
    "Heartbeat",
    "Ignorable",
    "MariadbBinlogCheckpoint",
    "PreviousGtids",
    "Query",
    "Rotate",
    "Rows",
    "RowsQuery",
    "StatementInput",
    "Stop",
    "TableMap",
    "TableMapEvent",
    "TransactionPayload",
    "XaPrepare",
    "Xid",
]

Event = (
    FormatDescription
    | Rotate
    | Heartbeat
    | Stop
    | Ignorable
    | MariadbBinlogCheckpoint
    | StatementInput
    | GtidEvent
    | Xid
    | XaPrepare
    | RowsQuery
    | PreviousGtids
    | GtidList
    | Query
    | TableMapEvent
    | Rows
    | TransactionPayload
)

_DAMAGE: Final = (Malformed, struct.error, IndexError, ValueError, OverflowError)
_TABLE_MAPS_BYTES: Final = 64 << 20  # one of each table: fewer than a source's tables would be useless
_TYPE: Final = 1  # of a header's fields, by number because every event passes here
_FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION)
_Handler = Callable[[bytes, int, int, EventHeader], Event]

_RowsItem = TypeVar("_RowsItem", bound=tuple[TableMap, Rows])

_NO_TABLE: Final = b"\xff" * 6  # a rows event without table and rows, which only ends a statement
_LOAD_QUERY_MORE = 13  # of EXECUTE_LOAD_QUERY's fixed part: file id, place of the file's name, how to treat duplicates
_UNSUPPORTED: Final[dict[int, tuple[str, str]]] = {
    EventType.WRITE_ROWS_V0: ("it has the row format of MySQL 5.1 betas", "upgrade the source"),
    EventType.UPDATE_ROWS_V0: ("it has the row format of MySQL 5.1 betas", "upgrade the source"),
    EventType.DELETE_ROWS_V0: ("it has the row format of MySQL 5.1 betas", "upgrade the source"),
    EventType.INCIDENT: (
        "the source says that it lost changes of its own binlog",
        "compare the data, repair or load it again, then start the task after this event",
    ),
    EventType.MARIADB_START_ENCRYPTION: (
        "the file is encrypted from here on",
        "read from the server (which decrypts) instead of from its files, or set encrypt_binlog=OFF",
    ),
}


class EventParser:
    """Reads the events of one stream, in order."""

    def __init__(self, *, verify: bool = True, largest_unpacked: int = LARGEST_UNPACKED) -> None:
        self._largest_unpacked = largest_unpacked
        self.format: FormatDescription | None = None
        self._verify = verify
        self._checksum: bool | None = None
        self._known: StreamState | None = None  # for the maps requested last
        self._flavor: Flavor = "mysql"
        self._table_maps: dict[bytes, TableMap] = {}  # by the bytes after the table's id
        self._wanted_maps: dict[bytes, TableMap] = {}  # of these, those that may get any id
        self._maps_memory = 0
        handlers: dict[int, _Handler] = {
            EventType.QUERY: self._query,
            EventType.MARIADB_QUERY_COMPRESSED: self._compressed_query,
            EventType.STOP: lambda data, at, end, header: Stop(),
            EventType.ROTATE: lambda data, at, end, header: event.parse_rotate(ByteCursor(data, at, end), header),
            EventType.INTVAR: self._statement_input,
            EventType.RAND: self._statement_input,
            EventType.USER_VAR: self._statement_input,
            EventType.BEGIN_LOAD_QUERY: self._statement_input,
            EventType.APPEND_BLOCK: self._statement_input,
            EventType.DELETE_FILE: self._statement_input,
            EventType.EXECUTE_LOAD_QUERY: lambda data, at, end, header: query.parse_query(
                data, at, end, header, more=_LOAD_QUERY_MORE
            ),
            EventType.XID: self._xid,
            EventType.TABLE_MAP: self._table_map,
            EventType.HEARTBEAT: lambda data, at, end, header: event.parse_heartbeat(ByteCursor(data, at, end), header),
            EventType.HEARTBEAT_V2: lambda data, at, end, header: event.parse_heartbeat_v2(ByteCursor(data, at, end)),
            EventType.IGNORABLE: self._ignorable,
            EventType.TRANSACTION_CONTEXT: self._ignorable,  # certification in group replication, for its members only
            EventType.VIEW_CHANGE: self._ignorable,
            EventType.ROWS_QUERY: lambda data, at, end, header: RowsQuery(_comment(data[at + 1 : end])),
            EventType.MARIADB_ANNOTATE_ROWS: lambda data, at, end, header: RowsQuery(_comment(data[at:end])),
            EventType.GTID: lambda data, at, end, header: transaction.parse_gtid(data, at, end, False),
            EventType.ANONYMOUS_GTID: lambda data, at, end, header: transaction.parse_gtid(data, at, end, True),
            EventType.GTID_TAGGED: lambda data, at, end, header: transaction.parse_gtid_tagged(
                ByteCursor(data, at, end)
            ),
            EventType.MARIADB_GTID: lambda data, at, end, header: transaction.parse_gtid_mariadb(
                ByteCursor(data, at, end), header.server_id
            ),
            EventType.PREVIOUS_GTIDS: lambda data, at, end, header: gtid_history.parse_previous_gtids(
                ByteCursor(data, at, end)
            ),
            EventType.MARIADB_GTID_LIST: lambda data, at, end, header: gtid_history.parse_gtid_list(
                ByteCursor(data, at, end)
            ),
            EventType.MARIADB_BINLOG_CHECKPOINT: lambda data, at, end, header: event.parse_binlog_checkpoint(
                ByteCursor(data, at, end)
            ),
            EventType.XA_PREPARE: lambda data, at, end, header: transaction.parse_xa_prepare(ByteCursor(data, at, end)),
            EventType.TRANSACTION_PAYLOAD: lambda data, at, end, header: payload.parse_payload(
                ByteCursor(data, at, end), header.end
            ),
            **dict.fromkeys(ROWS_TYPES, self._rows),
        }
        handlers |= _FRONT()(self)
        self._rows_of, self._transactions_of = ROWS_OF(), TRANSACTIONS_OF()
        self._handlers = [handlers.get(code) for code in range(256)]

    def compiled(self, native: Native) -> dict[int, _Handler]:
        """The compiled readers of the most frequent events, before those here."""
        front: dict[int, _Handler] = {
            code: partial(native.rows_event, form, self._rows) for code, form in PLAIN_ROWS.items()
        }
        front[EventType.TABLE_MAP] = partial(native.table_map_event, self._table_maps, self._table_map)
        return front

    @property
    def flavor(self) -> Flavor:
        """The server family that writes the stream, as its format description says."""
        return self._flavor

    @property
    def checksum(self) -> bool:
        """Whether a checksum ends the stream's events."""
        return bool(self._checksum)

    def parse(self, raw: RawEvent) -> Event:
        """The typed event; raises DMError if it is none."""
        header, data = raw
        code = header[_TYPE]
        if code == _FORMAT_DESCRIPTION:
            return self._format_description(raw)
        if type(raw) is CheckedEvent and self._checksum is not None:
            end = len(data) - CHECKSUM_SIZE if self._checksum else len(data)
        else:
            end = self._checked_end(raw)
        handler = self._handlers[code]
        if handler is None:
            return self._unhandled(header)
        try:
            return handler(data, HEADER_SIZE, end, header)
        except _DAMAGE as error:
            raise _corrupt(header, str(error)) from error

    def rows_of(
        self, events: Sequence[RawEvent], at: int, maps: dict[int, TableMap | None], made: type[_RowsItem]
    ) -> FoundRows[_RowsItem]:
        """The plain rows events at a place of a list, each with its table map, up to the first that is neither one of
        them nor a table map that `maps` knows.

        What `maps` has as None is passed over. Without the compiled parts nothing is found: `parse` reads everything.
        """
        if self._checksum is None:
            return no_rows(events, at, None, made)
        return self._rows_of(events, at, self._state(maps), made)

    def transactions_of(
        self,
        events: Sequence[RawEvent],
        at: int,
        maps: dict[int, TableMap | None],
        made: type[_RowsItem],
        largest: int,
    ) -> tuple[list[FoundTransaction[_RowsItem]], int]:
        """The whole transactions at a place of a list that are nothing but rows of tables `maps` knows, and the place
        of the first event of what is something else, or has more than `largest` bytes of rows events.

        What `maps` has as None is passed over. Without the compiled parts nothing is found: `parse` reads everything.
        """
        if self._checksum is None:
            return [], at
        return self._transactions_of(events, at, self._state(maps), largest, made)

    def _state(self, maps: dict[int, TableMap | None]) -> StreamState:
        known = self._known
        if known is None or known.maps is not maps:
            trailing = CHECKSUM_SIZE if self._checksum else 0
            known = StreamState(trailing, self._table_maps, self._wanted_maps, maps, PLAIN_ROWS, query.known_sessions)
            self._known = known
        return known

    def _checked_end(self, raw: RawEvent) -> int:
        """The end of the body of an event that was not verified; raises DMError."""
        header, data = raw
        size = end = len(data)
        if header.size != size or size < HEADER_SIZE:
            raise _wrong_size(raw)
        if self._checksum:
            end -= CHECKSUM_SIZE
            if self._verify and crc32(data) != CRC_RESIDUE:
                end = self._unsummed_end(raw)
            elif not self._verify and isinstance(raw, InnerEvent):
                end = size
        elif self._checksum is None and verify_crc(data):
            end -= CHECKSUM_SIZE
        return end

    def _unsummed_end(self, raw: RawEvent) -> int:
        """The end of the body of an event without a right checksum; inner events have none, fake rotates may have none.

        At a file change the dump thread makes up a rotate before it has read the new file's format, so it may use the
        other setting. A name that ends in a number has no checksum bytes after it.
        """
        header, data = raw
        if isinstance(raw, InnerEvent):
            return len(data)
        if header.type == EventType.ROTATE and header.artificial and data[-CHECKSUM_SIZE:].isdigit():
            return len(data)
        raise DMError("checksum-mismatch", event=type_name(header.type), end=header.end)

    def _format_description(self, raw: RawEvent) -> FormatDescription:
        if raw.header.size != len(raw.data) or len(raw.data) < HEADER_SIZE:
            raise _wrong_size(raw)
        try:
            found = event.parse_format_description(raw.data)
        except _DAMAGE as error:
            raise _corrupt(raw.header, str(error)) from error
        if found.checksum and self._verify and not verify_crc(raw.data):
            raise DMError("checksum-mismatch", event=type_name(raw.header.type), end=raw.header.end)
        if not same_server(found.flavor, self._flavor):
            self._forget_table_maps()
        self.format, self._checksum, self._flavor = found, found.checksum, found.flavor
        self._known = None
        return found

    def _unhandled(self, header: EventHeader) -> Ignorable:
        if header.flags & LOG_EVENT_IGNORABLE_F:
            return Ignorable(header.type)
        unsupported = _UNSUPPORTED.get(header.type)
        if unsupported:
            why, way_out = unsupported
            raise DMError("event-unsupported", event=type_name(header.type), why=why, way_out=way_out)
        raise DMError("event-unknown", type=type_name(header.type))

    def _query(self, data: bytes, at: int, end: int, header: EventHeader) -> Query:
        return query.parse_query(data, at, end, header)

    def _compressed_query(self, data: bytes, at: int, end: int, header: EventHeader) -> Query:
        found = query.parse_query(data, at, end, header)
        found.sql = decompress_event(found.sql, self._largest_unpacked)
        return found

    def _xid(self, data: bytes, at: int, end: int, header: EventHeader) -> Xid:
        if end - at < 8:
            raise Malformed("it is shorter than its number")
        return Xid(int.from_bytes(data[at : at + 8], "little"))

    def _table_map(self, data: bytes, at: int, end: int, header: EventHeader) -> TableMapEvent:
        content = data[at + TABLE_ID_SIZE : end]
        if end - at < TABLE_ID_SIZE:
            raise Malformed("it is shorter than its table's id")
        known = self._table_maps.get(content)
        if known is None:
            known = parse_table_map(ByteCursor(content), self._flavor)
            self._maps_memory += known.memory
            if self._maps_memory > _TABLE_MAPS_BYTES:
                self._forget_table_maps()
                self._maps_memory = known.memory
            self._table_maps[content] = known
        return TableMapEvent(int.from_bytes(data[at : at + TABLE_ID_SIZE], "little"), known)

    def want(self, table_map: TableMap) -> None:
        """Rows of this table are wanted under any id: the compiled parts may note a new one in the maps they get."""
        if self._table_maps.get(table_map.content) is table_map:
            self._wanted_maps[table_map.content] = table_map

    def _forget_table_maps(self) -> None:
        self._table_maps.clear()
        self._wanted_maps.clear()
        self._maps_memory = 0

    def _rows(self, data: bytes, at: int, end: int, header: EventHeader) -> Rows | Ignorable:
        if data[at : at + 6] == _NO_TABLE:
            return Ignorable(header.type)
        return parse_rows(data, at, end, header.type, self._largest_unpacked)

    def _statement_input(self, data: bytes, at: int, end: int, header: EventHeader) -> StatementInput:
        return StatementInput(header.type, data[at:end])

    def _ignorable(self, data: bytes, at: int, end: int, header: EventHeader) -> Ignorable:
        return Ignorable(header.type)


def _nothing_in_front(parser: EventParser) -> dict[int, _Handler]:
    return {}


_FRONT: Final[Twins[Callable[[EventParser], dict[int, _Handler]]]] = Twins(
    _nothing_in_front, lambda native: lambda parser: parser.compiled(native)
)


def _comment(raw: bytes) -> str:
    # The statement's text, for reading only: it may be in any character set.
    return raw.decode("utf-8", "backslashreplace")


def _wrong_size(raw: RawEvent) -> DMError:
    return _corrupt(raw.header, f"it has {len(raw.data)} bytes and tells a size of {raw.header.size}")


def _corrupt(header: EventHeader, what: str) -> DMError:
    return DMError("event-corrupt", event=type_name(header.type), end=header.end, what=what)
