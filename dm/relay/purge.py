"""Removing relay files that no task needs any more.

Only the holder of the relay's lock may purge (`dm.relay.puller.sole_writer`), so that no writer misses a purge. That is
the relay's process while the relay runs. Otherwise the caller takes the lock for the duration of the purge.

A purge removes a run of files from the oldest on, never a file in the middle: a search would take the gap for the
relay's beginning. It never removes the newest file that has begun, because recovery continues there and ignores a newer
file without a beginning. It removes nothing from the earliest hold on (`dm.sourcelog.relaylog.hold`).

After a SIGKILL during a purge, fewer files remain and nothing misleads. An index is removed before its file: a lost
index does no harm, and an index without its file would stay for ever. A directory is removed before its line in the
index (see `RelayDirectory`).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dm import faults
from dm.clock import Clock
from dm.config.source import Purge
from dm.errors import DMError
from dm.relay.puller import LOCK_NAME, sole_writer
from dm.relay.refetch import FETCHING_NAME
from dm.sourcelog.relaylog import hold
from dm.sourcelog.relaylog.hold import Need, exclusive, needs
from dm.sourcelog.relaylog.layout import (
    COMPANIONS,
    INDEX_NAME,
    RESET_SUFFIX,
    RelayDirectory,
    SubDirectory,
    file_number,
    is_binlog_name,
    is_remnant,
)
from dm.sourcelog.relaylog.recovery import gtids_before_file
from dm.sourcelog.relaylog.scan import EventFile
from dm.unit import JSON

GIB = 1 << 30
RESUME_FACTOR = 1.1  # a relay that waits for space resumes at `pause-space` times this

ENDS = "the relay has just ended, and its purge with it: purge again"

Spot = tuple[int, int]  # number of the sub-directory, number of the file: the order of all files
FreeSpace = Callable[[Path], int]


def free_bytes(path: Path) -> int:
    """How many bytes the file system of this path can still take."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


@dataclass(slots=True)
class Purged:
    """What a purge did."""

    files: list[str] = field(default_factory=list)  # with their sub-directories
    size: int = 0
    directories: list[str] = field(default_factory=list)
    kept_back: str = ""  # why a file that should be removed stayed

    def to_json(self) -> dict[str, JSON]:
        """For an answer; 64-bit numbers are text, as in all of DM's answers."""
        return {
            "removedFiles": [*self.files],
            "removedBytes": str(self.size),
            "removedDirectories": [*self.directories],
            "keptBack": self.kept_back,
        }


