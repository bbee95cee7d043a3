"""Keeps a file's index up to date as events pass: when they arrive, and when a file is read again."""

from __future__ import annotations

from struct import error as struct_error
from typing import Final

from dm.binlog.cursor import ByteCursor
from dm.binlog.gtid_history import GtidHistory
from dm.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, NOT_TRANSACTIONS, EventType, parse_header
from dm.binlog.transaction import parse_gtid_tagged
from dm.errors import DMError
from dm.relaylog.index import MARK_EVERY, TABLES_KEPT, FileIndex

_GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED, EventType.MARIADB_GTID})
_BEFORE: Final = frozenset({EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST})
_NOTED: Final = frozenset({EventType.TABLE_MAP, EventType.TRANSACTION_PAYLOAD})
ID = slice(HEADER_SIZE, HEADER_SIZE + 6)  # of a table map's table
_SCHEMA_AT: Final = HEADER_SIZE + 8
# In a plain GTID event, after flags, uuid, number and logical clock; 5.7 ends there. The top bit says that the commit
# time at the transaction's first server follows.
_COMMIT = slice(HEADER_SIZE + 42, HEADER_SIZE + 49)
_COMMIT_BITS: Final = (1 << 55) - 1


class IndexBuilder:
    """Takes the events of one file in order, from `index.complete` on.

    It runs for every transaction of the relay, so it formats the last transaction's values only when the index is
    written (`settled`).
    """

    def __init__(self, index: FileIndex, history: GtidHistory) -> None:
        self.index = index
        self.table_ids: set[bytes] = set()  # of known tables: an id means one structure of one table
        self.boundary = history.boundary
        self._history = history
        self._feed = history.feed
        self._marked = index.marks[-1][0] if index.marks else 0
        self._tables = set(index.tables)
        self._gtid: bytes | None = None  # of the open transaction
        self._last_gtid: bytes | None = None  # of the last complete one
        self._last: bytes | None = None  # the event that ended it

    def feed(self, event: bytes, end: int) -> bool:
        """Take the next event, which ends at `end`; True when no transaction is open after it."""
        kind = event[4]
        if kind in _GTIDS:
            self._gtid = event
        elif kind in _NOTED:
            self._note(kind, event)
        try:
            if not self._feed(event):
                return False
        except (struct_error, IndexError) as error:
            header = parse_header(event)
            raise DMError("event-corrupt", event=header.type, end=header.end, what=str(error)) from error
        index = self.index
        index.complete = end
        if kind in NOT_TRANSACTIONS:
            if kind == EventType.FORMAT_DESCRIPTION:
                index.checksum = self._history.boundary.checksum
            elif kind in _BEFORE:
                index.gtid_before = str(self._history.gtid_set)
            return True
        time = _time(event)
        if not index.transactions:
            index.first_time = index.latest_time = time
            index.first_commit = self._commit_time(self._gtid)
        elif 0 < index.latest_time < time:
            index.latest_time = time
        index.transactions += 1
        self._last, self._last_gtid, self._gtid = event, self._gtid, None
        if end - self._marked >= MARK_EVERY:
            index.marks.append((end, index.latest_time))
            self._marked = end
        return True

    def settled(self) -> FileIndex:
        """The index as of now."""
        index = self.index
        index.gtid_set = str(self._history.gtid_set)
        index.tables = sorted(self._tables)
        if self._last is not None:
            index.last_time = _time(self._last)
            index.last_commit = self._commit_time(self._last_gtid)
        return index

    def _note(self, kind: int, event: bytes) -> None:
        if kind != EventType.TABLE_MAP:
            self.index.all_tables = False  # the tables in a payload are compressed with it
        elif event[ID] not in self.table_ids:
            self._table(event)

    def _table(self, event: bytes) -> None:
        self.table_ids.add(event[ID])
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

    def _commit_time(self, event: bytes | None) -> int:
        """Microseconds of the commit, if the GTID event has them."""
        if event is None or event[4] == EventType.MARIADB_GTID:
            return 0
        if event[4] == EventType.GTID_TAGGED:
            end = len(event) - (CHECKSUM_SIZE if self._history.boundary.checksum else 0)
            return parse_gtid_tagged(ByteCursor(event, HEADER_SIZE, end)).commit_timestamp_us or 0
        return int.from_bytes(event[_COMMIT], "little") & _COMMIT_BITS if len(event) > _COMMIT.stop else 0


def _time(event: bytes) -> int:
    return int.from_bytes(event[:4], "little")
