"""Spool files: records that are verified when they are read back, in the format of TiDB's Pump.

    record    magic u32, length u64, crc u32 (CRC-32 of the payload), payload; all little-endian, 16 bytes in front
    footer    a record with its own magic: number of records, bytes of payload, latest commit time

An offset alone finds a record, and a record is self-contained. The CRC does not cover the length: a wrong length
selects other bytes, whose CRC differs, or leads past the file's end.

A disk that returns other bytes than were written must not cause wrong rows at the target. So every read is verified,
and a mismatch is a DMError with file and offset.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final
from zlib import crc32

from dm.errors import DMError

MAGIC: Final = 0x6B4D5053
FOOTER_MAGIC: Final = 0x6B4D5046
HEADER: Final = Struct("<IQI")
HEADER_SIZE: Final = HEADER.size
FLUSH_BYTES: Final = 1 << 18
READ_BYTES: Final = 1 << 18

_FOOTER = Struct("<QQQ")
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Piece = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a finished file."""

    records: int
    payload_bytes: int
    commit_time: int  # the latest of its transactions, seconds at the source


class SpoolWriter:
    """Appends records to a new file; a record is readable at its offset after `flush`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held: list[Piece] = []
        self._held_bytes = 0
        self._end = 0
        self._records = 0
        self._payload_bytes = 0
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _not_written(path, error) from error
        self._open = True

    @property
    def end(self) -> int:
        """The offset of the next record."""
        return self._end

    def append(self, *pieces: Piece) -> int:
        """Append a record whose payload is the concatenated pieces; returns its offset.

        Raises DMError when the disk is full.
        """
        at, length, crc = self._end, 0, 0
        for piece in pieces:
            length += len(piece)
            crc = crc32(piece, crc)
        self._add(MAGIC, length, crc, pieces)
        self._records += 1
        self._payload_bytes += length
        return at

    def _add(self, magic: int, length: int, crc: int, pieces: tuple[Piece, ...]) -> None:
        self._held.append(HEADER.pack(magic, length, crc))
        self._end += HEADER_SIZE + length
        if length < FLUSH_BYTES:
            # A copy: a view would keep the whole event, and the socket's buffer under it, alive.
            self._held.extend([bytes(piece) for piece in pieces])
            self._held_bytes += HEADER_SIZE + length
            if self._held_bytes >= FLUSH_BYTES:
                self.flush()
            return
        self.flush()
        for piece in pieces:
            self._write(piece)

    def flush(self) -> None:
        """Hand everything to the operating system, so that readers find it."""
        if self._held:
            held = b"".join(self._held)
            self._held = []
            self._held_bytes = 0
            self._write(held)

    def sync(self) -> None:
        """Force everything to the disk, including the file's name: it survives a crash of the host."""
        self.flush()
        try:
            os.fsync(self._descriptor)
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise _not_written(self.path, error) from error

    def finish(self, commit_time: int) -> None:
        """Write the footer; nothing is appended after it."""
        payload = _FOOTER.pack(self._records, self._payload_bytes, commit_time)
        self._add(FOOTER_MAGIC, len(payload), crc32(payload), (payload,))
        self.flush()

    def close(self) -> None:
        """Close the file; drops what was not flushed."""
        if self._open:
            self._open = False
            with suppress(OSError):  # a late error of the file system: only `sync` promises durability
                os.close(self._descriptor)

    def _write(self, piece: Piece) -> None:
        left = memoryview(piece)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise _not_written(self.path, error) from error


class SpoolReader:
    """Reads records of a file, repeatedly and from several threads at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DMError("spool-damaged", file=path, offset=0, what="it can't be opened") from error
        self._open = True

    def size(self) -> int:
        """Bytes of the file now."""
        return os.fstat(self._descriptor).st_size

    def record(self, offset: int) -> bytes:
        """The payload of the record at an offset; raises DMError when it is damaged."""
        return next(self.records(offset, self.size()))

    def records(self, start: int, end: int) -> Iterator[bytes]:
        """The payloads of all records from one offset to another; raises DMError at the first damaged one.

        `end` is the end of a record, as the writer returned it, or the end of the file; a footer in between ends it
        too.
        """
        window, base = b"", start
        at = start
        while at < end:
            if at + HEADER_SIZE > base + len(window):
                window, base = self._read(at, min(READ_BYTES, end - at)), at
            if len(window) - (at - base) < HEADER_SIZE:
                raise self._damaged(at, "it ends inside the front of a record")
            magic, length, crc = HEADER.unpack_from(window, at - base)
            if magic not in (MAGIC, FOOTER_MAGIC):
                raise self._damaged(at, "no record begins there")
            if at + HEADER_SIZE + length > end:
                raise self._damaged(at, f"a record of {length} bytes does not fit in")
            body = at + HEADER_SIZE
            if body + length <= base + len(window):
                payload = window[body - base : body - base + length]
            else:
                payload = self._read(body, length)
            if len(payload) != length or crc32(payload) != crc:
                raise self._damaged(at, "its checksum is wrong")
            if magic == FOOTER_MAGIC:
                return
            yield payload
            at = body + length

    def footer(self) -> Footer | None:
        """The file's footer; None when the writer did not finish it."""
        size = HEADER_SIZE + _FOOTER.size
        at = self.size() - size
        if at < 0:
            return None
        data = self._read(at, size)
        magic, length, crc = HEADER.unpack_from(data)
        payload = data[HEADER_SIZE:]
        if magic != FOOTER_MAGIC or length != _FOOTER.size or crc32(payload) != crc:
            return None
        return Footer(*_FOOTER.unpack(payload))

    def close(self) -> None:
        """Close the file."""
        if self._open:
            self._open = False
            os.close(self._descriptor)

    def _read(self, at: int, count: int) -> bytes:
        try:
            found = os.pread(self._descriptor, count, at)
            if len(found) in (count, 0):
                return found
            pieces = [found]  # one call returns 2 GiB at most, and a signal may cut it short
            while found:
                at += len(found)
                count -= len(found)
                found = os.pread(self._descriptor, count, at)
                pieces.append(found)
            return b"".join(pieces)
        except OSError as error:
            raise self._damaged(at, "it can't be read") from error

    def _damaged(self, offset: int, what: str) -> DMError:
        return DMError("spool-damaged", file=self.path, offset=offset, what=what)


def _not_written(path: Path, error: OSError) -> DMError:
    name = "spool-full" if error.errno in _NO_ROOM else "spool-not-written"
    return DMError(name, file=path)