class RelayPurge:
    """Purges one relay directory; its user holds the relay's lock."""

    def __init__(
        self, directory: RelayDirectory, settings: Purge, clock: Clock, free_space: FreeSpace = free_bytes
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._free_space = free_space
        self._under_way = threading.Lock()
        self._over = threading.Event()

    def end(self) -> None:
        """Purge no more; returns when the purge under way has stopped after its present file."""
        self._over.set()
        self._under_way.acquire()

    def before(self, file: str, sub_directory: str, source: str) -> Purged:
        """Remove the files before this one, if nothing needs them; by default in the newest sub-directory."""
        if not is_binlog_name(file):
            hint = "name a file as `mysql-bin.000006`, without its directory"
            raise DMError("usage", problem=f"{file!r} is not the name of a binlog file", hint=hint)
        subs = self._directory.sub_directories()
        named = [sub for sub in subs if sub.name == sub_directory] if sub_directory else subs[-1:]
        if not subs:
            raise DMError("relay-without-files", source=source)
        if not named:
            known = ", ".join(sub.name for sub in subs)
            raise DMError("relay-purge-unknown-directory", source=source, sub=sub_directory, there=known)
        files = named[0].files()
        if file not in files:
            there = f"{files[0]} to {files[-1]}" if files else "none"
            raise DMError("relay-purge-unknown-file", source=source, file=file, sub=named[0].name, there=there)
        end = (named[0].number, file_number(file))
        return self._remove_while(lambda sub, name: _spot(sub, name) < end)

    def by_itself(self) -> Purged:
        """Remove what is older than `expires`, and more while less than `remain-space` is free."""
        settings = self._settings
        expires, now = settings.expires * 3600, self._clock.time()
        # A relay that waits for space must be able to continue afterwards.
        remain = int(max(settings.remain_space, settings.pause_space * RESUME_FACTOR) * GIB)

        def wanted(sub: SubDirectory, name: str) -> bool:
            if expires and now - sub.file(name).stat().st_mtime > expires:
                return True
            return settings.remain_space > 0 and self._free_space(self._directory.root) < remain

        return self._remove_while(wanted)

    def _remove_while(self, wanted: Callable[[SubDirectory, str], bool]) -> Purged:
        if not self._under_way.acquire(blocking=False):
            raise DMError("relay-purge-busy", path=self._directory.root)
        try:
            done = Purged()
            for sub, name in self._removable():
                if not wanted(sub, name) or self._ends(done) or not self._remove(sub, name, done):
                    break
            self._remove_empty(done)
            return done
        except OSError as error:
            raise DMError("relay-storage-failed", path=self._directory.root) from error
        finally:
            self._under_way.release()

    def _removable(self) -> Iterator[tuple[SubDirectory, str]]:
        """All files in order, without the newest that has begun and those after it."""
        files = [(sub, name) for sub in self._directory.sub_directories() for name in sub.files()]
        while files and not _has_begun(*files[-1]):
            files.pop()
        yield from files[:-1]

    def _ends(self, done: Purged) -> bool:
        """Whether the relay ends and its purge with it, which the answer says: files that nothing needs are left."""
        if self._over.is_set():
            done.kept_back = ENDS
        return self._over.is_set()

    def _remove(self, sub: SubDirectory, name: str, done: Purged) -> bool:
        """Remove one file if nothing needs it."""
        path = sub.file(name)
        with exclusive(self._directory.root, self._clock):
            need = self._needed(sub, name)
            faults.hit("purge.decided")
            if need is not None:
                done.kept_back = str(need)
                return False
            size = path.stat().st_size
            sub.idx(name).unlink(missing_ok=True)
            faults.hit("purge.index_removed")
            path.unlink()
        for suffix in COMPANIONS:
            path.with_name(name + suffix).unlink(missing_ok=True)
        done.files.append(f"{sub.name}/{name}")
        done.size += size
        faults.hit("purge.file_removed")
        return True

    def _remove_empty(self, done: Purged) -> None:
        """Remove older sub-directories that have no files and that no reader starts from."""
        subs = self._directory.sub_directories()
        for sub in subs[:-1]:
            if sub.files():
                return  # readers pass through the later ones to reach the newest
            with exclusive(self._directory.root, self._clock):
                if any(spot[0] <= sub.number for spot, _ in self._held()):
                    return
                if not self._directory.remove(sub):
                    return
            done.directories.append(sub.name)

    def _needed(self, sub: SubDirectory, name: str) -> Need | None:
        spot = _spot(sub, name)
        return next((need for first, need in sorted(self._held(), key=lambda held: held[0]) if first <= spot), None)

    def _held(self) -> list[tuple[Spot, Need]]:
        subs = self._directory.sub_directories()
        return [(_first_needed(need, subs), need) for need in needs(self._directory.root)]

    def kept_back(self) -> str:
        """Why the oldest file can't be removed, if something needs it."""
        try:
            oldest = next(self._removable(), None)
            need = None if oldest is None else self._needed(*oldest)
        except OSError as error:
            raise DMError("relay-storage-failed", path=self._directory.root) from error
        return "" if need is None else str(need)


def _spot(sub: SubDirectory, name: str) -> Spot:
    return sub.number, file_number(name)


def _has_begun(sub: SubDirectory, name: str) -> bool:
    try:
        with EventFile(sub.file(name)) as file:
            return file.has_magic() and file.first_event() is not None
    except DMError as error:
        if error.name != "relay-file-corrupt":
            raise
        return False


def _first_needed(need: Need, subs: list[SubDirectory]) -> Spot:
    """The first file that a task may have to read; in doubt, the earliest possible one."""
    if need.everything:
        return 0, 0
    own = [sub for sub in subs if sub.server_uuid == need.server_uuid]
    if is_binlog_name(need.file) and own:
        # The same server may have come back: then two sub-directories may hold the file.
        holding = next((sub for sub in own if need.file in sub.files()), own[0])
        return holding.number, file_number(need.file)
    if need.gtid_set:
        for sub in reversed(subs):
            for name in reversed(sub.files()):
                before = gtids_before_file(sub, name)
                if before is not None and need.gtid_set.reaches_into(before):
                    return _spot(sub, name)
    return 0, 0


@dataclass(slots=True)
class Removed:
    """What went, and what is left because no relay has made it."""

    directory: Path
    files: int = 0  # of binlog
    size: int = 0  # their bytes
    left: str = ""

    def to_json(self) -> dict[str, JSON]:
        """For an answer; 64-bit numbers are text, as in all of DM's answers."""
        return {
            "relayDirectory": str(self.directory),
            "removedFiles": self.files,
            "removedBytes": str(self.size),
            "left": self.left,
        }


def relay_size(root: Path) -> tuple[int, int]:
    """How many binlog files a relay's directory has, also those that are out of use, and their bytes."""
    files = [path for path in root.glob("*/*") if is_binlog_name(path.name)]
    return len(files), sum(path.stat().st_size for path in files)


def remove_relay(root: Path) -> Removed:
    """Remove a relay's files and directories; raises DMError while a relay writes there, or where the disk refuses.

    `relay-dir` is the user's directory, and other things may lie there. So files go by the names that a relay gives.
    What is left stays with the directories that hold it, and is told.

    The sub-directories are first taken out of use, as those of a lost history are. After a SIGKILL amid the removal
    nothing misleads: no reader and no relay looks at them, and the next removal finishes it.
    """
    removed = Removed(root)
    if not root.is_dir():
        return removed
    try:
        with sole_writer(root):
            directory = RelayDirectory(root)
            directory.set_aside()
            for path in sorted(root.iterdir()):
                if directory.named(path.name.removesuffix(RESET_SUFFIX)) is not None and path.is_dir():
                    _remove_files(path, removed)
            shutil.rmtree(root / FETCHING_NAME, ignore_errors=True)
            _remove_holds(root / hold.HOLDS_NAME)
            (root / INDEX_NAME).unlink(missing_ok=True)
            (root / LOCK_NAME).unlink(missing_ok=True)
        names = sorted(os.listdir(root))
        if not names:
            root.rmdir()
    except OSError as error:
        raise DMError("relay-storage-failed", path=root) from error
    removed.left = ", ".join(names)
    return removed


def _remove_files(sub: Path, removed: Removed) -> None:
    for name in os.listdir(sub):
        path = sub / name
        if is_binlog_name(name):
            removed.files += 1
            removed.size += path.stat().st_size
        elif not is_remnant(name):
            continue
        path.unlink()
    if not os.listdir(sub):
        sub.rmdir()


def _remove_holds(directory: Path) -> None:
    if not directory.is_dir():
        return
    for name in os.listdir(directory):
        if name.endswith(hold.SUFFIX) or name == hold.LOCK_NAME:
            (directory / name).unlink()
    if not os.listdir(directory):
        directory.rmdir()
