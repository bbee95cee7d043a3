"""The writing end of the ring (essay in `dm.relaylog.ring`): the tap of the relay's writer."""

from __future__ import annotations

import mmap
import os
import secrets
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from dm.relaylog.ring import (
    CAPACITY,
    DATA_AT,
    FORM,
    FORM_WORD,
    HEAD,
    POINTER_NAME,
    RESERVED,
    SHARED_MEMORY,
    TABLE_SIZE,
    TABLES_AT,
    TOKEN,
    VERSION,
    WAKE,
    WORDS_SIZE,
    Pointer,
    Segment,
    encode_table,
    fence,
    possible,
)

SMALLEST: Final = 1 << 20
_MADV_POPULATE_WRITE: Final = 23  # madvise(2): map all pages now, a third cheaper than one by one


class RingWriter:
    """Copies what the relay wrote into shared memory, over the oldest bytes there."""

    def __init__(self, root: Path, descriptor: int, capacity: int) -> None:
        self._root = root
        self._descriptor = descriptor
        self._capacity = capacity
        self._memory = mmap.mmap(descriptor, DATA_AT + capacity)
        with suppress(OSError):  # of a kernel before 5.14: then each page is mapped when it is first written
            self._memory.madvise(_MADV_POPULATE_WRITE)
        self._bytes = memoryview(self._memory)
        self._words = self._bytes[:WORDS_SIZE].cast("Q")
        self._head = 0
        self._segments: list[Segment] = []
        self._waked = 0
        self._fence = threading.Lock()
        token = secrets.randbits(63)
        self._words[TOKEN], self._words[CAPACITY] = token, capacity
        self._publish()
        self._words[FORM_WORD] = FORM
        found = os.fstat(descriptor)
        Pointer(os.getpid(), descriptor, found.st_dev, found.st_ino, token).store(root)

    @staticmethod
    def create(root: Path, size: int, shared: Path = SHARED_MEMORY) -> RingWriter | None:
        """A ring of at most `size` bytes for this relay directory; None when there can be none, and files must do."""
        if size <= 0 or not possible() or not shared.is_dir():
            size = 0
        try:
            (root / POINTER_NAME).unlink(missing_ok=True)  # of a relay that was killed
            if not size:
                return None
            descriptor, name = tempfile.mkstemp(prefix="dm-relay-", dir=shared)
        except OSError:
            return None
        try:
            os.unlink(name)
            room = os.fstatvfs(descriptor)
            capacity = min(size, room.f_bavail * room.f_frsize // 2)  # others need shared memory too
            if capacity >= min(size, SMALLEST):
                os.posix_fallocate(descriptor, 0, DATA_AT + capacity)
                return RingWriter(root, descriptor, capacity)
        except OSError:
            pass  # no memory or no pointer: the ring is an acceleration, the files have everything
        os.close(descriptor)
        return None

    @property
    def capacity(self) -> int:
        """How many bytes it holds."""
        return self._capacity

    def opened(self, sub: str, file: str, offset: int) -> None:
        """Go on with this file."""
        if self._descriptor < 0:
            return
        oldest = self._head - self._capacity
        following = [segment.at for segment in self._segments[1:]] + [self._head]
        kept = [segment for segment, end in zip(self._segments, following, strict=False) if end > oldest]
        self._segments = [*kept, Segment(self._head, sub, file, offset)]
        self._publish()

    def _publish(self) -> None:
        while len(table := encode_table(self._segments)) > TABLE_SIZE:
            del self._segments[0]
        version = self._words[VERSION] + 1
        at = TABLES_AT[version & 1]
        self._bytes[at : at + len(table)] = table
        fence(self._fence)
        self._words[VERSION] = version

    def wrote(self, data: bytes | memoryview) -> None:
        """Put these bytes behind the ones before, and wake readers."""
        if self._descriptor < 0:
            return
        end = self._head + len(data)
        self.reserve(end)
        kept = memoryview(data)[-self._capacity :]
        self.copy(end - len(kept), kept)
        self.commit(end)

    def reserve(self, end: int) -> None:
        """First step: what will be overwritten is no longer there."""
        self._words[RESERVED] = end
        fence(self._fence)

    def copy(self, at: int, data: memoryview) -> None:
        """Second step: the bytes, which nobody takes for valid yet."""
        start = at % self._capacity
        first = data[: self._capacity - start]
        self._bytes[DATA_AT + start : DATA_AT + start + len(first)] = first
        rest = data[len(first) :]
        self._bytes[DATA_AT : DATA_AT + len(rest)] = rest

    def commit(self, end: int) -> None:
        """Third step: they are there."""
        fence(self._fence)
        self._words[HEAD] = self._head = end
        self._wake()

    def _wake(self) -> None:
        self._waked += 1
        try:
            os.pwrite(self._descriptor, self._waked.to_bytes(8, "little"), WAKE * 8)
        except OSError:
            self._remove_pointer()  # readers that hear nothing look around after a moment
            self._release()

    def cut(self) -> None:
        """Nothing in the ring is valid any more."""
        if self._descriptor >= 0:
            self._segments = []
            self._publish()

    def close(self) -> None:
        """Send the readers to the files; the memory is freed when the last of them has gone."""
        if self._descriptor < 0:
            return
        self.cut()
        self._remove_pointer()
        self._wake()
        self._release()

    def _remove_pointer(self) -> None:
        with suppress(OSError):  # then it points to nowhere, as that of a killed relay does
            (self._root / POINTER_NAME).unlink(missing_ok=True)

    def _release(self) -> None:
        if self._descriptor >= 0:
            self._words.release()
            self._bytes.release()
            self._memory.close()
            os.close(self._descriptor)
            self._descriptor = -1
