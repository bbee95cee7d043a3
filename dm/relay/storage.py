"""Disk space for a relay's files: purges when needed, and pauses the pull before the disk is full.

A full disk hurts every program on the host, and the relay can wait: the source keeps its binlog, and the tasks continue
with what is stored. So below `pause-space` the pull ends in order. It resumes when the free space is a tenth larger
than that; without this distance it would stop and start with every file. If the disk fills up all the same, the write
fails. The pull then retries as after a lost connection, and recovery cuts off the half-written part.

A function supplies the free space. What a tick does depends only on that and on the clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from dm.clock import Clock
from dm.config.source import Purge
from dm.errors import DMError
from dm.relay.purge import GIB, RESUME_FACTOR, FreeSpace, Purged, RelayPurge, free_bytes
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.unit import JSON

TICK_SECONDS = 1.0
PURGE_AGAIN_SECONDS = 10.0  # while space is short: tasks release files as they advance


class RelayStorage:
    """The storage of one running relay."""

    def __init__(
        self, directory: RelayDirectory, settings: Purge, clock: Clock, free_space: FreeSpace = free_bytes
    ) -> None:
        self._directory = directory
        self._settings = settings
        self._clock = clock
        self._free_space = free_space
        self._purge = RelayPurge(directory, settings, clock, free_space)
        self._low: DMError | None = None
        self._free = -1
        self._due = clock.monotonic() + settings.interval
        self._last = Purged()
        self._lock = threading.RLock()  # the relay's thread checks before each pull, ours in between
        self._held = threading.Event()  # set while we hold the relay's lock

    @contextmanager
    def watched(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Tick in a thread while the relay's lock is held; `interrupt` ends a running pull."""
        over = threading.Event()

        def run() -> None:
            while not self._clock.wait(over, TICK_SECONDS):
                self.tick()
                if self._low is not None:
                    interrupt()

        thread = threading.Thread(target=run, name="relay-storage", daemon=True)
        self._held.set()
        thread.start()
        try:
            yield
        finally:
            self._held.clear()
            over.set()
            self._purge.end()
            thread.join()

    def tick(self) -> None:
        """Check the free space, and purge when it is time or space is needed."""
        with self._lock:
            try:
                self._look()
                if self._clock.monotonic() >= self._due:
                    self._purge_by_itself()
            except DMError as error:  # the storage can't be used now; the pull meets the same error and reports it
                structlog.get_logger().warning("relay storage", error=error)

    def require_room(self) -> None:
        """Raise DMError while there is too little space to pull."""
        with self._lock:
            self._look()
            if self._low is not None:
                raise self._low

    def make_room(self) -> None:
        """Purge now: a write failed."""
        with self._lock:
            self._due = self._clock.monotonic()
        self.tick()

    def purge_before(self, file: str, sub_directory: str, source: str) -> Purged:
        """Answer `purge-relay`; raises DMError."""
        if not self._held.is_set():
            raise DMError("relay-in-use", path=self._directory.root)
        return self._purge.before(file, sub_directory, source)

    def status(self) -> dict[str, JSON]:
        """The storage's part of the relay's status."""
        return {
            "freeBytes": "" if self._free < 0 else str(self._free),
            "waitsForSpace": self._low is not None,
            "lastPurge": self._last.to_json(),
        }

    def _purge_by_itself(self) -> None:
        settings = self._settings
        if not settings.interval or not (settings.expires or settings.remain_space):
            return
        self._due = self._clock.monotonic() + (settings.interval if self._low is None else PURGE_AGAIN_SECONDS)
        self._last = self._purge.by_itself()
        if self._last.files:
            structlog.get_logger().info("relay files purged", **self._last.to_json())
            self._look()

    def _look(self) -> None:
        """Measure the free space and decide whether the pull may go on."""
        settings = self._settings
        resume_at = int(settings.pause_space * RESUME_FACTOR * GIB)
        began = self._low is None
        try:
            self._free = self._free_space(self._directory.root)
        except OSError as error:
            raise DMError("relay-storage-failed", path=self._directory.root) from error
        if self._free >= (int(settings.pause_space * GIB) if began else resume_at):
            self._low = None
            return
        kept = self._purge.kept_back()
        self._low = DMError(
            "relay-disk-low",
            path=self._directory.root,
            free=_gigabytes(self._free),
            wanted=_gigabytes(resume_at),
            kept=f" ({kept})" if kept else "",
        )
        if began:
            self._due = self._clock.monotonic()


def _gigabytes(count: int) -> str:
    return f"{count / GIB:.2f} GB"
