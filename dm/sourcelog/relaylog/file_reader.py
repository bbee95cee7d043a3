"""Follows the relay's files as they grow, across files and across servers' directories.

The reader trusts only what it sees. Bytes after its place are events. No bytes and no later file mean the live end: it
waits. No bytes and a later file: it checks once more, because the writer finishes a file before it creates the next
one. If there are still no bytes, this file is complete. A file that ended before the reader's place held a part of a
transaction that the source itself lost in a crash. A consumer that received this part has to start again.

The reader verifies bytes before it yields them (`dm.sourcelog.relaylog.checked_file`), and verifies that files are
contiguous (`dm.sourcelog.relaylog.continuity`). It reopens a damaged file that the relay has fetched again.

A killed relay cuts its newest file back to the last complete transaction and pulls the same bytes again. A reader past
the cut finds the file shorter than its place, waits, and continues when the file has grown past it.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from dm.clock import Clock
from dm.mysql.binlog.event import CheckedEvent, RawEvent
from dm.mysql.binlog.event_source import SourceEvent, SourceRun
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
from dm.sourcelog.relaylog.change_watch import ChangeWatch
from dm.sourcelog.relaylog.checked_file import CheckedFile
from dm.sourcelog.relaylog.continuity import continues
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, file_number
from dm.stop_signal import told

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
