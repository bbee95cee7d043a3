"""Log files as the processes write them: their last lines, and those that come, read as records.

A process rotates its own file (dm/task/log.py), so a file that is followed may get another name. Then its rest is read
first, and after it the one that has its name now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

_BLOCK: Final = 1 << 16
LEVELS: Final = ("debug", "info", "warning", "error")
_TOLD_BEFORE: Final = frozenset({"timestamp", "level", "event", "host", "process", "exception", "stack"})


@dataclass(frozen=True, slots=True)
class Line:
    """One record of a log."""

    time: str  # of the record before, where the line is another program's and has none
    process: str
    text: str
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def level(self) -> str:
        """What another program printed is taken for worth reading."""
        return str(self.record.get("level", "warning")).replace("critical", "error")

    def shown(self) -> str:
        """The record for people: time, level, process, what happened, and its details."""
        if not self.record:
            return f"{self.time} {self.process}: {self.text}"
        details = "".join(f" {key}={value}" for key, value in self.record.items() if key not in _TOLD_BEFORE)
        text = f"{self.time} {self.level:7} {self.process}: {self.record.get('event', '')}{details}"
        trace = str(self.record.get("exception", ""))
        return "\n    ".join([text, *trace.splitlines()]) if trace else text


class LogReader:
    """One process's log: its last lines, then those that come."""

    def __init__(self, process: str, path: Path) -> None:
        self._process = process
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        self._time = ""

    def last(self, count: int) -> list[Line]:
        """The last lines there are; what comes after them is `new`."""
        self._open()
        if self._file is None or not count:
            if self._file is not None:
                self._file.seek(0, os.SEEK_END)
            return []
        end = start = self._file.seek(0, os.SEEK_END)
        block = b""
        while start and block.count(b"\n") <= count:
            start = max(0, start - _BLOCK)
            self._file.seek(start)
            block = self._file.read(end - start)
        lines = block.split(b"\n")
        self._rest = lines.pop()
        return [self._line(line) for line in lines[-count:] if line]

    def new(self) -> Iterator[Line]:
        """The lines that came since."""
        while True:
            if self._file is None:
                self._open()
                if self._file is None:
                    return
            *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
            yield from (self._line(line) for line in lines if line)
            if not self._renamed(self._file):
                return
            self._file.close()
            self._file, self._rest = None, b""

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> None:
        try:
            self._file = self._path.open("rb")
        except FileNotFoundError:  # the process has not been there yet
            self._file = None

    def _renamed(self, file: BinaryIO) -> bool:
        try:
            return not os.path.samestat(os.fstat(file.fileno()), self._path.stat())
        except FileNotFoundError:
            return False  # just now, or for good

    def _line(self, line: bytes) -> Line:
        text = line.decode("utf-8", "replace")
        try:
            record = json.loads(text)
        except ValueError:
            record = None
        if not isinstance(record, dict) or "event" not in record:
            return Line(self._time, self._process, text)
        self._time = str(record.get("timestamp", self._time))
        return Line(self._time, self._process, text, record)
