"""Looks for passwords where they must not be: in the arguments and environment of every process of a daemon."""

from __future__ import annotations

import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

_INTERVAL_SECONDS = 0.3


def processes_of(home: Path) -> dict[int, tuple[bytes, bytes]]:
    """Arguments and environment of the daemon in this home and of everything that it started, Spark's JVM included.

    They are known by the DM_HOME that they inherit, so that none is missed for having another parent.
    """
    mark = f"DM_HOME={home}\0".encode()
    found: dict[int, tuple[bytes, bytes]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
                if mark in environment:
                    found[int(entry.name)] = (entry / "cmdline").read_bytes(), environment
            except OSError:
                continue  # it ended while we looked, or is not ours
    return found


class SecretWatch:
    """Looks again and again while the block runs; `seen` are the programs that showed a password."""

    def __init__(self, home: Path, secrets: Collection[str]) -> None:
        self._home = home
        self._secrets = [secret.encode() for secret in secrets]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="secret-watch", daemon=True)
        self.seen: set[str] = set()
        self.programs: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL_SECONDS):
            for command, environment in processes_of(self._home).values():
                words = command.decode(errors="replace").replace("\0", " ")
                if "dm.cli" in words:
                    continue  # the user's own command has the user's own environment
                self.programs.add(words)
                if any(secret in command or secret in environment for secret in self._secrets):
                    self.seen.add(words)


def files_with(directory: Path, secrets: Collection[str]) -> list[str]:
    """The files below the directory that hold a password."""
    wanted = [secret.encode() for secret in secrets]
    return sorted(
        str(path.relative_to(directory))
        for path in directory.rglob("*")
        if path.is_file() and any(secret in path.read_bytes() for secret in wanted)
    )
