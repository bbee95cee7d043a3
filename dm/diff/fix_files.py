"""The files of `--fix-sql`, one for each table with differences; a directory belongs to one comparison at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dm.atomic_file import create_new
from dm.diff.fix import Fix, in_order
from dm.errors import DMError
from dm.ident import TableName
from dm.session.state import CLIENT_HEAD


class FixFiles:
    """All of them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._begun: set[Path] = set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other comparisons from writing there meanwhile; raises DMError where one does."""
        directory = self._directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _unwritable(directory, error) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DMError("diff-fix-busy", directory=directory) from error
            yield
        finally:
            os.close(descriptor)  # the kernel does it for a process that is killed

    def begin(self, tables: Iterable[TableName]) -> None:
        """Remove what an earlier comparison has said of these tables: it may be wrong by now. Raises DMError."""
        for table in tables:
            path = self._path(table)
            self._begun.discard(path)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise _unwritable(path, error) from error

    def write(self, table: TableName, fixes: Sequence[Fix]) -> str:
        """Add statements, deletions first; gives the file, and nothing where there are none. Raises DMError."""
        statements = in_order(fixes)
        path = self._path(table)
        if statements:
            begun = path in self._begun
            try:
                if not begun:
                    path.unlink(missing_ok=True)
                with path.open("ab") if begun else os.fdopen(create_new(path), "wb") as file:
                    file.write(b"" if begun else CLIENT_HEAD)
                    file.writelines(part for each in statements for part in (each, b";\n"))
            except OSError as error:
                raise _unwritable(path, error) from error
            self._begun.add(path)
        return str(path) if path in self._begun else ""

    def _path(self, table: TableName) -> Path:
        return self._directory / f"{_file_name(table)}.sql"


def _unwritable(path: Path, error: OSError) -> DMError:
    return DMError("diff-fix-unwritable", file=path, cause=error.strerror or str(error))


def _file_name(table: TableName) -> str:
    """A name for a file: what has a meaning for a file system is written as its code."""
    return "".join(char if char.isalnum() or char in "_-." else f"%{ord(char):04x}" for char in str(table))
