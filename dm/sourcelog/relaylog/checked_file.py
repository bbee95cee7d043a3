"""A relay file that verifies every byte before a reader gets it.

Each event carries a CRC-32 and says where it ends. If the source writes no checksums, the index has a CRC per MiB, and
the reader gets an event when all its blocks match, as far as the index reaches. What the relay has written since the
last index is not verified: a MiB at most, nothing once the source is idle.

Bytes that can't be the source's are an error and are reported beside the file (see below). The reader gets the events
before the first bad one, so it stops exactly there. Missing data is suspect as well: if no whole event can be read at a
place and the index says that the file is complete beyond it, the file is damaged.

When the relay truncates the file and writes the same bytes again, a reader may see zeros for a moment. So anything that
looks damaged is read twice.

Damaged relay files: a reader that finds one leaves a note, and the relay fetches the file again.

The note `<file>.damaged` holds the place and the reason (JSON). The reader, which is another process, writes it and
ends with an error that auto-resume retries. The relay checks for notes every second, replaces the damaged file with a
good copy, and removes the note. If the source no longer has the file, the note says so (`lost`), and readers that reach
the damage pause for a person: nothing is ever skipped. A note never decides whether a file is good. The bytes decide.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from zlib import crc32

from dm.atomic_file import write_atomically
from dm.errors import DMError
from dm.mysql.binlog.event import CheckedEvent
from dm.mysql.binlog.frame import CRC_RESIDUE, checked_events
from dm.mysql.binlog.gtid_history import format_has_checksum
from dm.mysql.binlog.header import EventType
from dm.position import MAGIC_SIZE
from dm.sourcelog.relaylog.index import ANY_SIZE, BLOCK, FileIndex, read_index, read_seal
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, is_binlog_name
from dm.sourcelog.relaylog.scan import PIECE, EventFile, wrong

_CORRUPT = "relay-file-corrupt"
# Many events at a time burden the garbage collector, and a larger piece is memory that the system gives and takes back
# each time (`dm.task.host`).
_SMALL_PIECE = 120 << 10
_int = int.from_bytes


class CheckedFile(EventFile):
    """An open relay file; `start` is where its reader begins."""

    def __init__(self, sub: SubDirectory, name: str, start: int) -> None:
        super().__init__(sub.file(name))
        self._sub = sub
        self._name = name
        self._start = start
        self._begun = False
        self._checksum = True
        self._created = 0
        self._proven = 0  # without checksums: up to here the blocks match the index
        self._index: FileIndex | None = None
        self._index_time = -1

    def read(self, offset: int, *, upto: int | None = None, piece: int = PIECE) -> list[bytes]:
        """The complete events from `offset` on, about one piece; raises DMError if they are damaged."""
        if not self._begun and not self._begin():
            return []
        for last_look in (False, True):
            try:
                events = super().read(offset, upto=upto, piece=piece)
                if not events:
                    if upto is None and offset < self.size and offset < self._complete():
                        raise self._corrupt(offset, "no whole event stands there")
                    return []
                return self._good(offset, events)
            except DMError as error:
                if error.name != _CORRUPT:
                    raise
                if last_look:
                    raise self._damaged(int(str(error.details["offset"])), str(error.details["what"])) from error
        return []

    def checked(self, offset: int) -> tuple[Sequence[CheckedEvent], int]:
        """The same events in smaller groups, with headers and ends; one loop yields nearly all of them."""
        if not self._begun and not self._begin():
            return [], offset
        if self._checksum:
            data = self.raw(offset, min(_SMALL_PIECE, self.size - offset))
            found, end = checked_events(data, 0, len(data), True, offset)
            if found:
                return found, offset + end
        events = [CheckedEvent.of(event) for event in self.read(offset)]
        return events, offset + sum([len(event.data) for event in events])

    def closed_at(self, offset: int) -> None:
        """Check that a closed file was read to its very end; raises DMError."""
        size = self.size
        seal = read_seal(self._sub.idx(self._name))
        if seal is not None and seal.final and size < seal.size:
            raise self._damaged(size, f"it has {size} bytes of {seal.size}")
        if size > offset:
            raise self._damaged(offset, "it ends inside an event")
        if size < offset and offset == self._start:
            raise DMError("relay-start-beyond", file=self._name, size=size, offset=offset)
        if size < offset:
            raise DMError("relay-file-shrunk", file=self._name, size=size, offset=offset)

    def all_written(self, offset: int) -> None:
        """The writer says that everything present is whole; raises DMError if there are bytes that are no event."""
        size = self.size
        if size > offset and not self.read(offset) and self.size == size:
            raise self._damaged(offset, "no whole event stands there")

    def _begin(self) -> bool:
        """Read the file's beginning; False until it exists."""
        if self.size <= MAGIC_SIZE and not self._complete():
            return False
        if not self.has_magic():
            raise self._damaged(0, "it does not begin as a binlog file does")
        try:
            events = super().read(MAGIC_SIZE, piece=4096)
        except DMError as error:
            if error.name != _CORRUPT:
                raise
            raise self._damaged(MAGIC_SIZE, str(error.details["what"])) from error
        if not events:
            if self._complete() > MAGIC_SIZE:
                raise self._damaged(MAGIC_SIZE, "no whole event stands there")
            return False
        first = events[0]
        fault = wrong(first, MAGIC_SIZE + len(first), True)
        if fault or first[4] != EventType.FORMAT_DESCRIPTION:
            raise self._damaged(MAGIC_SIZE, fault or f"it begins with an event of type {first[4]}")
        self._checksum = format_has_checksum(first)
        self._created = int.from_bytes(first[:4], "little")
        self._index_time = -1
        self._begun = True
        return True

    def _good(self, offset: int, events: list[bytes]) -> list[bytes]:
        """The events before the first bad one; raises DMError if the first event is bad."""
        end = offset
        summed = self._checksum
        for number, event in enumerate(events):
            end += len(event)
            # `wrong`, without a call for each event.
            if (summed and crc32(event) != CRC_RESIDUE) or _int(event[13:17], "little") != end & 0xFFFFFFFF:
                if not number:
                    raise self._corrupt(offset, wrong(event, end, summed))
                events = events[:number]
                end -= len(event)
                break
        return events if self._checksum else self._in_good_blocks(offset, events, end)

    def _in_good_blocks(self, offset: int, events: list[bytes], end: int) -> list[bytes]:
        if end > self._proven:
            bad = self._prove(max(offset, self._proven), end)
            if bad is not None:
                at = offset
                for number, event in enumerate(events):
                    at += len(event)
                    if at > bad:
                        events = events[:number]
                        break
                if not events:
                    raise self._corrupt(max(offset, bad), f"the MiB from {bad} on does not match its checksum")
        return events

    def _prove(self, start: int, end: int) -> int | None:
        """Compare the blocks from `start` to `end`; returns the place of the first bad one."""
        index = self._known_index()
        if index is None:
            return None
        for number in range(start // BLOCK, min(len(index.block_crcs), (end - 1) // BLOCK + 1)):
            at = number * BLOCK
            size = min(BLOCK, index.complete - at)
            if crc32(self.raw(at, size)) != index.block_crcs[number]:
                return at
            self._proven = at + size
        return None

    def _known_index(self) -> FileIndex | None:
        """The index, read again when it has changed."""
        path = self._sub.idx(self._name)
        try:
            changed = path.stat().st_mtime_ns
        except FileNotFoundError:
            return None
        if changed != self._index_time:
            created = self._created if self._begun else None
            self._index = read_index(path, ANY_SIZE, created)
            self._index_time = changed
        index = self._index
        # An index ahead of a growing file dates from before a power cut; the relay rebuilds it.
        return None if index is None or (index.complete > self.size and not index.final) else index

    def _complete(self) -> int:
        index = self._known_index()
        return 0 if index is None else index.complete

    def _corrupt(self, offset: int, what: str) -> DMError:
        return DMError(_CORRUPT, file=self._name, offset=offset, what=what)

    def _damaged(self, offset: int, what: str) -> DMError:
        """The error to end with; reports the damage unless the relay has replaced the file already."""
        if self.replaced:
            return self._corrupt(offset, what)
        known = lost(self._sub, self._name)
        if known is not None:
            return DMError("relay-file-lost", file=self._name, offset=offset, what=what, why=known.lost)
        if offset == self._start and self._is_inside_event():
            return DMError("relay-start-misplaced", file=self._name, offset=offset)
        report(self._sub, self._name, offset, what)
        return self._corrupt(offset, what)

    def _is_inside_event(self) -> bool:
        """Whether the reader starts inside an event, although the file before that place is good."""
        at = MAGIC_SIZE
        while at < self._start:
            try:
                events = super().read(at)
            except DMError:
                return False
            if not events:
                return False
            for event in events:
                if wrong(event, at + len(event), self._checksum):
                    return False
                at += len(event)
                if at >= self._start:
                    return at > self._start
        return False


SUFFIX = ".damaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a file, and, if so, why it can't be fetched again."""

    file: str
    offset: int
    what: str
    lost: str = ""
    asked: str = ""  # the server that could not send it


def _note(sub: SubDirectory, file: str) -> Path:
    return sub.file(file).with_name(file + SUFFIX)


def _write(sub: SubDirectory, found: Damage) -> None:
    try:
        write_atomically(_note(sub, found.file), json.dumps(asdict(found)).encode(), durable=True)
    except OSError as error:
        raise DMError("relay-storage-failed", path=sub.path) from error


def _read(sub: SubDirectory, file: str) -> Damage | None:
    try:
        found = json.loads(_note(sub, file).read_bytes())
        return Damage(file, int(found["offset"]), str(found["what"]), str(found["lost"]), str(found["asked"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return Damage(file, 0, "the note of its damage can't be read")


def report(sub: SubDirectory, file: str, offset: int, what: str) -> None:
    """Report this file as damaged; the relay's earlier answer stays."""
    if lost(sub, file) is None:
        _write(sub, Damage(file, offset, what))


def reported(sub: SubDirectory, server_uuid: str = "") -> list[Damage]:
    """Every damaged file of a sub-directory to fetch again; another server may have what one lacks."""
    return [found for found in _all(sub) if not found.lost or (server_uuid and found.asked != server_uuid)]


def lost(sub: SubDirectory, file: str) -> Damage | None:
    """The relay's answer, if the file can't be fetched again."""
    found = _read(sub, file)
    return found if found is not None and found.lost else None


def give_up(sub: SubDirectory, found: Damage, why: str, server_uuid: str) -> None:
    """Answer that the file can't be fetched again from this server."""
    _write(sub, replace(found, lost=why, asked=server_uuid))


def mended(sub: SubDirectory, file: str) -> None:
    """The file is good again."""
    _note(sub, file).unlink(missing_ok=True)


def try_again(directory: RelayDirectory) -> None:
    """Forget the answers: the relay starts afresh, and the source may have its files back."""
    for sub in directory.sub_directories():
        for found in _all(sub):
            if found.lost:
                _write(sub, replace(found, lost="", asked=""))


def _all(sub: SubDirectory) -> list[Damage]:
    try:
        names = sorted(entry.removesuffix(SUFFIX) for entry in os.listdir(sub.path) if entry.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    return [found for name in names if is_binlog_name(name) and (found := _read(sub, name)) is not None]
