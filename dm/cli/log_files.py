"""`dmctl logs`: what a task's processes logged, in the order of time, and what they log from now on.

The daemon says which files those are, and they are read here: it runs on this machine and for this user. A process
rotates its own file (dm/task/log.py), so a file that is followed may get another name; its rest is read first,
then the one that has its name now.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from dm.cli import output as printer

_SECONDS = 0.3
_BLOCK = 1 << 16
LEVELS = ("debug", "info", "warning", "error")
_TOLD_BEFORE = frozenset({"timestamp", "level", "event", "host", "process", "exception", "stack"})


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


@dataclass(frozen=True, slots=True)
class Showing:
    """Which lines are shown, and how."""

    lowest: int
    as_they_are: bool

    def print(self, lines: Sequence[Line]) -> None:
        """In the order of time; lines of one process keep their order."""
        for line in sorted(lines, key=lambda line: line.time):
            if line.level not in LEVELS or LEVELS.index(line.level) >= self.lowest:
                printer.print_line(line.text if self.as_they_are else line.shown())


def show(readers: Sequence[LogReader], count: int, showing: Showing, wait: Callable[[float], None] | None) -> None:
    """Print the last lines of all logs together, and with `wait` go on until Ctrl-C."""
    try:
        found = sorted((line for reader in readers for line in reader.last(count)), key=lambda line: line.time)
        showing.print(found[len(found) - min(count, len(found)) :])
        while wait is not None:
            wait(_SECONDS)
            showing.print([line for reader in readers for line in reader.new()])
    except KeyboardInterrupt:
        pass  # that is how one leaves
    finally:
        for reader in readers:
            reader.close()
