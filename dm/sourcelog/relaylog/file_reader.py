"""Follows the relay's files as they grow, across files and across servers' directories.

The reader trusts only what it sees. Bytes after its place are events. No bytes and no later file mean the live end: it
waits. No bytes and a later file: it checks once more, because the writer finishes a file before it creates the next
one. If there are still no bytes, this file is complete. A file that ended before the reader's place held a part of a
transaction that the source itself lost in a crash. A consumer that received this part has to start again.

The reader verifies bytes before it yields them (`dm.sourcelog.relaylog.checked_file`), and verifies that files are
contiguous (`dm.sourcelog.relaylog.recovery`). It reopens a damaged file that the relay has fetched again.

A killed relay cuts its newest file back to the last complete transaction and pulls the same bytes again. A reader past
the cut finds the file shorter than its place, waits, and continues when the file has grown past it.

Waking up when a relay file changes, across processes.

The kernel reports changes through inotify(7). A write and a cut are IN_MODIFY. The writer's heartbeat, a new file time,
is IN_ATTRIB. A new file or sub-directory is an entry in its directory. A reader sleeps in poll(2) until one of them
arrives: it learns of a write in well under a millisecond and costs nothing while idle. Python has no inotify module;
four calls of the C library are enough.

If the system grants no instance (fs.inotify.max_user_instances), the watch checks the file's size and time at short
intervals. A notification is only a hint: the reader reads the file itself, and also checks it when no notification has
come for a while.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import select
import struct
import threading
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dm.clock import Clock, SystemClock
from dm.mysql.binlog.event import CheckedEvent, RawEvent, SourceEvent, SourceRun
from dm.mysql.binlog.gtid_history import format_has_checksum
from dm.mysql.binlog.header import (
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    LOG_EVENT_ARTIFICIAL_F,
    EventHeader,
    EventType,
)
from dm.position import MAGIC_SIZE
from dm.sourcelog.relaylog.checked_file import CheckedFile
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, file_number
from dm.sourcelog.relaylog.recovery import continues
from dm.unit import told

_unpack = HEADER.unpack_from


@dataclass(frozen=True, slots=True)
class RelayPlace:
    """A byte in the relay's files."""

    sub: SubDirectory
    file: str
    offset: int


def following(directory: RelayDirectory, sub: SubDirectory, file: str) -> RelayPlace | None:
    """The start of the next file, if the writer has created it."""
    number = file_number(file)
    later = next((name for name in sub.files() if file_number(name) > number), None)
    if later is not None:
        return RelayPlace(sub, later, MAGIC_SIZE)
    following_sub = directory.after(sub)
    while following_sub is not None:
        files = following_sub.files()
        if files:
            return RelayPlace(following_sub, files[0], MAGIC_SIZE)
        following_sub = directory.after(following_sub)
    return None


class FileReader:
    """One endless pass over the relay's files, from a place on."""

    def __init__(self, directory: RelayDirectory, place: RelayPlace, clock: Clock, idle_seconds: float) -> None:
        self._directory = directory
        self._place = place
        self._clock = clock
        self._idle = idle_seconds
        self._checksum = True
        self._opened: tuple[SubDirectory, str] | None = None

    def runs(self, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """Every event from the place on; None whenever no more has arrived yet."""
        watch = ChangeWatch(self._clock)
        place: RelayPlace | None = self._place
        try:
            with told(stop, watch.stop):
                while place is not None and not stop.is_set():
                    with CheckedFile(place.sub, place.file, place.offset) as file:
                        watch.watch_file(file.path)
                        place = yield from self._one_file(file, place, watch, stop)
        finally:
            watch.close()

    def _one_file(
        self, file: CheckedFile, place: RelayPlace, watch: ChangeWatch, stop: threading.Event
    ) -> Generator[SourceEvent | SourceRun | None, None, RelayPlace | None]:
        uuid, name = place.sub.server_uuid, place.file
        offset = place.offset
        described = offset <= MAGIC_SIZE or self._opened == (place.sub, name)
        self._opened = (place.sub, name)
        offset = max(offset, MAGIC_SIZE)
        while not stop.is_set():
            if not described:
                first = file.first_event()
                if first is not None:
                    self._checksum = format_has_checksum(first)
                    yield SourceEvent(_artificial(first), uuid, name, offset)
                    described = True
            events: Sequence[CheckedEvent] = ()
            end = offset
            if described:
                events, end = file.checked(offset)
            if not events:
                after = following(self._directory, place.sub, name)
                if after is not None:
                    if file.read(offset):
                        continue
                    if file.replaced:
                        return RelayPlace(place.sub, name, offset)
                    file.closed_at(offset)
                    if continues(place.sub, name, after.sub, after.file):
                        return after
                if file.replaced:
                    return RelayPlace(place.sub, name, offset)
                yield None
                yield from self._sleep(file, place, offset, watch)
                continue
            if events[0].header.type == EventType.FORMAT_DESCRIPTION:
                self._checksum = format_has_checksum(events[0].data)
            yield SourceRun(events, uuid, name, offset, end)
            offset = end
        return None

    def _sleep(self, file: CheckedFile, place: RelayPlace, offset: int, watch: ChangeWatch) -> Iterator[SourceEvent]:
        """Wait for a change; a change without bytes was the writer's heartbeat."""
        size = file.size
        change = watch.wait(self._idle)
        if change == "touched" and file.size == size > offset:
            file.all_written(offset)
        idle = change == "touched" and file.size == size == offset
        if idle and following(self._directory, place.sub, place.file) is None:
            heartbeat = self._heartbeat(place.file, offset)
            yield SourceEvent(heartbeat, place.sub.server_uuid, place.file, offset)

    def _heartbeat(self, name: str, offset: int) -> RawEvent:
        body = name.encode()
        size = HEADER_SIZE + len(body) + (CHECKSUM_SIZE if self._checksum else 0)
        head = HEADER.pack(0, EventType.HEARTBEAT, 0, size, offset & 0xFFFFFFFF, LOG_EVENT_ARTIFICIAL_F)
        data = head + body
        if self._checksum:
            data += _crc(data)
        return RawEvent.of(data)


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(CHECKSUM_SIZE, "little")


def _artificial(data: bytes) -> RawEvent:
    header = EventHeader(*_unpack(data))
    return RawEvent(header._replace(flags=header.flags | LOG_EVENT_ARTIFICIAL_F), data)


_NONBLOCK = os.O_NONBLOCK
_CLOEXEC = os.O_CLOEXEC
_IN_MODIFY, _IN_ATTRIB, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x4, 0x80, 0x100
_FALLBACK_SECONDS = 0.02

# none: timed out; touched: the writer's heartbeat; changed: anything else, check the file
Change = Literal["none", "touched", "changed"]
_record = struct.Struct("iIII")  # struct inotify_event: watch, mask, cookie, length of the name after it

_libc = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)


