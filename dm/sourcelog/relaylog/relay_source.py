"""Events from the relay's files on this host, as an EventSource.

A start is found in a file of the start's server, if the relay has it. If the start names another server or no file, it
is found in the newest file that begins inside of its GTID set. The reader waits for what the relay does not have yet.
What the relay no longer has, or never had, is an error, because waiting would not bring it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dm.clock import Clock, SystemClock
from dm.errors import DMError
from dm.mysql.binlog.event_source import BinlogType, SourceEvent, SourceRun
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.relaylog import damage
from dm.sourcelog.relaylog.change_watch import ChangeWatch
from dm.sourcelog.relaylog.checked_file import CheckedFile
from dm.sourcelog.relaylog.file_reader import FileReader, RelayPlace
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, base_name, file_number
from dm.sourcelog.relaylog.recovery import gtids_at, gtids_before_file
from dm.stop_signal import told

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
                if damage.lost(sub, start.file) is not None:
                    raise DMError("relay-file-missing", file=start.file, first=files[0], position=start)
                damage.report(sub, start.file, 0, "it is missing")
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
