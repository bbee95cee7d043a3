"""Reading a relay file from its last index on, event by event, to find out what it proves.

A scan stops at the first bad byte: a torn write, half a transaction, damage. Everything up to the end of the last
complete transaction is proven. The caller judges the rest: at the end of a growing file it is normal, in the middle of
a closed file it is not.

If the source writes no checksums, events alone prove nothing. Then only the CRCs of an index do, and a scan ends where
they end, unless the caller has nothing better and trusts the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Self
from zlib import crc32

from dm.errors import DMError
from dm.mysql.binlog.frame import CRC_RESIDUE, MAGIC
from dm.mysql.binlog.gtid_history import GtidHistory, format_has_checksum
from dm.mysql.binlog.header import HEADER_SIZE, EventType
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE
from dm.sourcelog.relaylog.index import BLOCK, FileIndex, IndexBuilder, read_index


@dataclass(slots=True)
class Scan:
    """What a file proves."""

    index: FileIndex
    stopped: int  # the place of the first bad event; the file's end if all are good
    what: str = ""  # what is wrong there; empty at the end of the bytes
    last_kind: int = 0  # type of the last good event that was read
    bytes_read: int = 0
    size: int = 0  # of the file when it was opened, or up to where it was to be read


def scan(path: Path, idx: Path | None, flavor: Flavor, *, upto: int | None = None, trust: bool = False) -> Scan | None:
    """Read a file up to its last complete transaction, from its index on if given, at most to `upto`.

    None when it has no format description yet.
    """
    with EventFile(path) as file:
        size = file.size if upto is None else min(upto, file.size)
        first = _beginning(file)
        if first is None:
            return None
        created = int.from_bytes(first[:4], "little")
        index = None if idx is None else read_index(idx, size, created)
        if index is None:
            index = FileIndex(flavor=flavor, created=created, checksum=format_has_checksum(first))
            if not index.checksum and not trust:
                index.complete = 4 + len(first)
                index.block_crcs = _block_crcs(file, index.complete)
                what = "there is no proof of what follows"
                return Scan(index, index.complete, what, first[4], file.bytes_read, size)
        elif not index.checksum and not trust:
            return Scan(index, index.complete, bytes_read=file.bytes_read, size=size)
        found = _read_on(file, index, size)
        if not index.checksum:
            index.block_crcs = _block_crcs(file, index.complete)
        found.bytes_read, found.size = file.bytes_read, size
        return found


def created_at(path: Path) -> int | None:
    """The creation time in a file's format description; None when it can't be read."""
    with EventFile(path) as file:
        first = _beginning(file)
    return None if first is None else int.from_bytes(first[:4], "little")


def _beginning(file: EventFile) -> bytes | None:
    """The format description, if there is one; a torn one counts as none."""
    try:
        first = file.first_event() if file.has_magic() else None
    except DMError as error:
        if error.name != "relay-file-corrupt":
            raise
        return None
    if first is None or first[4] != EventType.FORMAT_DESCRIPTION or crc32(first) != CRC_RESIDUE:
        return None
    return first


def _read_on(file: EventFile, index: FileIndex, size: int) -> Scan:
    history = GtidHistory(index.gtids)
    history.boundary.checksum = index.checksum
    builder = IndexBuilder(index, history)
    found = Scan(index, index.complete)
    try:
        while events := file.read(found.stopped, upto=size):
            for event in events:
                end = found.stopped + len(event)
                if fault := wrong(event, end, index.checksum):
                    found.what = fault
                    return found
                builder.feed(event, end)
                found.stopped = end
                found.last_kind = event[4]
    except DMError as error:
        if error.name not in ("relay-file-corrupt", "event-corrupt"):
            raise
        found.what = str(error.details["what"])
    else:
        if found.stopped < size:
            found.what = "an event is not all there"
    finally:
        builder.current()
    return found


def wrong(event: bytes, end: int, checksum: bool) -> str:
    """Evidence that these bytes are not the source's event ending here; empty if there is none."""
    # A format description has a checksum even if no other event has one.
    if (checksum or event[4] == EventType.FORMAT_DESCRIPTION) and crc32(event) != CRC_RESIDUE:
        return "its checksum is wrong"
    if int.from_bytes(event[13:17], "little") != end & 0xFFFFFFFF:
        return f"it says that it ends at {int.from_bytes(event[13:17], 'little')}"
    return ""


