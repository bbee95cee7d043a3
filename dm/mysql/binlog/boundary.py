"""Where one transaction of a binlog ends and the next may begin, seen from the raw events.

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

from struct import Struct
from typing import Final

from dm.mysql.binlog.header import HEADER_SIZE, EventType

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
