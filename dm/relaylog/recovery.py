"""What the files of a sub-directory prove, after any kind of end.

Only the newest file can be unfinished: an older one was closed before the next was created. Its end is searched from
the last index (or from the start), event by event with checksums, and whatever follows the last complete transaction
is cut off: half a write, half a transaction, damaged bytes. The source sends it again. relay.meta is not asked; it is
rewritten.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path

from dm.binlog.gtid_history import GtidHistory, empty_history, format_has_checksum
from dm.binlog.header import CHECKSUM_SIZE, EventType
from dm.errors import DMError
from dm.gtid import Flavor, GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.relaylog.event_file import EventFile
from dm.relaylog.index import MARK_EVERY, NOT_TRANSACTIONS, FileIndex, read_index
from dm.relaylog.layout import SubDirectory


@dataclass(frozen=True, slots=True)
class Recovered:
    """The newest file, and what is known of it up to its last complete transaction."""

    sub: SubDirectory
    file: str
    index: FileIndex

    @property
    def position(self) -> Position:
        """Where the source has to go on."""
        return Position(self.sub.server_uuid, self.file, self.index.complete, self.index.gtids)


def intact(event: bytes, checksum: bool) -> bool:
    """Whether the event's checksum is right; the relay stores a format description with its in-use flag cleared."""
    if not checksum and event[4] != EventType.FORMAT_DESCRIPTION:
        return True
    return zlib.crc32(memoryview(event)[:-CHECKSUM_SIZE]) == int.from_bytes(event[-CHECKSUM_SIZE:], "little")


def scan(path: Path, idx: Path, flavor: Flavor, *, upto: int | None = None) -> FileIndex | None:
    """Read a file to its last complete transaction, at most to `upto`; None when it has no format description yet."""
    with EventFile(path) as file:
        size = file.size if upto is None else min(upto, file.size)
        first = _beginning(file)
        if first is None or first[4] != EventType.FORMAT_DESCRIPTION or not intact(first, True):
            return None
        created = int.from_bytes(first[:4], "little")
        index = read_index(idx, size, created)
        if index is None:
            index = FileIndex(flavor=flavor, created=created, checksum=format_has_checksum(first))
        history = GtidHistory(index.gtids)
        history.boundary.checksum = index.checksum
        _read_on(file, index, history, size)
        index.gtid_set = str(history.gtid_set)
        return index


def _beginning(file: EventFile) -> bytes | None:
    """The first event, if there is one; a torn one counts as none."""
    try:
        return file.first_event() if file.has_magic() else None
    except DMError as error:
        if error.name != "relay-file-corrupt":
            raise
        return None


def _read_on(file: EventFile, index: FileIndex, history: GtidHistory, size: int) -> None:
    offset = index.complete
    marked = index.marks[-1][0] if index.marks else 0
    while True:
        try:
            events = file.read(offset, upto=size)
        except DMError as error:
            if error.name != "relay-file-corrupt":
                raise
            return  # a torn write: what is complete is before it
        if not events:
            return
        for event in events:
            if not intact(event, index.checksum):
                return
            offset += len(event)
            if not history.feed(event):
                continue
            index.complete = offset
            if event[4] in NOT_TRANSACTIONS:
                continue
            timestamp = int.from_bytes(event[:4], "little")
            index.transactions += 1
            index.last_time = timestamp
            index.first_time = index.first_time or timestamp
            if offset - marked >= MARK_EVERY:
                index.marks.append((offset, timestamp))
                marked = offset


def recover(sub: SubDirectory, flavor: Flavor) -> Recovered | None:
    """Bring the newest file to its last complete transaction; None when there is no file that has begun."""
    while True:
        files = sub.files()
        if not files:
            return None
        name = files[-1]
        path = sub.file(name)
        index = scan(path, sub.idx(name), flavor)
        try:
            if index is None:
                # Created, and killed before its format description was there: as if it had never been.
                path.unlink()
                sub.idx(name).unlink(missing_ok=True)
                continue
            if path.stat().st_size > index.complete:
                _truncate(path, index.complete)
        except OSError as error:
            raise DMError("relay-storage-failed", path=path) from error
        index.final = False
        return Recovered(sub, name, index)


def _truncate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_LEADING = frozenset({EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST})


def gtids_before_file(sub: SubDirectory, name: str) -> GtidSet | None:
    """What the file itself says came before it; None while it has not said so yet."""
    history = empty_history("mysql")
    with EventFile(sub.file(name)) as file:
        if not file.has_magic():
            return None
        offset = MAGIC_SIZE
        seen_list = False
        for event in file.read(offset):
            if event[4] not in _LEADING:
                return history.gtid_set
            history.feed(event)
            seen_list = seen_list or event[4] != EventType.FORMAT_DESCRIPTION
    return history.gtid_set if seen_list else None


def gtids_at(sub: SubDirectory, name: str, offset: int, flavor: Flavor) -> GtidSet:
    """The set of everything complete at an offset of a file, from its index or by reading up to there."""
    if offset <= MAGIC_SIZE:
        return gtids_before_file(sub, name) or GtidSet.empty(flavor)
    found = scan(sub.file(name), sub.idx(name), flavor, upto=offset)
    return GtidSet.empty(flavor) if found is None else found.gtids
