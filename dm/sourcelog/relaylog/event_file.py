"""Reads the events of one relay file in large pieces, without parsing them."""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Self

from dm.errors import DMError
from dm.mysql.binlog.frame import MAGIC
from dm.mysql.binlog.header import HEADER_SIZE
from dm.position import MAGIC_SIZE

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
