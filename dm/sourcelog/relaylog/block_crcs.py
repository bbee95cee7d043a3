"""CRCs of a relay file per MiB, for sources that write no checksums into their events.

They are computed from the bytes as they arrived, not from what the file returns. So they also detect damage between the
write and the first read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from dm.sourcelog.relaylog.index import BLOCK

Read = Callable[[int, int], bytes]  # offset, count


class BlockCrcs:
    """One CRC-32 per MiB from the file's first byte on; the last block may be incomplete."""

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
