"""The chunks that an unfinished comparison has found equal, as lines of a file, so that another run may continue.

A chunk is identified by the servers' addresses and the queries that compare it. After a change of the options, a
structure or the chunk's bounds it is a different chunk, and is compared again. The lines state what was true when they
were written, so a run continues from them only if a person asks for it.

Each comparison has its own file, named by what was asked, and holds the file's lock while it runs. Files of that name
without a holder come from unfinished comparisons: the next run with the same options takes them over, or removes them
if it is not to continue. The newest other files are kept. A file is removed when its comparison has finished.

The first line states when and where the comparison began. A run that takes over chunks counts from that beginning:
what was equal then may have changed since (`dm.progress.compared`).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from dm import faults
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.position import Position
from dm.tools.diff.table import ComparedTable

_KEPT: Final = 20  # files of unfinished comparisons that were asked something else


class EqualChunk(NamedTuple):
    """What is known of a chunk that was found equal."""

    source_rows: int
    target_rows: int
    digest: str


@dataclass(frozen=True, slots=True)
class Beginning:
    """When a comparison began, and the end of each source's binlog at that time."""

    at: int = 0  # seconds since the epoch
    places: Mapping[str, Position | None] = field(default_factory=dict)  # by source; None: it does not tell

    def to_json(self) -> str:
        """One line."""
        places = {source: None if at is None else at.to_json() for source, at in self.places.items()}
        return json.dumps({"began": self.at, "places": places})

    @classmethod
    def from_json(cls, line: str) -> Beginning | None:
        """The inverse; None for a line that is something else."""
        told = json.loads(line)
        if not isinstance(told, dict):
            return None
        places = {source: None if at is None else Position.from_json(at) for source, at in told["places"].items()}
        return cls(told["began"], places)


class DoneChunks:
    """The file, open while a comparison runs."""

    def __init__(self, directory: Path | None, asked: str, beginning: Beginning, *, resume: bool) -> None:
        self.beginning = beginning  # the earliest of the runs whose chunks count
        self._known: dict[str, EqualChunk] = {}
        self._path: Path | None = None
        self._empty = 0  # the size of a file without chunks
        self._file: TextIO | None = None
        if directory is None:
            return
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._path, self._file = _new(directory, asked)
            known = self._take_over(directory, asked, resume=resume)
            self._file.write(self.beginning.to_json() + "\n")
            self._empty = self._file.tell()
            self._write(known)
        except OSError as error:
            place = error.filename or directory
            raise DMError("diff-progress-unwritable", file=place, cause=error.strerror or str(error)) from error

    def known(self, chunk: str) -> EqualChunk | None:
        """What an unfinished comparison knows of the chunk, if it was found equal."""
        return self._known.get(chunk)

    def add(self, chunk: str, found: EqualChunk) -> None:
        """The chunk is equal. What a killed process had not written is compared again."""
        if self._file is not None:
            self._write({chunk: found})
            faults.hit("diff.chunk_equal")

    def close(self, *, over: bool) -> None:
        """The comparison ends; a run that is `over` leaves nothing to go on from."""
        if self._file is None or self._path is None:
            return
        if over or self._file.tell() == self._empty:
            self._path.unlink(missing_ok=True)
        self._file.close()

    def _write(self, chunks: Mapping[str, EqualChunk]) -> None:
        assert self._file is not None
        for chunk, found in chunks.items():
            self._file.write(json.dumps([chunk, *found]) + "\n")
        self._file.flush()

    def _take_over(self, directory: Path, asked: str, *, resume: bool) -> Mapping[str, EqualChunk]:
        mine = [path for path in _files(directory) if _asked(path) == asked and path != self._path]
        others = [path for path in _files(directory) if _asked(path) != asked]
        for path in mine:
            with _without_holder(path) as left:
                if left is None:
                    continue
                if resume:
                    beginning, lines = _read(left.read())
                    if lines and beginning.at <= self.beginning.at:
                        self.beginning = beginning
                    self._known |= lines
                path.unlink(missing_ok=True)
        for path in others[:-_KEPT]:
            with _without_holder(path) as left:
                if left is not None:
                    path.unlink(missing_ok=True)
        return self._known


def _new(directory: Path, asked: str) -> tuple[Path, TextIO]:
    """A file that has its holder before anyone sees it."""
    path = directory / f"{asked}-{uuid.uuid4().hex}"
    unseen = directory / f".{path.name}"
    file = unseen.open("x", encoding="ascii")
    fcntl.flock(file, fcntl.LOCK_EX)
    unseen.rename(path)
    return path, file


def _files(directory: Path) -> list[Path]:
    """Those of all comparisons, the newest last."""
    found = []
    for path in directory.glob("[!.]*-*"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except FileNotFoundError:  # its comparison has ended
            continue
    return [path for _, path in sorted(found)]


def _asked(path: Path) -> str:
    return path.name.rpartition("-")[0]


@contextmanager
def _without_holder(path: Path) -> Iterator[TextIO | None]:
    """The file, locked, if no running comparison has it."""
    try:
        file = path.open(encoding="ascii")
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        yield file


def _read(text: str) -> tuple[Beginning, dict[str, EqualChunk]]:
    """What a file says; the last line of a killed process may be cut. One without a beginning says nothing."""
    lines = text.split("\n")[:-1]
    beginning = Beginning.from_json(lines[0]) if lines else None
    if beginning is None:
        return Beginning(), {}
    found: dict[str, EqualChunk] = {}
    for line in lines[1:]:
        chunk, source_rows, target_rows, digest = json.loads(line)
        found[str(chunk)] = EqualChunk(int(source_rows), int(target_rows), str(digest))
    return beginning, found


def chunk_name(
    endpoints: dict[int, Endpoint], table: ComparedTable, condition: str, where: str, moments: Sequence[str] = ()
) -> str:
    """By what a chunk is known; `moments` are those of the past as of which it is read."""
    known = hashlib.sha256("".join(f"{each}\0" for each in moments).encode())
    for side in table.sides:
        for text in (endpoints[side.place].address, side.text or "", side.rows_query(condition, where, None)):
            known.update(text.encode() + b"\0")
    return known.hexdigest()
