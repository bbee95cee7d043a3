"""Events from the relay's files on this host, as an EventSource; where a time begins in them, and how far they go.

A start is found in a file of the start's server, if the relay has it. If the start names another server or no file, it
is found in the newest file that begins inside of its GTID set. The reader waits for what the relay does not have yet.
What the relay no longer has, or never had, is an error, because waiting would not bring it.

The place in a relay's files where a time begins.

The indexes locate the file: each has the time of its latest transaction, so of hundreds of files only one is opened.
Its marks lead close to the place. The times are commit times in seconds, by the source's clock. So the place is only
"about then".

Times go back if a session sets its clock (`mysqlbinlog | mysql` does). So one transaction's time proves nothing: only a
part known to hold no transaction of this time or later is skipped. A file is read if its index does not tell.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dm.clock import Clock, SystemClock
from dm.errors import DMError
from dm.mysql.binlog.event import BinlogType, SourceEvent, SourceRun
from dm.mysql.binlog.gtid_history import TimeBoundary, format_has_checksum
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE, Position, TimePlace
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.checked_file import CheckedFile
from dm.sourcelog.relaylog.file_reader import ChangeWatch, FileReader, RelayPlace, following
from dm.sourcelog.relaylog.index import ANY_SIZE, FileIndex, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, base_name, file_number
from dm.sourcelog.relaylog.recovery import gtids_at, gtids_before_file, proven
from dm.sourcelog.relaylog.scan import EventFile, scan, wrong
from dm.unit import told

IDLE_SECONDS = 2.0
_LOOK_SECONDS = 0.2  # between two checks of a relay that has not got as far


@dataclass(frozen=True, slots=True)
class FileCreation:
    """A file of a server, and the second in which the server began it."""

    server_uuid: str
    file: str
    created: int


class RelayEventSource:
    """An EventSource that reads what a relay, in this or another process, stores."""

    def __init__(
        self, directory: Path, flavor: Flavor, *, idle_seconds: float = IDLE_SECONDS, clock: Clock | None = None
    ) -> None:
        self._directory = RelayDirectory(directory)
        self._flavor: Flavor = flavor
        self._idle = idle_seconds
        self._clock = clock or SystemClock()
        self._trouble: DMError | None = None

    @property
    def status(self) -> BinlogType:
        """Always from files."""
        return "local"

    @property
    def trouble(self) -> DMError | None:
        """Why no event comes, as far as the files tell."""
        return self._trouble

    def complete(self, start: Position) -> Position:
        """Fill in the server's uuid, and the GTID set at a bare file and offset."""
        place = self.place(start)
        if place is None or not start.file:
            return start
        if start.server_uuid and start.server_uuid != place.sub.server_uuid:
            return start
        gtid_set = start.gtid_set or gtids_at(place.sub, place.file, place.offset, self._flavor)
        return replace(start, server_uuid=place.sub.server_uuid, gtid_set=gtid_set)

    def beginning(self, start: Position) -> FileCreation | None:
        """What tells the start's file from another of its name; None until the relay has one."""
        place = self.place(start)
        if place is None:
            return None
        with CheckedFile(place.sub, place.file, MAGIC_SIZE) as file:
            event = file.first_event()
        created = None if event is None else int.from_bytes(event[:4], "little")
        return None if created is None else FileCreation(place.sub.server_uuid, place.file, created)

    def events(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | None]:
        """Everything after `start`, until `stop`; waits until the relay has it."""
        for found in self.runs(start, stop):
            if isinstance(found, SourceRun):
                yield from found.apart()
            else:
                yield found

    def runs(self, start: Position, stop: threading.Event) -> Iterator[SourceEvent | SourceRun | None]:
        """The same, a piece of a file at a time."""
        place = self.place(start)
        if place is None:
            watch = ChangeWatch(self._clock)
            try:
                with told(stop, watch.stop):
                    while place is None:
                        if stop.is_set():
                            return
                        yield None
                        subs = (sub.path for sub in self._directory.sub_directories())
                        for directory in (self._directory.root, *subs):
                            watch.watch_directory(directory)
                        watch.wait(_LOOK_SECONDS)
                        place = self.place(start)
            finally:
                watch.close()
        yield from FileReader(self._directory, place, self._clock, self._idle).runs(stop)

    def place(self, start: Position) -> RelayPlace | None:
        """Where `start` is; None until the relay has got that far. Raises DMError where it can't come."""
        subs = self._directory.sub_directories()
        if start.file:
            named = [sub for sub in subs if start.server_uuid in ("", sub.server_uuid)]
            for sub in reversed(named):
                if start.file in sub.files():
                    return RelayPlace(sub, start.file, start.offset)
            if not subs or (named and not self._renamed(start, named)):
                return self._not_yet(start, named)
        if not start.gtid_set:
            if subs:
                raise DMError(
                    "source-changed-without-gtid", now=subs[-1].server_uuid, before=start.server_uuid or "unknown"
                )
            return None
        return self._locate_gtids(start, subs)

    @staticmethod
    def _not_yet(start: Position, subs: list[SubDirectory]) -> None:
        for sub in subs:
            files = sub.files()
            if files and file_number(start.file) < file_number(files[0]):
                raise DMError("relay-file-missing", file=start.file, first=files[0], position=start)
            if files and start.server_uuid and file_number(start.file) < file_number(files[-1]):
                # Removed from the middle: waiting would not bring it, but the relay can fetch it again.
                if checked_file.lost(sub, start.file) is not None:
                    raise DMError("relay-file-missing", file=start.file, first=files[0], position=start)
                checked_file.report(sub, start.file, 0, "it is missing")
                raise DMError("relay-file-corrupt", file=start.file, offset=0, what="it is missing")

    @staticmethod
    def _renamed(start: Position, subs: list[SubDirectory]) -> bool:
        """Whether the server's files have another base name than the start's: then only GTIDs locate it."""
        names = [sub.files()[0] for sub in subs if sub.files()]
        if not names or any(base_name(name) == base_name(start.file) for name in names):
            return False
        if not start.gtid_set:
            raise DMError("binlog-renamed-without-gtid", before=start.file, now=names[-1], position=start)
        return True

    @staticmethod
    def _locate_gtids(start: Position, subs: list[SubDirectory]) -> RelayPlace | None:
        oldest, gtid_set = "", start.gtid_set
        # A set that a person wrote is a start of its own; one that belongs to a place has to be continued there.
        fits = gtid_set.reaches_into if start.server_uuid else gtid_set.__ge__
        for sub in reversed(subs):
            for name in reversed(sub.files()):
                before = gtids_before_file(sub, name)
                if before is not None and fits(before):
                    return RelayPlace(sub, name, MAGIC_SIZE)
                oldest = name if before is not None else oldest
        if oldest:
            raise DMError("relay-file-missing", file=f"for the GTID set {gtid_set}", first=oldest)
        return None


