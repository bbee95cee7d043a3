"""Writing the source's events to relay files: one writer, buffered, always resumable.

Invariant: a file holds a prefix of the source's file, and `complete` is the end of the last transaction whose every
byte was handed to the operating system. So a reader may read everything present. A killed writer leaves at most an
unfinished transaction at the end of the newest file, and recovery cuts it off.

Events are collected and written in one call. A run of events is written from the memory in which it arrived. Single
events are written when a MiB is there, or when the stream has no more for the moment. A file is created when its format
description arrives, so only a crash leaves a file without one. A file is closed (index final, forced to disk as
`relay-sync` says) before the next one is created: a reader that sees the next file has all of this one. A writer that
stops cuts off an unfinished transaction itself, so that the next start finds everything in the index.

Offsets have 64 bits. The 32 bits in an event's header wrap in files above 4 GiB and are stored unchanged.

The writer passes a heartbeat of the source on to readers as a new file time. It wakes them as a write does, and says
that they have everything.

relay.meta: the relay's position, in DM's form.

It is written for people and for tools that know DM's directories. The relay itself trusts only its files: it rebuilds a
meta that is lost, old or ahead.

When stored bytes are forced to the disk: the `relay-sync` of a source.

  always    after every write (a write is a MiB, or all that has arrived)
  interval  at most a second after the last time, and when a file is closed or indexed
  none      never: the operating system writes when it likes

A power cut loses what was not forced, never more: the relay finds the last whole transaction, and the source sends the
rest again. Readers get bytes before they are forced, so after a power cut a checkpoint may be ahead of the relay. The
syncer then waits until the relay reaches it. A crash of the relay alone loses nothing under any policy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeVar
from zlib import crc32

from dm import faults
from dm.atomic_file import write_atomically
from dm.clock import Clock
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.frame import CRC_RESIDUE, MAGIC
from dm.mysql.binlog.gtid_history import GtidHistory, format_has_checksum
from dm.mysql.binlog.header import (
    CHECKSUM_SIZE,
    HEADER,
    HEADER_SIZE,
    LOG_EVENT_IGNORABLE_F,
    LOG_EVENT_RELAY_LOG_F,
    ROWS_AND_THEIR_TEXT,
    EventType,
)
from dm.mysql.binlog.transaction import INSIDE
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.relaylog.event_run import EventRun, Packets
from dm.sourcelog.relaylog.index import BLOCK, ID, FileIndex, IndexBuilder, write_index
from dm.sourcelog.relaylog.layout import SubDirectory, base_name, file_number, is_binlog_name
from dm.sourcelog.relaylog.scan import BlockCrcs

BUFFER = 1 << 20
CHECKPOINT_EVERY = 64 << 20  # bytes between two indexes of a growing file: the longest scan after a crash
META_SECONDS = 1.0
_PIECES: Final = 16  # more than are written one by one
_TABLE_MAP: Final = int(EventType.TABLE_MAP)
_FILLER: Final = 1 << 20  # the longest event that replaces bytes the source left out

_Result = TypeVar("_Result")


class RelayWriter:
    """Appends events to the files of one sub-directory."""

    def __init__(
        self,
        sub: SubDirectory,
        flavor: Flavor,
        clock: Clock,
        *,
        buffer: int = BUFFER,
        durability: Durability | None = None,
    ) -> None:
        self.sub = sub
        self._flavor: Flavor = flavor
        self._clock = clock
        self._limit = buffer
        self._durability = durability or Durability("interval", clock)
        self._descriptor = -1
        self._file = ""
        self._announced = ""
        self._offset = MAGIC_SIZE  # end of everything taken, written or not
        self._parts: list[bytes | memoryview] = []
        self._run = EventRun()
        self._waiting = 0
        self._history = GtidHistory(GtidSet.empty(flavor))
        self._boundary = self._history.boundary
        self._index = FileIndex(flavor=flavor)
        self._builder = builder = IndexBuilder(self._index, self._history)
        self._feed, self._table_ids = builder.feed, builder.table_ids
        self._blocks: BlockCrcs | None = None  # only if events have no checksums
        self._indexed = 0
        self._meta_at = float("-inf")
        self._meta_dirty = False
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
    def end(self) -> int:
        """The end of everything taken."""
        return self._offset

    @property
    def created(self) -> int:
        """The creation time in the open file's format description; 0 when no file is open."""
        return self._index.created

    def resume(self, file: str, index: FileIndex) -> None:
        """Continue an existing file that ends at `index.complete`."""
        path = self.sub.file(file)
        self._descriptor = self._guard(lambda: os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC))
        self._file = self._announced = file
        self._indexed = self._offset = index.complete
        self._history.restart(index.gtids)
        self._boundary.checksum = index.checksum
        self._follow(index, None if index.checksum else BlockCrcs(index.block_crcs, index.complete))
        self.save_meta()

    def announce(self, file: str, offset: int) -> None:
        """The source's next events belong to this file, from this offset on."""
        if not is_binlog_name(file):
            raise DMError("relay-name-refused", file=file)
        if file == self._file:
            if offset != self._offset:
                raise DMError(
                    "dump-stream-garbled", what=f"{file} goes on at {offset}, it was read up to {self._offset}"
                )
            return
        if self._file and base_name(file) != base_name(self._file):
            self.finish(file)
            raise DMError("binlog-renamed", before=self._file, now=file)
        if self._file and file_number(file) <= file_number(self._file):
            raise DMError("source-reset", what=f"file {file} follows {self._file}")
        self.finish(file)
        self._announced = file

    def _follow(self, index: FileIndex, blocks: BlockCrcs | None) -> None:
        self._index = index
        self._builder = builder = IndexBuilder(index, self._history)
        self._feed, self._table_ids = builder.feed, builder.table_ids
        self._blocks = blocks

    def append(self, event: bytes, end: int) -> None:
        """Take one event that ends at `end` in the announced file."""
        size = len(event)
        boundary = self._boundary
        if crc32(event) != CRC_RESIDUE and boundary.checksum:
            raise DMError("relay-event-damaged", file=self._announced, offset=end - size, what="wrong checksum")
        if self._file != self._announced:
            self._create(event)
        if end - size != self._offset:
            self._fill(end - size - self._offset)
        self._parts.append(event)
        self._waiting += size
        self._offset = end
        kind = event[4]
        # Inside a transaction, rows and table maps of known tables do not affect the index.
        if boundary.state != INSIDE or (
            kind not in ROWS_AND_THEIR_TEXT and (kind != _TABLE_MAP or event[ID] not in self._table_ids)
        ):
            self._feed(event, end)
        if self._waiting >= self._limit:
            self.flush()

    def take(self, packets: Packets) -> None:
        """Take and write the usual events at the front of what arrived; `append` takes the event that stops this."""
        if self._file != self._announced or packets.inside:
            return
        run = self._run
        run.offset = self._offset
        try:
            run.cut(packets, self._builder)
        finally:
            # On failure, too: the index knows these events.
            self._parts += run.parts
            run.parts.clear()
            self._waiting += run.offset - self._offset
            self._offset = run.offset
        self.flush()

    def _create(self, event: bytes) -> None:
        if event[4] != EventType.FORMAT_DESCRIPTION:
            raise DMError("dump-stream-garbled", what=f"{self._announced} begins with an event of type {event[4]}")
        path = self.sub.file(self._announced)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        # Magic and format description are written together with what follows; an empty file means a crash in between.
        self._descriptor = self._guard(lambda: os.open(path, flags, 0o600))
        self._guard(lambda: self._durability.created(self.sub.path))
        self._file = self._announced
        self._offset = MAGIC_SIZE
        self._parts = [MAGIC]
        self._waiting = MAGIC_SIZE
        self._indexed = 0
        created = int.from_bytes(event[:4], "little")
        self._follow(
            FileIndex(flavor=self._flavor, created=created), None if format_has_checksum(event) else BlockCrcs()
        )

    def _fill(self, size: int) -> None:
        """Put a dummy event where the source left one out, so that later offsets stay the source's."""
        smallest = HEADER_SIZE + CHECKSUM_SIZE
        if size < smallest:
            raise DMError("relay-hole", size=size, file=self._file, offset=self._offset)
        flags = LOG_EVENT_IGNORABLE_F | LOG_EVENT_RELAY_LOG_F
        while size:
            piece = size if size <= _FILLER + smallest else _FILLER
            self._offset += piece
            end = self._offset & 0xFFFFFFFF
            body = HEADER.pack(0, EventType.IGNORABLE, 0, piece, end, flags) + bytes(piece - smallest)
            self._parts.append(body + crc32(body).to_bytes(4, "little"))
            self._waiting += piece
            size -= piece
            if self._waiting >= self._limit:
                self.flush()

    def flush(self) -> None:
        """Hand everything taken to the operating system, where readers see it."""
        if not self._waiting:
            return
        # Runs are long and are not copied again; single events are joined first.
        pieces = self._parts if len(self._parts) <= _PIECES else [b"".join(self._parts)]
        self._parts = []
        self._waiting = 0
        self._guard(lambda: self._write(pieces))
        for data in pieces:
            if self._blocks is not None:
                self._blocks.add(data)
            self.bytes_written += len(data)
        self._meta_dirty = True
        faults.hit("relay.after_write")
        if not self._history.between:
            faults.hit("relay.inside_transaction")
        # Without checksums a crash leaves only what the index proves, so the index follows closely.
        if self._index.complete - self._indexed >= (CHECKPOINT_EVERY if self._blocks is None else BLOCK):
            self._save_index()
        if self._clock.monotonic() - self._meta_at >= META_SECONDS:
            self.save_meta()

    def _write(self, pieces: Sequence[bytes | memoryview]) -> None:
        for data in pieces:
            view = memoryview(data)
            while view:
                view = view[os.write(self._descriptor, view) :]
        self._durability.wrote(self._descriptor)

    def heartbeat(self) -> None:
        """The source has no more for now: tell the readers."""
        self.flush()
        if self._descriptor >= 0:
            self._guard(lambda: self._durability.force_all(self._descriptor))
            if self._blocks is not None and self._index.complete > self._indexed:
                self._save_index()
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
        index = self._builder.current()
        if self._blocks is None or index.final:
            # Data before index: after a power cut an index may lag behind its file, but never be ahead. The CRCs of the
            # data matter more than a hint: readers compare them.
            self._guard(lambda: self._durability.force_all(self._descriptor))
        if self._blocks is not None:
            index.block_crcs = self._guard(self._proof)
        self._guard(lambda: write_index(self.sub.idx(self._file), index))
        self._indexed = index.complete

    def _proof(self) -> list[int]:
        assert self._blocks is not None
        return self._blocks.upto(self._index.complete, lambda at, count: os.pread(self._descriptor, count, at))

    def finish(self, next_file: str) -> None:
        """Close the open file; the source continues in the next one."""
        if self._descriptor < 0:
            return
        self._cut_open_transaction()
        self._index.final = True
        self._index.next_file = next_file
        self._save_index()
        self.save_meta()
        self._close_descriptor()
        faults.hit("relay.rotate")

    def _cut_open_transaction(self) -> None:
        """Keep only whole transactions: the source crashed inside this one, or we stop here and request it again."""
        self.flush()
        if self._history.between:
            return
        complete = self._index.complete
        if self._blocks is not None:
            self._blocks = BlockCrcs(self._guard(self._proof), complete)
        self._guard(lambda: os.ftruncate(self._descriptor, complete))
        self._offset = complete
        self._history.restart(self._history.gtid_set)

    def close(self) -> None:
        """Stop: everything complete is on disk and indexed, so that the next start rereads nothing."""
        if self._descriptor < 0:
            return
        try:
            self._cut_open_transaction()
            self._save_index()
            self.save_meta()
        finally:
            self._close_descriptor()

    def abandon(self) -> None:
        """Drop what is not written; recovery will find the rest."""
        self._parts = []
        self._waiting = 0
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _guard(self, action: Callable[[], _Result]) -> _Result:
        try:
            return action()
        except OSError as error:
            raise DMError("relay-storage-failed", path=self.sub.path, cause=str(error)) from error


