"""Which chunks an unfinished comparison has found equal: lines of a file, so that another run may go on from there.

A chunk is known by the addresses of the servers and the queries that compare it. So after a change of the options, of a
structure or of a chunk's bounds it is another chunk, and is compared. The file goes when a comparison has come to its
end. What its lines say was so at that time; a person asks for going on, nothing does it by itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from dm import faults
from dm.config.endpoint import Endpoint
from dm.diff.table import ComparedTable
from dm.errors import DMError


class DoneChunks:
    """The file, open while a comparison runs."""

    def __init__(self, path: Path | None, *, resume: bool) -> None:
        self._path = path
        self._known: dict[str, tuple[int, int]] = {}
        self._file: TextIO | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if resume and path.exists():
                self._known = dict(_lines(path))
            self._file = path.open("a" if resume else "w", encoding="ascii")
        except OSError as error:
            raise DMError("diff-progress-unwritable", file=path, cause=error.strerror or str(error)) from error

    def known(self, chunk: str) -> tuple[int, int] | None:
        """The rows of source and target, if the chunk was found equal."""
        return self._known.get(chunk)

    def add(self, chunk: str, source_rows: int, target_rows: int) -> None:
        """The chunk is equal. What a killed process had not written is compared again."""
        if self._file is not None:
            self._file.write(json.dumps([chunk, source_rows, target_rows]) + "\n")
            self._file.flush()
            faults.hit("diff.chunk_equal")

    def close(self, *, over: bool) -> None:
        """The comparison ends; a run that is `over` leaves nothing to go on from."""
        if self._file is not None:
            self._file.close()
        if over and self._path is not None:
            self._path.unlink(missing_ok=True)


def _lines(path: Path) -> list[tuple[str, tuple[int, int]]]:
    """What the lines say; the last one of a killed process may be cut."""
    found = []
    for line in path.read_text(encoding="ascii").split("\n")[:-1]:
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
