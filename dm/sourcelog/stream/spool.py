"""The spool: transactions larger than the memory quota wait in files.

A transaction can only be applied when its end is known: before that its position is unknown, and so is whether it was
committed. A transaction larger than the quota is written to a file while it is read, as raw events, and decoded from
there in parts. Several transactions share a file; each is in one file.

The files are scratch. Their content is also in the binlog after the checkpoint, so a run begins by deleting all of
them: the spool of a crashed run is never applied. A file is deleted when the stored checkpoint has passed its last
transaction. Deletions are a few seconds apart, so that a source of large transactions does not cause a stream of
unlinks.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dm.clock import Clock
from dm.errors import DMError
from dm.mysql.binlog.table_map import TableMap
from dm.position import Position
from dm.sourcelog.stream.item_record import ItemWriter, read_items
from dm.sourcelog.stream.memory_quota import MemoryQuota
from dm.sourcelog.stream.spool_file import SpoolReader, SpoolWriter
from dm.sourcelog.stream.transaction import Item, Readers

FILE_BYTES: Final = 64 << 20
UNLINK_SECONDS: Final = 5.0


@dataclass(slots=True)
class _File:
    writer: SpoolWriter
    open: bool = False  # a transaction is being written
    last: Position | None = None  # the end of the last transaction in it
    commit_time: int = 0


class Spool:
    """The spool files of one run. The reader's thread writes, any thread reads, the progress writer deletes."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._lock = threading.Lock()  # guards the list of files and their fields
        self._files: list[_File] = []
        self._created = 0
        self._unlinked_at: float | None = None
        self.transactions = 0
        self.rounds = 0  # of deletions

    def wipe(self) -> None:
        """Delete what an earlier run left; raises DMError."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._directory.iterdir():
                path.unlink()
        except OSError as error:
            raise DMError("spool-not-written", file=self._directory) from error

    @property
    def bytes(self) -> int:
        """The size of all files now."""
        with self._lock:
            return sum(file.writer.end for file in self._files)

    def begin(self) -> SpoolPart:
        """A place for one transaction; raises DMError."""
        with self._lock:
            if not self._files or self._files[-1].writer.end >= FILE_BYTES:
                if self._files:
                    self._finish(self._files[-1])
                self._created += 1
                self._files.append(_File(SpoolWriter(self._directory / f"{os.getpid()}.{self._created:06d}.spool")))
            file = self._files[-1]
            file.open = True
        self.transactions += 1
        return SpoolPart(self, file)

    def _finish(self, file: _File) -> None:
        file.writer.finish(file.commit_time)
        file.writer.close()

    def end(self, file: _File, last: Position | None, commit_time: int = 0) -> None:
        """The last item of a transaction was written; without a position it will never be read."""
        with self._lock:
            file.open = False
            if last is not None:
                file.last = last
                file.commit_time = max(file.commit_time, commit_time)

    def passed(self, checkpoint: Position) -> None:
        """Delete the files whose transactions the stored checkpoint covers, unless that was just done."""
        now = self._clock.monotonic()
        if not self._files or (self._unlinked_at is not None and now - self._unlinked_at < UNLINK_SECONDS):
            return
        with self._lock:
            over = [file for file in self._files if not file.open]
            gone = [file for file in over if file.last is None or checkpoint.covers(file.last)]
            if not gone:
                return
            self._files = [file for file in self._files if file not in gone]
        self._unlink(gone)
        self._unlinked_at = now
        self.rounds += 1

    def _unlink(self, files: list[_File]) -> None:
        for file in files:
            file.writer.close()
            try:
                file.writer.path.unlink(missing_ok=True)
            except OSError as error:
                raise DMError("spool-not-written", file=file.writer.path) from error

    def close(self) -> None:
        """The run is over: what was not applied is read again from the binlog."""
        with self._lock:
            files, self._files = self._files, []
        self._unlink(files)


@dataclass(slots=True)
class SpoolPart:
    """The place of one transaction in a spool file."""

    spool: Spool
    file: _File
    items: ItemWriter = field(init=False)

    def __post_init__(self) -> None:
        self.items = ItemWriter(self.file.writer)

    def finish(self, end: Position, commit_time: int) -> tuple[Path, int, int]:
        """The transaction is complete; returns its place."""
        writer = self.file.writer
        writer.flush()
        self.spool.end(self.file, end, commit_time)
        return writer.path, self.items.start, writer.end

    def abandon(self) -> None:
        """The transaction will be read again, or never."""
        self.spool.end(self.file, None)


class SpooledItems(Readers):
    """The first items of a large transaction in memory, the others in a spool file."""

    def __init__(
        self,
        head: list[Item],
        count: int,
        size: int,
        quota: MemoryQuota,
        place: tuple[Path, int, int],
        maps: list[TableMap],
    ) -> None:
        super().__init__(size, quota)
        self._head = head
        self._count = count
        self._place = place
        self._maps = maps

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        yield from self._head
        path, start, end = self._place
        reader = SpoolReader(path)
        try:
            yield from read_items(reader.records(start, end), self._maps)
        finally:
            reader.close()

    def _forget(self) -> None:
        self._head = []
