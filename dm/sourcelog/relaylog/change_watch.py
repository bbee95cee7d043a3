"""Waking up when a relay file changes, across processes.

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
from pathlib import Path
from typing import Literal

from dm.clock import Clock, SystemClock

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
