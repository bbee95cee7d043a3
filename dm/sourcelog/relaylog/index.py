"""The index of a relay file, stored beside it so that the file stays identical to the source's.

It holds what TiDB's Pump keeps in the footers of its files. A final index (`final: true`) says that the file will not
grow. An index that is not final is a checkpoint of the scan: everything up to `complete` was read once, and the state
there is known, so a restart reads only the rest. `marks` map offsets to times, one per MiB, so that a time is found
without reading the file. A session may set its clock back, so `latest_time` and the times of the marks are those of the
latest transaction so far. If the source writes no checksums, `block_crcs` replace them: one CRC-32 per MiB from the
file's first byte on, the last one up to `complete`.

An index is a hint. If it does not match its file (larger than the file, another creation time, unreadable, an older
format), it is ignored and rebuilt from the file. A newer format is refused, since it may hold the only checksums of
the file, of a kind that is not known here. A wrong number would send the relay to a wrong place, so the index
carries its own CRC. The first line alone shows whether it is final and matches the file's size:

    {"format": 2, "final": true, "size": 1073742102, "crc": 3632233996}
    {"complete": 1073742102, "created": ...}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from struct import error as struct_error
from typing import Final, NamedTuple
from zlib import crc32

from dm.atomic_file import write_atomically
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.cursor import ByteCursor
from dm.mysql.binlog.gtid_history import GtidHistory
from dm.mysql.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, NOT_TRANSACTIONS, EventType, parse_header
from dm.mysql.binlog.transaction import parse_gtid_tagged
from dm.mysql.dialect import Flavor
from dm.stored_format import RELAY_INDEX
from dm.unit import JSON

BLOCK = 1 << 20
MARK_EVERY = 1 << 20
TABLES_KEPT = 1000
ANY_SIZE = 1 << 63  # for `read_index`, when the file's size is checked elsewhere
_SEAL_BYTES = 160  # more than the longest first line


class Seal(NamedTuple):
    """The first line of an index: enough to see whether a closed file is complete."""

    final: bool
    size: int


@dataclass(slots=True)
class FileIndex:
    """What is known of one relay file up to the end of its last complete transaction."""

    complete: int = 4  # end of the last complete transaction
    created: int = 0  # the format description's timestamp: tells files of one name apart
    checksum: bool = True
    flavor: Flavor = "mysql"
    gtid_before: str = ""  # the preceding GTIDs that the file itself states
    gtid_set: str = ""  # everything complete at `complete`, earlier files included
    transactions: int = 0
    first_time: int = 0  # seconds, of the events' headers
    last_time: int = 0
    latest_time: int = 0  # of all transactions; 0 where an older DM began the index
    first_commit: int = 0  # microseconds, of MySQL's GTID events (from 8.0.1 on); 0 where there are none
    last_commit: int = 0
    tables: list[str] = field(default_factory=list)  # `schema.table` of every table map, sorted
    all_tables: bool = True  # False: there are more than are kept, or some are inside compressed transactions
    next_file: str = ""  # the next file by this file's rotation
    final: bool = False
    marks: list[tuple[int, int]] = field(default_factory=list)  # offset, `latest_time` there
    block_crcs: list[int] = field(default_factory=list)  # only where the source writes no checksums

    @property
    def gtids(self) -> GtidSet:
        """The GTID set as a value."""
        return GtidSet.parse(self.gtid_set, self.flavor)

    @property
    def seal(self) -> Seal:
        """What the first line says."""
        return Seal(self.final, self.complete)


def write_index(path: Path, index: FileIndex) -> None:
    """Replace the index."""
    body = json.dumps({known.name: getattr(index, known.name) for known in fields(index)}).encode()
    seal = json.dumps(
        {"format": RELAY_INDEX.number, "final": index.final, "size": index.complete, "crc": crc32(body)}
    ).encode()
    write_atomically(path, seal + b"\n" + body, durable=False)


def read_seal(path: Path) -> Seal | None:
    """The first line only; None when there is none, or one of an older format. Raises DMError for a newer one."""
    try:
        with path.open("rb") as file:
            line, end, _ = file.read(_SEAL_BYTES).partition(b"\n")
        found = _seal(line, path) if end else None
        return None if found is None else Seal(bool(found["final"]), int(str(found["size"])))
    except (FileNotFoundError, ValueError, KeyError):
        return None


def read_index(path: Path, size: int, created: int | None = None) -> FileIndex | None:
    """The index of a file of this size (and creation time, if given); None when it does not match.

    Raises DMError `stored-format-newer`.
    """
    try:
        line, _, body = path.read_bytes().partition(b"\n")
        seal = _seal(line, path)
        if seal is None or seal.get("crc") != crc32(body):
            return None
        index = FileIndex(**json.loads(body))
        index.marks = [(int(offset), int(time)) for offset, time in index.marks]
        GtidSet.parse(index.gtid_set, index.flavor)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    fits = 4 <= index.complete <= size and created in (None, index.created)
    return index if fits else None


def _seal(line: bytes, path: Path) -> Mapping[str, JSON] | None:
    found = json.loads(line)
    if not isinstance(found, dict) or RELAY_INDEX.demand_known(found.get("format"), path) < RELAY_INDEX.number:
        return None
    return found


# Keeps a file's index up to date as events pass: when they arrive, and when a file is read again.

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
    written (`current`).
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

    def current(self) -> FileIndex:
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