# How far a relay's files go on after a place without a gap: asked before a task starts, so nothing is changed.


def unbroken_end(directory: Path, flavor: Flavor, start: Position) -> Position | None:
    """The end of what the relay has from `start` on; None where it has nothing of that yet.

    The next file's name stands in for the end of a file that is closed. Raises DMError `relay-gap`, or
    `relay-file-missing` where the relay begins after the start.
    """
    place = RelayEventSource(directory, flavor).place(start)
    if place is None:
        return None
    sub, file = place.sub, place.file
    while (after := following(RelayDirectory(directory), sub, file)) is not None:
        verdict = proven(sub, file, after.sub, after.file)
        if verdict is None:
            break  # the next file has not begun
        if not verdict:
            raise DMError("relay-gap", file=file, next=after.file)
        sub, file = after.sub, after.file
    index = read_index(sub.idx(file), ANY_SIZE)
    if index is None or not index.final:
        found = scan(sub.file(file), sub.idx(file), flavor, trust=True)
        index = index if found is None else found.index
    if index is None:
        return Position(sub.server_uuid, file)
    if index.final and index.next_file:
        return Position(sub.server_uuid, index.next_file, gtid_set=index.gtids)
    return Position(sub.server_uuid, file, index.complete, index.gtids)


def find_time(directory: RelayDirectory, flavor: Flavor, time: int) -> TimePlace | None:
    """The place of a time, in seconds since the epoch; None when nothing stored is as late."""
    files = [(sub, name) for sub in directory.sub_directories() for name in sub.files()]
    for number, (sub, name) in enumerate(files):
        if number < len(files) - 1 and _all_older(sub, name, time):
            continue
        found = _in_file(sub, name, time)
        if found is not None:
            offset, older = found
            position = Position(sub.server_uuid, name, offset, gtids_at(sub, name, offset, flavor))
            return TimePlace(position, older or number > 0)
    return None


def _all_older(sub: SubDirectory, name: str, time: int) -> bool:
    """Whether a closed file's index says so."""
    size = sub.file(name).stat().st_size
    index = read_index(sub.idx(name), size)
    return index is not None and index.complete == size and _knows_times(index) and index.latest_time < time


def _knows_times(index: FileIndex) -> bool:
    return index.latest_time > 0 or not index.transactions


def _in_file(sub: SubDirectory, name: str, time: int) -> tuple[int, bool] | None:
    """The offset after the last transaction before the first of this time or later, and whether there is one."""
    with EventFile(sub.file(name)) as file:
        first = file.first_event()
        if first is None:
            return None
        index = read_index(sub.idx(name), ANY_SIZE, int.from_bytes(first[:4], "little"))
        checksum = format_has_checksum(first) if index is None else index.checksum
        known = [] if index is None or not _knows_times(index) else index.marks
        marks = [offset for offset, latest in known if latest < time and offset <= file.size]
        offset = marks[-1] if marks else MAGIC_SIZE
        boundary = TimeBoundary(time, name, offset, checksum=checksum)
        while events := file.read(offset):
            for event in events:
                offset += len(event)
                if fault := wrong(event, offset, checksum):
                    raise DMError("relay-file-corrupt", file=name, offset=offset - len(event), what=fault)
                if boundary.reaches(event, name, offset):
                    return boundary.offset, boundary.older or bool(marks)
    return None
