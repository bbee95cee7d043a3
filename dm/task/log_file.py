"""The file that a process logs to, and its rotation.

A process of dm writes its log to stderr, and whoever starts it makes that a file. A library below prints there too.
Hence the process itself rotates: it renames the file and puts the new one in the place of its descriptors, and no line
is lost, whoever writes it. A child that has inherited the descriptors, such as Spark's JVM, goes on in the file that
got a number. Where stderr is something else (a terminal, a service manager's pipe) nothing is rotated.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TextIO

Level = Literal["debug", "info", "warn", "error"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What is logged, and how much of it is kept."""

    level: Level = "info"
    max_size: int = 100 << 20  # bytes of a file before the next one is begun
    max_backups: int = 5  # full files beside the current one


DEFAULTS: Final = LogSettings()


class LogFile:
    """A stream for log lines that drops what it has no room for: nobody's work may end because of its log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._path: Path | None = None
        self._settings = DEFAULTS

    def keep(self, path: Path, settings: LogSettings) -> None:
        """Rotate this file, where the stream writes to it."""
        self._path, self._settings = path, settings

    def write(self, text: str) -> None:
        """Write if there is room."""
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        """Bring out what there is room for, and begin a new file behind a full one."""
        with suppress(OSError):
            self._stream.flush()
            if self._path is not None and self._full(self._path):
                self._rotate(self._path)

    def _full(self, path: Path) -> bool:
        ours = os.fstat(self._stream.fileno())
        return ours.st_size >= self._settings.max_size and os.path.samestat(ours, path.stat())

    def _rotate(self, path: Path) -> None:
        kept = self._settings.max_backups
        full = path.stat()
        ours = [number for number in (1, self._stream.fileno()) if _leads_to(number, full)]
        for number in range(kept, 1, -1):
            with suppress(FileNotFoundError):
                backup(path, number - 1).replace(backup(path, number))
        if kept:
            path.replace(backup(path, 1))
        else:
            path.unlink()
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        for number in ours:
            os.dup2(descriptor, number)
        os.close(descriptor)


def _leads_to(descriptor: int, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file)
    except OSError:  # it is closed
        return False


def backup(path: Path, number: int) -> Path:
    """The name of a full file; 1 is the newest."""
    return path.with_name(f"{path.name}.{number}")
