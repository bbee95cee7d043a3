"""Fetching a damaged relay file again.

The copy grows in a directory of its own, `.fetching`, through the same writer as every relay file (checksums, index).
One rename puts it in the place of the damaged file, once it is as long as the source's file and has the same creation
time. Until then the relay keeps everything it has: other tasks may be past the damage and need the rest. A SIGKILL
leaves the damaged file, its note, and a directory that the next attempt clears.

`Unobtainable` means that the source can't send the file: it is another server by now, it has purged the file, it has
another file of that name, or its own file is damaged. A lost connection is an ordinary error, and the next pull tries
again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from dm.atomic_file import sync_directory
from dm.clock import Clock
from dm.errors import DMError
from dm.mysql.binlog.frame import with_end
from dm.mysql.binlog.header import EventType
from dm.position import MAGIC_SIZE
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.checked_file import Damage
from dm.sourcelog.relaylog.index import ANY_SIZE, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, file_number
from dm.sourcelog.relaylog.recovery import end_is_proven, follows, gtids_before_file
from dm.sourcelog.relaylog.scan import created_at, scan
from dm.sourcelog.relaylog.writer import RelayWriter
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.dump_stream import DumpStream
from dm.sourcelog.upstream.facts import ServerFacts, binlog_files
from dm.sourcelog.upstream.packet_reader import StreamPosition

FETCHING_NAME = ".fetching"
# Errors that end a dump and may not occur in another attempt.
_PASSING = frozenset({"relay-storage-failed", "dump-stream-garbled", "replica-id-taken"})

OpenStream = Callable[[str, int], AbstractContextManager[DumpStream]]


class Unobtainable(Exception):
    """The source can't send the file again; the text says why."""


class Refetch:
    """Replaces damaged files with good copies, between two pulls."""

    def __init__(
        self,
        directory: RelayDirectory,
        connection: Connection,
        facts: ServerFacts,
        open_stream: OpenStream,
        clock: Clock,
    ) -> None:
        self._directory = directory
        self._connection = connection
        self._facts = facts
        self._open_stream = open_stream
        self._clock = clock

    def fetch_reported(self) -> None:
        """Fetch each reported file; raises DMError when it should be tried again later."""
        for sub in self._directory.sub_directories():
            for found in checked_file.reported(sub, self._facts.server_uuid):
                if self._is_whole(sub, found.file):
                    checked_file.mended(sub, found.file)
                    continue
                try:
                    self._fetch(sub, found)
                except Unobtainable as reason:
                    checked_file.give_up(sub, found, str(reason), self._facts.server_uuid)
                else:
                    checked_file.mended(sub, found.file)

    def _is_whole(self, sub: SubDirectory, name: str) -> bool:
        """Whether the file is good after all: a person replaced it, or a recovery cut it after the report."""
        if not sub.file(name).exists():
            return False
        index = read_index(sub.idx(name), ANY_SIZE)
        if index is not None and not index.checksum:
            return False  # this would read its blocks; the source has the file in most cases
        found = scan(sub.file(name), None, sub.flavor)
        if found is None or found.what or (index is not None and index.complete > found.index.complete):
            return False
        return end_is_proven(self._directory, sub, name, found)

    def _fetch(self, sub: SubDirectory, found: Damage) -> None:
        name = found.file
        if sub.server_uuid != self._facts.server_uuid:
            raise Unobtainable(f"the source is now server {self._facts.server_uuid}")
        theirs = dict(binlog_files(self._connection))
        if name not in theirs:
            there = f"{next(iter(theirs))} to {list(theirs)[-1]}" if theirs else "nothing"
            raise Unobtainable(f"the source has it no more; it has {there}")
        scratch = SubDirectory(self._directory.root / FETCHING_NAME, sub.server_uuid, sub.number)
        try:
            shutil.rmtree(scratch.path, ignore_errors=True)
            scratch.path.mkdir()
        except OSError as error:
            raise DMError("relay-storage-failed", path=scratch.path) from error
        try:
            names = list(theirs)
            following = names[names.index(name) + 1 :]
            self._copy(scratch, name, theirs[name], following[0] if following else "")
            self._check_same(sub, scratch, name)
            for path, place in ((scratch.file(name), sub.file(name)), (scratch.idx(name), sub.idx(name))):
                os.replace(path, place)
            sync_directory(sub.path)
        except OSError as error:
            raise DMError("relay-storage-failed", path=scratch.path) from error
        except DMError as error:
            if error.name == "relay-event-damaged" or not (error.retryable or error.name in _PASSING):
                raise Unobtainable(error.message) from error
            raise
        finally:
            shutil.rmtree(scratch.path, ignore_errors=True)

    def _copy(self, scratch: SubDirectory, name: str, size: int, next_name: str) -> None:
        writer = RelayWriter(scratch, self._facts.flavor, self._clock)
        try:
            with self._open_stream(name, MAGIC_SIZE) as stream:
                _write(stream.batches(), writer, name, size)
            if writer.position.offset < size:
                raise DMError("connection-lost", role="upstream", address=self._connection.host)
            if next_name:
                writer.finish(next_name)
            writer.close()
        finally:
            writer.abandon()

    def _check_same(self, sub: SubDirectory, scratch: SubDirectory, name: str) -> None:
        """Refuse a file of another history of the source: its creation time or its size differs."""
        fresh = read_index(scratch.idx(name), ANY_SIZE)
        known = read_index(sub.idx(name), ANY_SIZE)
        if fresh is None:
            raise DMError("internal-error", what=f"{name} was fetched without an index")
        created: int | None = None
        if known is not None:
            created = known.created
        elif not sub.file(name).exists():
            self._check_fills_gap(sub, scratch, name)
            return
        else:
            created = created_at(sub.file(name))
            if created is None and sub.file(name).stat().st_size != fresh.complete:
                raise Unobtainable("nothing tells whether the source's file of this name is the one that was here")
        if created not in (None, fresh.created):
            raise Unobtainable(f"the source's file of this name was created at {fresh.created}, ours at {created}")
        if known is not None and (known.complete > fresh.complete or (known.final and known.complete < fresh.complete)):
            raise Unobtainable(f"the source's file of this name has {fresh.complete} bytes, ours {known.complete}")

    def _check_fills_gap(self, sub: SubDirectory, scratch: SubDirectory, name: str) -> None:
        """Refuse a copy of a missing file that does not continue where the file before it ended."""
        before = [known for known in sub.files() if file_number(known) < file_number(name)]
        found = scan(sub.file(before[-1]), sub.idx(before[-1]), self._facts.flavor, trust=True) if before else None
        if found is None or not follows(sub, before[-1], found, sub, name, gtids_before_file(scratch, name)):
            raise Unobtainable(f"the source's file of this name does not go on where {before[-1:]} ended")


def _write(batches: Iterable[list[bytes]], writer: RelayWriter, name: str, size: int) -> None:
    """Store one file's events until the file is complete or the source moves to the next one."""
    place = StreamPosition()
    for batch in batches:
        for event in batch:
            if place.advance(event):
                if place.file != name:
                    return
                writer.append(with_end(event, place.offset), place.offset)
                if place.offset >= size:
                    return
            elif event[4] == EventType.ROTATE:
                if place.file != name:
                    return
                writer.announce(place.file, place.offset)
