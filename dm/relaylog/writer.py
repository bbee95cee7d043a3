"""Writing the source's events to relay files: one writer, buffered, always resumable.

Invariant: what is in a file is a prefix of the source's file, and `complete` is the end of the last transaction whose
every byte was handed to the operating system. So a reader may read whatever is there, a killed writer leaves at most
an unfinished transaction at the end of the newest file, and recovery cuts it off.

Events are collected and written in one call when a MiB is there or the stream has nothing more at the moment. A file is
created when its format description arrives, so a file without one can only be left by a crash. A file is closed for
good (index final, synced) before the next one is created: a reader that sees the next file has all of this one.

A heartbeat of the source is passed on to readers as a change of the file's time: it wakes them as a write does, and
says that they have everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar
from zlib import crc32

from dm import faults
from dm.binlog.frame import MAGIC
from dm.binlog.gtid_history import GtidHistory
from dm.binlog.header import (
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    LOG_EVENT_IGNORABLE_F,
    LOG_EVENT_RELAY_LOG_F,
    EventType,
)
from dm.clock import Clock
from dm.errors import DMError
from dm.gtid import Flavor, GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.relaylog.index import MARK_EVERY, NOT_TRANSACTIONS, FileIndex, write_index
from dm.relaylog.layout import SubDirectory, file_number, is_binlog_name
from dm.relaylog.meta import write_meta
from dm.relaylog.tap import Tap

BUFFER = 1 << 20
CHECKPOINT_EVERY = 64 << 20  # bytes between two indexes of a growing file: the longest scan after a crash
META_SECONDS = 1.0

# The CRC-32 of any bytes that are followed by their own CRC-32 (little-endian): one call checks a whole event.
CRC_RESIDUE: Final = 0x2144DF1C

_Result = TypeVar("_Result")


class RelayWriter:
    """Appends events to the files of one sub-directory."""

    def __init__(
        self,
        sub: SubDirectory,
        flavor: Flavor,
        clock: Clock,
        *,
        gtid_set: GtidSet | None = None,
        buffer: int = BUFFER,
        tap: Tap | None = None,
    ) -> None:
        self.sub = sub
        self._flavor: Flavor = flavor
        self._clock = clock
        self._limit = buffer
        self._tap = tap
        if tap is not None:
            tap.cut()  # recovery may have cut off something that an earlier writer gave
        self._descriptor = -1
        self._file = ""
        self._announced = ""
        self._offset = MAGIC_SIZE  # end of everything taken, written or not
        self._parts: list[bytes] = []
        self._waiting = 0
        self._history = GtidHistory(gtid_set or GtidSet.empty(flavor))
        self._index = FileIndex(flavor=flavor)
        self._indexed = 0
        self._meta_at = float("-inf")
        self._meta_dirty = False
        self._last_transaction = 0
        self.bytes_written = 0

    @property
    def file(self) -> str:
        """The file that is open."""
        return self._file

    @property
    def position(self) -> Position:
        """The end of the last complete transaction."""
        return Position(self.sub.server_uuid, self._file, self._index.complete, self._history.gtid_set)

    @property
    def created(self) -> int:
        """The creation time in the open file's format description; 0 when no file is open."""
        return self._index.created

    def resume(self, file: str, index: FileIndex) -> None:
        """Go on in an existing file that ends at `index.complete`."""
        path = self.sub.file(file)
        self._descriptor = self._guard(lambda: os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))
        self._file = self._announced = file
        self._index = index
        self._indexed = self._offset = index.complete
        self._history.restart(index.gtids)
        self._history.boundary.checksum = index.checksum
        self._last_transaction = index.complete
        if self._tap is not None:
            self._tap.opened(self.sub.name, file, index.complete)
        self.save_meta()

    def announce(self, file: str, offset: int) -> None:
        """The source's next events stand in this file, from this offset on."""
        if not is_binlog_name(file):
            raise DMError("relay-name-refused", file=file)
        if file == self._file:
            if offset != self._offset:
                raise DMError(
                    "dump-stream-garbled", what=f"{file} goes on at {offset}, it was read up to {self._offset}"
                )
            return
        if self._file and file_number(file) <= file_number(self._file):
            raise DMError("source-reset", what=f"file {file} follows {self._file}")
        self._finish(file)
        self._announced = file

    def append(self, event: bytes, end: int) -> None:
        """Take one event that ends at `end` in the announced file."""
        size = len(event)
        if crc32(event) != CRC_RESIDUE and self._history.boundary.checksum:
            raise DMError("relay-event-damaged", file=self._announced, offset=end - size, what="wrong checksum")
        if self._file != self._announced:
            self._create(event)
        if end - size != self._offset:
            self._fill(end - size - self._offset)
        self._parts.append(event)
        self._waiting += size
        self._offset = end
        if self._history.feed(event):
            self._complete(event, end)
        if self._waiting >= self._limit:
            self.flush()

    def _complete(self, event: bytes, end: int) -> None:
        index = self._index
        index.complete = end
        kind = event[4]
        if kind == EventType.FORMAT_DESCRIPTION:
            index.checksum = self._history.boundary.checksum
        if kind not in NOT_TRANSACTIONS:
            timestamp = int.from_bytes(event[:4], "little")
            index.transactions += 1
            index.last_time = timestamp
            if not index.first_time:
                index.first_time = timestamp
            if end - self._last_transaction >= MARK_EVERY:
                index.marks.append((end, timestamp))
                self._last_transaction = end

    def _create(self, event: bytes) -> None:
        if event[4] != EventType.FORMAT_DESCRIPTION:
            raise DMError("dump-stream-garbled", what=f"{self._announced} begins with an event of type {event[4]}")
        path = self.sub.file(self._announced)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # Magic and format description go out in one write with what follows; an empty file means a crash in between.
        self._descriptor = self._guard(lambda: os.open(path, flags, 0o640))
        self._file = self._announced
        self._offset = MAGIC_SIZE
        self._parts = [MAGIC]
        self._waiting = MAGIC_SIZE
        self._indexed = 0
        self._last_transaction = 0
        self._index = FileIndex(flavor=self._flavor, created=int.from_bytes(event[:4], "little"))
        if self._tap is not None:
            self._tap.opened(self.sub.name, self._file, 0)

    def _fill(self, size: int) -> None:
        """Put an event without meaning where the source left one out, so that all later offsets stay the source's."""
        smallest = HEADER_SIZE + CHECKSUM_SIZE
        if size < smallest:
            raise DMError("relay-hole", size=size, file=self._file, offset=self._offset)
        flags = LOG_EVENT_IGNORABLE_F | LOG_EVENT_RELAY_LOG_F
        end = (self._offset + size) & 0xFFFFFFFF
        body = HEADER.pack(0, EventType.IGNORABLE, 0, size, end, flags) + bytes(size - smallest)
        self._parts.append(body + crc32(body).to_bytes(4, "little"))
        self._waiting += size
        self._offset += size

    def flush(self) -> None:
        """Hand everything taken to the operating system, where readers see it."""
        if not self._waiting:
            return
        data = b"".join(self._parts)
        self._parts = []
        self._waiting = 0
        self._guard(lambda: self._write(data))
        if self._tap is not None:
            self._tap.wrote(data)
        self.bytes_written += len(data)
        self._meta_dirty = True
        faults.hit("relay.after_write")
        if not self._history.between:
            faults.hit("relay.inside_transaction")
        if self._index.complete - self._indexed >= CHECKPOINT_EVERY:
            self._save_index()
        if self._clock.monotonic() - self._meta_at >= META_SECONDS:
            self.save_meta()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def heartbeat(self) -> None:
        """The source has nothing more: tell the readers."""
        self.flush()
        if self._descriptor >= 0:
            self._guard(lambda: os.utime(self._descriptor))
        if self._meta_dirty:
            self.save_meta()

    def save_meta(self) -> None:
        """Write relay.meta."""
        if not self._file:
            return
        faults.hit("relay.before_meta")
        self._guard(lambda: write_meta(self.sub.meta, self.position))
        self._meta_at = self._clock.monotonic()
        self._meta_dirty = False

    def _save_index(self) -> None:
        # First the data, then the word about it: after a power cut an index may be behind its file, never ahead.
        self._guard(lambda: os.fsync(self._descriptor))
        self._index.gtid_set = str(self._history.gtid_set)
        self._guard(lambda: write_index(self.sub.idx(self._file), self._index))
        self._indexed = self._index.complete

    def _finish(self, next_file: str) -> None:
        """Close the open file for good."""
        if self._descriptor < 0:
            return
        self.flush()
        if not self._history.between:
            # The source went down inside this transaction and has cut it off its own file.
            self._guard(lambda: os.ftruncate(self._descriptor, self._index.complete))
            if self._tap is not None:
                self._tap.cut()
            self._history.restart(self._history.gtid_set)
        self._index.final = True
        self._index.next_file = next_file
        self._save_index()
        self.save_meta()
        self._close_descriptor()
        faults.hit("relay.rotate")

    def close(self) -> None:
        """Come to rest: what is complete is on disk and indexed, so that the next start reads nothing again."""
        if self._descriptor < 0:
            return
        try:
            self.flush()
            self._save_index()
            self.save_meta()
        finally:
            self._close_descriptor()

    def abandon(self) -> None:
        """Drop what is not written; recovery will find the rest."""
        self._parts = []
        self._waiting = 0
        self._close_descriptor()
        if self._tap is not None:
            self._tap.cut()

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _guard(self, action: Callable[[], _Result]) -> _Result:
        try:
            return action()
        except OSError as error:
            raise DMError("relay-storage-failed", path=self.sub.path, cause=str(error)) from error