def write_meta(path: Path, position: Position) -> None:
    """Replace the file."""
    # JSON strings of these characters are TOML basic strings too.
    text = (
        f"binlog-name = {json.dumps(position.file)}\n"
        f"binlog-pos = {position.offset}\n"
        f"binlog-gtid = {json.dumps(str(position.gtid_set))}\n"
    )
    write_atomically(path, text.encode(), durable=False)


SyncPolicy = Literal["always", "interval", "none"]
INTERVAL_SECONDS = 1.0


class Durability:
    """Forces written bytes to the disk as the policy says; `force` is fsync(2), or a test's counter."""

    def __init__(self, policy: SyncPolicy, clock: Clock, force: Callable[[int], None] = os.fsync) -> None:
        self._policy = policy
        self._clock = clock
        self._force = force
        self._dirty = False
        self._last = clock.monotonic()

    def created(self, directory: Path) -> None:
        """A file was created: its name must survive as well."""
        if self._policy == "none":
            return
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._force(descriptor)
        finally:
            os.close(descriptor)

    def wrote(self, descriptor: int) -> None:
        """Bytes were written."""
        self._dirty = True
        if self._policy == "always" or self._clock.monotonic() - self._last >= INTERVAL_SECONDS:
            self.force_all(descriptor)

    def force_all(self, descriptor: int) -> None:
        """Force everything written so far: an index or a closed file depends on it."""
        if not self._dirty or self._policy == "none":
            return
        self._force(descriptor)
        self._dirty = False
        self._last = self._clock.monotonic()
