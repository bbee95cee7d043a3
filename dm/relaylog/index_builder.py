"""Keeping a file's index up to date while its events go by: when they arrive, and when a file is read again."""

from __future__ import annotations

from struct import error as struct_error
from typing import Final

from dm.binlog.cursor import ByteCursor
from dm.binlog.gtid_history import GtidHistory
from dm.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, NOT_TRANSACTIONS, EventType, parse_header
from dm.binlog.transaction import parse_gtid_tagged
from dm.errors import DMError
from dm.relaylog.index import MARK_EVERY, TABLES_KEPT, FileIndex

# Inside a transaction these say nothing that an index has; nearly all bytes of a busy source are theirs.
SILENT: Final = frozenset(
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
_GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED})
_BEFORE: Final = frozenset({EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST})
_ID = slice(HEADER_SIZE, HEADER_SIZE + 6)
_SCHEMA_AT: Final = HEADER_SIZE + 8
# Of a plain GTID event: behind flags, uuid, number and logical clock; 5.7 ends there. The top bit says that the time
# at the transaction's first server follows.
_COMMIT = slice(HEADER_SIZE + 42, HEADER_SIZE + 49)
_COMMIT_BITS: Final = (1 << 55) - 1


class IndexBuilder:
    """Takes the events of one file in order, from `index.complete` on."""

    def __init__(self, index: FileIndex, history: GtidHistory) -> None:
        self.index = index
        self._history = history
        self._marked = index.marks[-1][0] if index.marks else 0
        self._tables = set(index.tables)
        self._ids: set[bytes] = set()  # table ids whose table is known: an id means one structure of one table
        self._commit = 0

    def feed(self, event: bytes, end: int) -> bool:
        """Take the next event, which ends at `end`; True when no transaction is open after it."""
        kind = event[4]
        index = self.index
        if kind == EventType.TABLE_MAP and event[_ID] not in self._ids:
            self._table(event)
        try:
            between = self._history.feed(event)
        except (struct_error, IndexError) as error:
            header = parse_header(event)
            raise DMError("event-corrupt", event=header.type, end=header.end, what=str(error)) from error
        if kind in _GTIDS:
            self._commit = self._commit_time(event)
        elif kind == EventType.TRANSACTION_PAYLOAD:
            index.all_tables = False
        if not between:
            return False
        index.complete = end
        if kind in NOT_TRANSACTIONS:
            if kind == EventType.FORMAT_DESCRIPTION:
                index.checksum = self._history.boundary.checksum
            elif kind in _BEFORE:
                index.gtid_before = str(self._history.gtid_set)
            return True
        timestamp = int.from_bytes(event[:4], "little")
        index.transactions += 1
        index.last_time = timestamp
        if not index.first_time:
            index.first_time = timestamp
        if self._commit:
            index.last_commit = self._commit
            index.first_commit = index.first_commit or self._commit
            self._commit = 0
        if end - self._marked >= MARK_EVERY:
            index.marks.append((end, timestamp))
            self._marked = end
        return True

    def settled(self) -> FileIndex:
        """The index, with what is only put into words when somebody asks."""
        self.index.gtid_set = str(self._history.gtid_set)
        self.index.tables = sorted(self._tables)
        return self.index

    def _table(self, event: bytes) -> None:
        self._ids.add(event[_ID])
        if len(self._tables) >= TABLES_KEPT:
            self.index.all_tables = False
            return
        at = _SCHEMA_AT
        names = []
        for _ in range(2):
            stop = at + 1 + (event[at] if at < len(event) else 0)
            names.append(event[at + 1 : stop].decode("utf-8", "replace"))
            at = stop + 1
        self._tables.add(".".join(names))

    def _commit_time(self, event: bytes) -> int:
        """Microseconds of the commit, where the GTID event says it."""
        if event[4] == EventType.GTID_TAGGED:
            end = len(event) - (CHECKSUM_SIZE if self._history.boundary.checksum else 0)
            return parse_gtid_tagged(ByteCursor(event, HEADER_SIZE, end)).commit_timestamp_us or 0
        return int.from_bytes(event[_COMMIT], "little") & _COMMIT_BITS if len(event) > _COMMIT.stop else 0
