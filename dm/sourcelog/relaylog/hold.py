"""Which relay files tasks still need: one small file per task in `<relay-dir>/holds/` says from where on.

A purge removes what nothing holds. So a hold may lag behind (a file then stays a little longer), but it must never be
ahead. Each step keeps to that side:

- A task gets its hold before any part of it runs, and the hold says *everything*: until a point is stored, the task's
  start is unknown. A dump moves the hold to its P0; the syncer moves it to each checkpoint, only once that is stored. A
  pause, a crash or SIGKILL leaves it unchanged. `stop-task` removes it when the task has stopped.
- A task whose progress was removed says that it *begins*: it needs every file and has no position in any. After a reset
  of the source, the relay may leave the old files only if all tasks say so (dm/relay/plan.py).
- An unreadable hold counts as everything, and a checksum tells a half-written hold from a whole one. So a plain
  overwrite is safe, and it needs no free block. With an atomic replacement a full disk could never be purged, because
  its holds could not move.
- A purge reads the holds again for each file, and removes the file under a lock (`exclusive`). A task that creates a
  hold acquires that lock afterwards: whatever exists then stays. Moving a hold needs no lock, since it only releases
  files.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from dm.clock import Clock, SystemClock
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import Position

HOLDS_NAME = "holds"
LOCK_NAME = ".lock"
SUFFIX = ".json"
_LOCK_SECONDS = 5.0  # a removal holds the lock for as long as one unlink takes; longer means a frozen process
_POLL_SECONDS = 0.01
_EVERYTHING: dict[str, str] = {}
_BEGINS = {"begins": "yes"}


@dataclass(frozen=True, slots=True)
class Need:
    """The first relay file that a task needs; without a place it needs all of them."""

    task: str
    server_uuid: str = ""
    file: str = ""
    gtid_set: GtidSet = field(default_factory=GtidSet.empty)
    begins: bool = False  # it needs all files and has no position in any

    @property
    def everything(self) -> bool:
        """Whether no file may be removed."""
        return not self.server_uuid

    def __str__(self) -> str:
        if self.everything:
            return f"task {self.task}, which has no checkpoint yet, needs every file"
        return f"task {self.task} needs the files from {self.file or self.gtid_set} on"


class Hold:
    """The hold of one task on one source's relay files; one writer at a time, the task's unit."""

    def __init__(self, relay_directory: Path, task: str) -> None:
        self._root = relay_directory
        self._task = task
        self._path = relay_directory / HOLDS_NAME / f"{task}{SUFFIX}"
        self._kept: tuple[str, str] | None = None

    def exists(self) -> bool:
        """Whether the task holds anything."""
        return self._path.exists()

    def create(self) -> None:
        """Hold everything from now on; an existing hold stays as it is. Raises DMError."""
        self._make_directory()
        if not self._path.exists():
            self._write(_EVERYTHING)
        with exclusive(self._root):
            pass  # any removal that read the holds earlier has ended; later ones see this hold

    def begin(self) -> None:
        """Say that the task has no position, unless the hold has one; raises DMError."""
        try:
            says_nothing = _record(self._path) == _EVERYTHING
        except (OSError, ValueError, AttributeError, TypeError, KeyError):
            return
        if says_nothing:
            self._write(_BEGINS)

    def keep_from(self, position: Position) -> None:
        """Release what comes before the file of a stored point."""
        # A purge removes whole files: a move inside one file releases nothing.
        if self._kept == (position.server_uuid, position.file):
            return
        record = {"server_uuid": position.server_uuid, "file": position.file, "gtid_set": str(position.gtid_set)}
        try:
            self._make_directory()
            self._write(record)
        except DMError as error:
            # The hold stays where it was, which is safe; the task must not fail because of it.
            structlog.get_logger().warning("hold stays behind", task=self._task, error=error)
            return
        self._kept = (position.server_uuid, position.file)

    def remove(self) -> None:
        """Need nothing any more."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:  # files stay that could be removed, until the next start of the daemon tries again
            structlog.get_logger().warning("hold stays", task=self._task, error=error)

    def _make_directory(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DMError("relay-storage-failed", path=self._path.parent) from error

    def _write(self, record: dict[str, str]) -> None:
        data = json.dumps({**record, "crc32": _checksum(record)}).encode()
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(descriptor, data, 0)
                os.ftruncate(descriptor, len(data))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DMError("relay-storage-failed", path=self._path) from error


def _checksum(record: dict[str, str]) -> int:
    return zlib.crc32(json.dumps(record, sort_keys=True).encode())


@contextmanager
def exclusive(relay_directory: Path, clock: Clock | None = None) -> Iterator[None]:
    """Prevent new holds and removals of relay files meanwhile; raises DMError if another one hangs in it."""
    directory = relay_directory / HOLDS_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DMError("relay-storage-failed", path=directory) from error
    try:
        clock = clock or SystemClock()
        deadline = clock.monotonic() + _LOCK_SECONDS
        while not _locked(descriptor):  # flock has no timeout; the kernel releases the lock when its holder dies
            if clock.monotonic() >= deadline:
                raise DMError("relay-purge-busy", path=relay_directory)
            clock.wait(threading.Event(), _POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def needs(relay_directory: Path) -> list[Need]:
    """What all tasks need."""
    directory = relay_directory / HOLDS_NAME
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    return [need for name in names if (need := _read(directory / name)) is not None]


def _read(path: Path) -> Need | None:
    task = path.name.removesuffix(SUFFIX)
    try:
        record = _record(path)
        gtid_set = GtidSet.parse(str(record.get("gtid_set", "")))
        place = str(record.get("server_uuid", "")), str(record.get("file", "")), gtid_set
        return Need(task, *place, begins=record == _BEGINS)
    except FileNotFoundError:  # removed after the directory was listed
        return None
    except (ValueError, AttributeError, TypeError, KeyError):
        return Need(task)


def _record(path: Path) -> dict[str, str]:
    """What a hold says; raises ValueError or similar if it can't be read."""
    found = json.loads(path.read_bytes())
    if found.pop("crc32") != _checksum(found):
        raise ValueError("wrong checksum")
    record: dict[str, str] = found
    return record


def forget_others(relay_directory: Path, tasks: frozenset[str]) -> None:
    """Remove the holds of tasks that no longer exist: a killed daemon may have left them."""
    for need in needs(relay_directory):
        if need.task not in tasks:
            Hold(relay_directory, need.task).remove()
