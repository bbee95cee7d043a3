"""The reading end of the ring (essay in `dm.relaylog.ring`).

A place is inside the ring, or it is not: then the reader has the file. A reader that fell behind comes back when its
place lies in the newer half, so that one that is as fast as the writer and a whole ring behind does not change with
every piece it reads.
"""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path
from struct import Struct

from dm.binlog.header import HEADER_SIZE
from dm.relaylog.event_file import PIECE
from dm.relaylog.ring import (
    CAPACITY,
    DATA_AT,
    FORM,
    FORM_WORD,
    HEAD,
    POINTER_NAME,
    RESERVED,
    TABLE_SIZE,
    TABLES_AT,
    TOKEN,
    VERSION,
    WORDS_SIZE,
    Pointer,
    Segment,
    decode_table,
    fence,
)

_size_at = Struct("<I").unpack_from


class MappedRing:
    """The memory of one relay process, while it runs and after."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)
        self._descriptor = descriptor
        self._bytes = memoryview(self._memory)
        self._words = self._bytes[:WORDS_SIZE].cast("Q")
        self._capacity = self._words[CAPACITY]
        self._fence = threading.Lock()
        self._version = -1  # the one in which the next three were found
        self._file = ("", "")
        self._segment: Segment | None = None
        self._end: int | None = None  # logical end of the file; None: that is the ring's head
        self.path = Path(f"/proc/self/fd/{descriptor}")  # where inotify reports that the writer wrote

    def is_of(self, token: int) -> bool:
        """Whether a relay made it under this token."""
        return (self._words[FORM_WORD], self._words[TOKEN]) == (FORM, token)

    def read(self, file: tuple[str, str], offset: int, piece: int, margin: float) -> list[bytes] | None:
        """The events there; None when the place is not among the newest bytes, `margin` being a part of all."""
        words = self._words
        while True:
            version = words[VERSION]
            fence(self._fence)
            if (version, file) != (self._version, self._file) and not self._find(version, file):
                continue  # another table was published meanwhile
            found = None if self._segment is None else self._events(self._segment, offset, piece, margin)
            fence(self._fence)
            if words[VERSION] == version:
                return found

    def _find(self, version: int, file: tuple[str, str]) -> bool:
        at = TABLES_AT[version & 1]
        data = bytes(self._bytes[at : at + TABLE_SIZE])
        fence(self._fence)
        if self._words[VERSION] != version:
            return False
        self._version, self._file = version, file
        self._segment = self._end = None
        for segment in reversed(decode_table(data)):
            if (segment.sub, segment.file) == file:
                self._segment = segment
                break
            self._end = segment.at
        return True

    def _events(self, segment: Segment, offset: int, piece: int, margin: float) -> list[bytes] | None:
        words = self._words
        head = words[HEAD] if self._end is None else self._end
        fence(self._fence)
        at = segment.at + offset - segment.offset
        if not max(words[RESERVED] - self._capacity * margin, segment.at) <= at <= head:
            return None
        if at == head:
            return []
        events = self.copy(at, min(head - at, piece))
        if not events and HEADER_SIZE <= (size := self._size(at)) <= head - at:
            events = self.copy(at, size)
        fence(self._fence)
        if at < words[RESERVED] - self._capacity:
            return None  # overwritten meanwhile
        return events or None  # what is no event is looked at in the file

    def _size(self, at: int) -> int:
        return int.from_bytes(bytes(self._bytes[DATA_AT + (at + n) % self._capacity] for n in range(9, 13)), "little")

    def copy(self, at: int, size: int) -> list[bytes]:
        """The complete events in these bytes; anything at all while they are being overwritten."""
        place, left = DATA_AT + at % self._capacity, self._capacity - at % self._capacity
        source: mmap.mmap | bytes = self._memory
        if left < size:
            source = self._memory[place : place + left] + self._memory[DATA_AT : DATA_AT + size - left]
            place = 0
        stop = place + size
        events: list[bytes] = []
        while stop - place >= HEADER_SIZE:
            end = place + _size_at(source, place + 9)[0]
            if end > stop or end - place < HEADER_SIZE:
                break
            events.append(source[place:end])
            place = end
        return events

    def close(self) -> None:
        """Give the memory back."""
        self._words.release()
        self._bytes.release()
        self._memory.close()
        os.close(self._descriptor)


class RingReader:
    """Reads the ring of a relay directory, whoever writes it at the moment."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pointer = str(root / POINTER_NAME)
        self._pointed: tuple[int, int] | None = None  # the pointer that was followed
        self._ring: MappedRing | None = None
        self._inside = False

    @property
    def watched(self) -> Path | None:
        """The file whose writes tell that there is more; None while there is no ring."""
        return None if self._ring is None else self._ring.path

    def read(self, sub: str, file: str, offset: int, *, piece: int = PIECE) -> list[bytes] | None:
        """About one piece of events from there on; none at the end; None when the place is not in the ring."""
        try:
            state = os.stat(self._pointer)
            pointed = (state.st_ino, state.st_mtime_ns)
        except OSError:
            pointed = None
        if pointed != self._pointed:
            self._pointed = pointed
            self._follow()
        margin = 1.0 if self._inside else 0.5
        found = None if self._ring is None else self._ring.read((sub, file), offset, piece, margin)
        self._inside = found is not None
        return found

    def _follow(self) -> None:
        """Take the ring that the relay has now, if it has one."""
        pointer = Pointer.load(self._root)
        descriptor = None if pointer is None else pointer.open()
        self.close()
        if pointer is None or descriptor is None:
            return
        try:
            self._ring = MappedRing(descriptor)
        except OSError:  # no room for the mapping: there are the files
            os.close(descriptor)
            return
        if not self._ring.is_of(pointer.token):
            self.close()

    def close(self) -> None:
        """Give the memory back."""
        if self._ring is not None:
            self._ring.close()
            self._ring = None
