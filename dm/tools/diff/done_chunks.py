"""The chunks that an unfinished comparison has found equal, as lines of a file, so that another run may continue.

A chunk is identified by the servers' addresses and the queries that compare it. After a change of the options, a
structure or the chunk's bounds it is a different chunk, and is compared again. The lines state what was true when they
were written, so a run continues from them only if a person asks for it.

Each comparison has its own file, named by what was asked, and holds the file's lock while it runs. Files of that name
without a holder come from unfinished comparisons: the next run with the same options takes them over, or removes them
if it is not to continue. The newest other files are kept. A file is removed when its comparison has finished.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from dm import faults
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.tools.diff.table import ComparedTable

_KEPT: Final = 20  # files of unfinished comparisons that were asked something else

Rows = tuple[int, int]
"""Of source and target."""


class DoneChunks:
    """The file, open while a comparison runs."""

    def __init__(self, directory: Path | None, asked: str, *, resume: bool) -> None:
        self._known: dict[str, Rows] = {}
        self._path: Path | None = None
        self._file: TextIO | None = None
        if directory is None:
            return
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._path, self._file = _new(directory, asked)
            self._take_over(directory, asked, resume=resume)
        except OSError as error:
            place = error.filename or directory
            raise DMError("diff-progress-unwritable", file=place, cause=error.strerror or str(error)) from error

    def known(self, chunk: str) -> Rows | None:
        """The rows of source and target, if the chunk was found equal."""
        return self._known.get(chunk)

    def add(self, chunk: str, source_rows: int, target_rows: int) -> None:
        """The chunk is equal. What a killed process had not written is compared again."""
        if self._file is not None:
            self._write({chunk: (source_rows, target_rows)})
            faults.hit("diff.chunk_equal")

    def close(self, *, over: bool) -> None:
        """The comparison ends; a run that is `over` leaves nothing to go on from."""
        if self._file is None or self._path is None:
            return
        if over or not self._file.tell():
            self._path.unlink(missing_ok=True)
        self._file.close()

    def _write(self, chunks: dict[str, Rows]) -> None:
        assert self._file is not None
        for chunk, rows in chunks.items():
            self._file.write(json.dumps([chunk, *rows]) + "\n")
        self._file.flush()

    def _take_over(self, directory: Path, asked: str, *, resume: bool) -> None:
        mine = [path for path in _files(directory) if _asked(path) == asked and path != self._path]
        others = [path for path in _files(directory) if _asked(path) != asked]
        for path in mine:
            with _without_holder(path) as left:
                if left is None:
                    continue
                if resume:
                    lines = dict(_lines(left.read()))
                    self._known |= lines
                    self._write(lines)
                path.unlink(missing_ok=True)
        for path in others[:-_KEPT]:
            with _without_holder(path) as left:
                if left is not None:
                    path.unlink(missing_ok=True)


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


def _lines(text: str) -> list[tuple[str, Rows]]:
    """What the lines say; the last one of a killed process may be cut."""
    found = []
    for line in text.split("\n")[:-1]:
        chunk, source_rows, target_rows = json.loads(line)
        found.append((str(chunk), (int(source_rows), int(target_rows))))
    return found


def chunk_name(
    endpoints: dict[int, Endpoint], table: ComparedTable, condition: str, where: str, moments: Sequence[str] = ()
) -> str:
    """By what a chunk is known; `moments` are those of the past as of which it is read."""
    known = hashlib.sha256("".join(f"{each}\0" for each in moments).encode())
    for side in table.sides:
        for text in (endpoints[side.place].address, side.text or "", side.rows_query(condition, where, None)):
            known.update(text.encode() + b"\0")
    return known.hexdigest()
