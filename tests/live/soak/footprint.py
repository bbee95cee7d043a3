"""What a daemon and its hosts take of the machine: memory, threads, descriptors, disk; and whether it stays bounded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.daemon import Daemon

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ProcessFootprint:
    """One process."""

    own: int  # bytes of memory that are its own: shared pages are counted at nobody
    threads: int
    descriptors: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """All of them at one moment, and what lies in $DM_HOME."""

    processes: Mapping[str, ProcessFootprint]
    logs: int
    relay: int
    history: int
    rest: int  # of the home

    @classmethod
    def of(cls, daemon: Daemon) -> Footprint:
        """As of now; a process that ends meanwhile is left out."""
        found: dict[str, ProcessFootprint] = {}
        for name, pid in {"dm-worker": daemon.pid, **daemon.hosts()}.items():
            try:
                found[name] = _process(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
        sizes = {part: _size(daemon.home / part) for part in ("log", "relay", "history")}
        rest = _size(daemon.home) - sum(sizes.values())
        return cls(found, sizes["log"], sizes["relay"], sizes["history"], rest)

    def total(self, what: str) -> int:
        """The sum over all processes."""
        return sum(getattr(one, what) for one in self.processes.values())


def _process(pid: int) -> ProcessFootprint:
    own = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith(("Private_Clean:", "Private_Dirty:")):
            own += int(line.split()[1]) << 10
    return ProcessFootprint(own, len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd")))


def _size(root: Path) -> int:
    total = 0
    for directory, _, files in os.walk(root):
        for name in files:
            try:
                total += Path(directory, name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue  # it was rotated or purged just now
    return total


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is configured, and what a process may take beside it."""

    memory_quota: int  # of a syncer, `memory-quota`
    log_file: int  # `log-max-size`
    log_files: int  # `log-max-backups` and the current one
    relay: int  # of all sources together: what is left between two purges
    history: int
    rest: int

    def broken(self, early: Footprint, now: Footprint) -> list[str]:
        """What has grown beyond them since everything was warm."""
        found = []
        for name, process in now.processes.items():
            before = early.processes.get(name)
            if before is None:
                continue
            room = self.memory_quota if name.startswith("sync:") else 64 * MIB
            if process.own > before.own + room:
                found.append(f"{name}: {process.own >> 20} MiB, {before.own >> 20} MiB when it was warm")
            if process.threads > before.threads + 8:
                found.append(f"{name}: {process.threads} threads, {before.threads} when it was warm")
            if process.descriptors > before.descriptors + 16:
                found.append(f"{name}: {process.descriptors} descriptors, {before.descriptors} when it was warm")
        logs = (len(now.processes) + 1) * self.log_files * (self.log_file + 64 * 1024)  # a last line may be long
        for what, limit in (("logs", logs), ("relay", self.relay), ("history", self.history), ("rest", self.rest)):
            if getattr(now, what) > limit:
                found.append(f"{what}: {getattr(now, what) >> 10} KiB on disk, {limit >> 10} KiB are configured")
        return found
