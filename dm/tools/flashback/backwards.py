"""A file of records that is written forwards and read backwards, so that the newest record comes first.

Each record is followed by its length and CRC, which a reader meets before the record. So neither end of the file needs
an index, and only one record is in memory at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from dm.errors import DMError

_TRAILER: Final = Struct("<QI")
_FLUSH_BYTES: Final = 1 << 18
_READ_BYTES: Final = 1 << 18


class BackwardsFile:
    """Scratch: nobody else reads it, and it is removed at the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._size = 0
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._failed(error) from error

    def append(self, record: bytes) -> None:
        """Add a record; raises DMError when the disk is full."""
        trailer = _TRAILER.pack(len(record), crc32(record))
        self._held += (record, trailer)
        self._held_bytes += len(record) + len(trailer)
        if self._held_bytes >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        left = memoryview(b"".join(self._held))
        self._held, self._held_bytes = [], 0
        try:
            while left:
                written = os.pwrite(self._descriptor, left, self._size)
                self._size += written
                left = left[written:]
        except OSError as error:
            raise self._failed(error) from error

    def backwards(self) -> Iterator[bytes]:
        """All records, the last one first; raises DMError if the disk gives other bytes than were written."""
        self._flush()
        end, block, start = self._size, b"", self._size  # of the block: the bytes from `start` on
        while end:
            if end - start < _TRAILER.size:
                block, start = self._block(end, _TRAILER.size)
            at = end - start - _TRAILER.size
            length, crc = _TRAILER.unpack_from(block, at)
            whole = length + _TRAILER.size
            if whole > end:
                raise DMError("spool-damaged", file=self._path, offset=end, what="a record is longer than the file")
            if end - start < whole:
                block, start = self._block(end, whole)
                at = end - start - _TRAILER.size
            record = block[at - length : at]
            if crc32(record) != crc:
                raise DMError("spool-damaged", file=self._path, offset=end, what="a record is not as it was written")
            yield record
            end -= whole

    def _block(self, end: int, least: int) -> tuple[bytes, int]:
        """The bytes before `end`, at least so many, and where they begin."""
        start = max(0, end - max(least, _READ_BYTES))
        block = b""
        try:
            while len(block) < end - start:
                read = os.pread(self._descriptor, end - start - len(block), start + len(block))
                if not read:
                    raise DMError("spool-damaged", file=self._path, offset=start, what="the file is too short")
                block += read
        except OSError as error:
            raise self._failed(error) from error
        return block, start

    def close(self) -> None:
        """Remove the file."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)

    def _failed(self, error: OSError) -> DMError:
        return DMError("flashback-unwritable", file=self._path, cause=error.strerror or str(error))