def _block_crcs(file: EventFile, size: int) -> list[int]:
    blocks = BlockCrcs()
    for at in range(0, size, BLOCK):
        blocks.add(file.raw(at, min(BLOCK, size - at)))
    return blocks.upto(size, file.raw)


Read = Callable[[int, int], bytes]  # offset, count


class BlockCrcs:
    """One CRC-32 per MiB from the file's first byte on; the last block may be incomplete.

    They are computed from the bytes as they arrived, not from what the file returns. So they also detect damage between
    the write and the first read.
    """

    def __init__(self, crcs: Sequence[int] = (), size: int = 0) -> None:
        whole, rest = divmod(size, BLOCK)
        self._whole = list(crcs[:whole])
        self._open = crcs[whole] if rest else 0
        self.size = size

    def add(self, data: bytes | memoryview) -> None:
        """Add the bytes that follow."""
        view = memoryview(data)
        while view:
            room = BLOCK - self.size % BLOCK
            piece, view = view[:room], view[room:]
            self._open = crc32(piece, self._open)
            self.size += len(piece)
            if len(piece) == room:
                self._whole.append(self._open)
                self._open = 0

    def upto(self, size: int, read: Read) -> list[int]:
        """The CRCs of the first `size` bytes; the last block is read from the file if it does not end the data."""
        whole, rest = divmod(size, BLOCK)
        found = self._whole[:whole]
        if rest:
            found.append(self._open if size == self.size else crc32(read(whole * BLOCK, rest)))
        return found


# Reads the events of one relay file in large pieces, without parsing them.

PIECE = 1 << 20
LARGEST_EVENT = (1 << 30) + (1 << 20)  # servers limit an event to max_allowed_packet, 1 GiB at most
_size_at = Struct("<I").unpack_from


class EventFile:
    """An open relay file; another process may be writing to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes_read = 0
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise DMError("relay-file-missing", file=path.name, first="other files") from error
        except OSError as error:
            raise DMError("relay-storage-failed", path=path) from error

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def size(self) -> int:
        """The file's size now."""
        return os.fstat(self._descriptor).st_size

    @property
    def replaced(self) -> bool:
        """Whether another file has replaced this one: the relay has fetched it again."""
        try:
            present = os.stat(self.path)
        except FileNotFoundError:
            return False  # removed; the open file can still be read
        mine = os.fstat(self._descriptor)
        return (present.st_dev, present.st_ino) != (mine.st_dev, mine.st_ino)

    def has_magic(self) -> bool:
        """Whether the file starts as a binlog file does."""
        return self.raw(0, MAGIC_SIZE) == MAGIC

    def first_event(self) -> bytes | None:
        """The format description; None while it is not complete."""
        events = self.read(MAGIC_SIZE, piece=4096)
        return events[0] if events else None

    def read(self, offset: int, *, upto: int | None = None, piece: int = PIECE) -> list[bytes]:
        """The complete events from `offset` on, about one piece; none at the end or before a torn one."""
        limit = self.size if upto is None else upto
        data = self.raw(offset, min(piece, limit - offset))
        length = len(data)
        if length >= HEADER_SIZE:
            first = self._first_size(data, offset)
            if first > length:
                if offset + first > limit:
                    return []
                data = self.raw(offset, first)
                length = len(data)
        events: list[bytes] = []
        at = 0
        while length - at >= HEADER_SIZE:
            stop = at + _size_at(data, at + 9)[0]
            # A bad event is an error only when it is the first: the events before it are good.
            if stop > length or stop - at < HEADER_SIZE:
                break
            events.append(data[at:stop])
            at = stop
        return events

    def _first_size(self, data: bytes, offset: int) -> int:
        size: int = _size_at(data, 9)[0]
        if not HEADER_SIZE <= size <= LARGEST_EVENT:
            raise DMError("relay-file-corrupt", file=self.path.name, offset=offset, what=f"an event of {size} bytes")
        return size

    def raw(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset` on."""
        if count <= 0:
            return b""
        try:
            data = os.pread(self._descriptor, count, offset)
        except OSError as error:
            raise DMError("relay-storage-failed", path=self.path) from error
        self.bytes_read += len(data)
        return data
