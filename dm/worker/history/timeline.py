"""The timeline: what happened to tasks and relays in the last week, and who asked for it.

A file of lines of JSON; the first line has the number of the format. A happening is appended with one write, so a kill
leaves whole lines. Only a power cut can leave a part of the last line, which is dropped at the next start. Any other
line that can't be read means that the file was damaged: it is put aside, and a new one begins with a line about that.

The file is bounded by age and by size. When it has grown over its size, the newer half is written anew, atomically.

A full disk stops nothing: what can't be written is missing, and the log says so once.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, Self

import structlog

from dm.atomic_file import write_atomically
from dm.clock import Clock
from dm.unit import JSON
from dm.worker.history.put_aside import UnreadableHistory, put_aside

FORMAT: Final = 1
KEPT_SECONDS: Final = 7 * 24 * 3600.0
_LONGEST_TEXT: Final = 500  # characters of a happening's text
_LARGEST_LINE: Final = 8192  # bytes; names and text escaped

Kind = Literal["daemon", "start", "end", "pause", "error", "kill", "ddl", "verb", "history"]


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of the timeline."""

    at: float  # seconds since the epoch
    kind: Kind
    text: str
    task: str = ""
    source: str = ""
    who: str = ""  # who asked for it, where somebody did
    code: int = 0  # of the error, where there is one

    def line(self) -> bytes:
        """As it stands in the file."""
        told = {name: value for name, value in asdict(self).items() if value not in ("", 0)}
        told["text"] = self.text if len(self.text) <= _LONGEST_TEXT else f"{self.text[: _LONGEST_TEXT - 2]}.."
        return json.dumps(told, ensure_ascii=True).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Self:
        """From a line; raises ValueError."""
        told = json.loads(line)
        if not isinstance(told, dict) or not {"at", "kind", "text"} <= told.keys():
            raise ValueError("it is no happening")
        texts = {name: str(told.get(name, "")) for name in ("text", "task", "source", "who")}
        kind: Kind = told["kind"]
        return cls(float(str(told["at"])), kind, code=int(str(told.get("code", 0))), **texts)

    def to_json(self) -> dict[str, JSON]:
        """For an answer."""
        return asdict(self)


class Timeline:
    """Appends happenings, and finds them; from any thread."""

    def __init__(self, path: Path, clock: Clock, most_bytes: int) -> None:
        self._path = path
        self._clock = clock
        self._most = most_bytes
        self._lock = threading.Lock()
        self._fails = False
        self._size = 0
        self._take_up()

    def bound(self, most_bytes: int) -> None:
        """From now on the file has at most this size."""
        with self._lock:
            self._most = most_bytes

    def add(self, kind: Kind, text: str, **fields: str | int) -> None:
        """Something has just happened."""
        self.put(Happening(self._clock.time(), kind, text, **fields))  # type: ignore[arg-type]  # by their names

    def put(self, happening: Happening) -> None:
        """Something happened at its time."""
        line = happening.line()
        if len(line) > _LARGEST_LINE:
            return  # no name of ours is that long
        with self._lock, self._failing():
            if self._size + len(line) > self._most:
                self._write_newest(self._most // 2)
            self._append(line)

    def _append(self, line: bytes) -> None:
        """Write the whole line or, on a full disk, nothing: half a line would damage the next."""
        with open(self._path, "ab", buffering=0, opener=_private) as file:
            written = file.write(line)
            if written != len(line):
                os.ftruncate(file.fileno(), self._size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(line)

    def newest(self, most: int, wanted: Callable[[Happening], bool] = lambda _: True) -> list[Happening]:
        """Those of the last week that are wanted, the newest first."""
        since, found = self._clock.time() - KEPT_SECONDS, list[Happening]()
        with self._lock:
            data = self._path.read_bytes() if self._path.exists() else b""
        for line in reversed(data.splitlines()[1:]):
            if len(found) >= most:
                break
            try:
                happening = Happening.read(line)
            except ValueError:
                continue  # damaged while this daemon runs; the next one says so
            if happening.at >= since and wanted(happening):
                found.append(happening)
        return found

    # the file

    def _take_up(self) -> None:
        """Go on with the file of before, without what is too old."""
        problem = ""
        with self._failing():
            try:
                kept = [*self._whole_lines()]
            except UnreadableHistory as found:
                problem, kept = str(put_aside(self._path, str(found))), []
            self._write(kept)
        if problem:
            self.add("history", problem)

    def _whole_lines(self) -> Iterator[bytes]:
        """The lines that are young enough; raises UnreadableHistory."""
        data = self._path.read_bytes() if self._path.exists() else b""
        if not data:
            return
        lines = data.splitlines(keepends=True)
        if not lines[-1].endswith(b"\n"):
            lines.pop()  # the end of a write that a power cut has ended
        _demand_format(lines[0] if lines else b"")
        since = self._clock.time() - KEPT_SECONDS
        for number, line in enumerate(lines[1:], 2):
            try:
                young = Happening.read(line).at >= since
            except ValueError as error:
                raise UnreadableHistory(f"line {number} is damaged: {error}") from None
            if young:
                yield line

    def _write_newest(self, most: int) -> None:
        with open(self._path, "rb") as file:
            lines = file.read().splitlines(keepends=True)[1:]
        kept = 0
        first = len(lines)
        while first and kept + len(lines[first - 1]) <= most:
            first -= 1
            kept += len(lines[first])
        self._write(lines[first:])

    def _write(self, lines: list[bytes]) -> None:
        data = b"".join([json.dumps({"format": FORMAT}).encode() + b"\n", *lines])
        write_atomically(self._path, data, durable=False)
        self._size = len(data)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What the system refuses is said once, and stops nothing."""
        try:
            yield
            self._fails = False
        except OSError as error:
            if not self._fails:
                structlog.get_logger().warning("the timeline can't be written", error=error)
            self._fails = True


def _demand_format(line: bytes) -> None:
    try:
        told: Mapping[str, object] = json.loads(line)
        number = told["format"]
    except (ValueError, KeyError, TypeError):
        raise UnreadableHistory("its first line is damaged") from None
    if number != FORMAT:
        raise UnreadableHistory(f"it has the format {number}, and this version writes {FORMAT}")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