class ChangeWatch:
    """Waits for changes of one file and of the directories around it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._descriptor: int = _libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        self._file = -1
        self._path: Path | None = None
        self._seen: tuple[int, int] | None = None
        self._directories: set[Path] = set()
        self._stopped = os.eventfd(0)
        self._ending = threading.Lock()  # guards the descriptors: a stop must not write to a reused number
        self._poll = select.poll()
        self._poll.register(self._stopped, select.POLLIN)
        if self._descriptor >= 0:
            self._poll.register(self._descriptor, select.POLLIN)

    def watch_file(self, path: Path) -> None:
        """Watch this file and its directory from now on."""
        self._path = path
        self._seen = None
        if self._descriptor < 0:
            return
        if self._file >= 0:
            _libc.inotify_rm_watch(self._descriptor, self._file)
        self._file = self._add(path, _IN_ATTRIB | _IN_MODIFY)
        self.watch_directory(path.parent)
        self.watch_directory(path.parent.parent)

    def watch_directory(self, path: Path) -> None:
        """Watch this directory for new entries, too."""
        if self._descriptor >= 0 and path not in self._directories:
            self._directories.add(path)
            self._add(path, _IN_CREATE | _IN_MOVED_TO)

    def _add(self, path: Path, mask: int) -> int:
        found: int = _libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask)
        return found  # -1 if the file is gone: the caller's own check finds out

    def wait(self, seconds: float) -> Change:
        """Sleep until something changed, `stop` was called or the seconds are over."""
        if self._descriptor < 0:
            return self._look(seconds)
        if not self._poll.poll(seconds * 1000):
            return "none"
        data = b""
        try:
            while piece := os.read(self._descriptor, 65536):
                data += piece
        except BlockingIOError:
            pass
        return self._meaning(data) if data else "none"

    def _meaning(self, data: bytes) -> Change:
        """What the last record means: the writer's heartbeat covers an earlier write, not a later one."""
        at, watch, mask = 0, -1, 0
        while at < len(data):
            watch, mask, _, length = _record.unpack_from(data, at)
            at += _record.size + length
        return "touched" if watch == self._file and mask & _IN_ATTRIB else "changed"

    def _look(self, seconds: float) -> Change:
        end = self._clock.monotonic() + seconds
        poll = select.poll()
        poll.register(self._stopped, select.POLLIN)
        while True:
            seen, before = self._state(), self._seen
            if seen != before:
                self._seen = seen
                same_size = seen is not None and before is not None and seen[0] == before[0]
                return "touched" if same_size else "changed"
            left = end - self._clock.monotonic()
            if left <= 0 or poll.poll(min(left, _FALLBACK_SECONDS) * 1000):
                return "none"

    def _state(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except FileNotFoundError:
            return None
        return None if found is None else (found.st_size, found.st_mtime_ns)

    def stop(self) -> None:
        """End a wait, from any thread; later waits return at once."""
        with self._ending:
            if self._stopped >= 0:
                os.eventfd_write(self._stopped, 1)

    def close(self) -> None:
        """Close the descriptors."""
        with self._ending:
            for descriptor in (self._descriptor, self._stopped):
                if descriptor >= 0:
                    os.close(descriptor)
            self._descriptor = self._stopped = -1
