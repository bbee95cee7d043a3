"""Where the files of a dump are: a directory, or a place in object storage; all that a dump or a load asks of it.

Two promises, whatever the place: a file is whole or it is not there, and of several that are made under one name with
`create` the first one stays. So a process may die between any two of these calls, and a worker that outlives its driver
replaces nothing.

Workers report how far they are, and sessions of a consistent dump meet, through small files that may be lost and are
never part of a dump. Those are in `work`, always a directory.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol

from dm.errors import DMError


class NewFile(Protocol):
    """A file that is being written; nobody sees it before it is published."""

    def write(self, data: memoryview) -> int:
        """Append bytes."""
        ...

    def publish(self) -> bool:
        """Give it its name, as a whole; False when another one was first, which then stays."""
        ...


class DumpStorage(Protocol):
    """The place of one dump. It is pickled for the workers, keys included; `str` of it shows none."""

    @property
    def work(self) -> Path:
        """Where workers report and sessions meet."""
        ...

    def shown(self, name: str) -> str:
        """A file as messages name it."""
        ...

    @property
    def everywhere(self) -> bool:
        """Whether workers of any machine reach it, though they share no directory with the driver."""
        ...

    def refusal(self) -> DMError | None:
        """Why no files can be made here; None where they can."""
        ...

    def prepare(self) -> None:
        """Have the place ready for files."""
        ...

    def names(self) -> list[str]:
        """The files that are here, and whatever else has a name that a file of a dump could have."""
        ...

    def size(self, name: str) -> int:
        """Bytes of a file; FileNotFoundError where there is none."""
        ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Read a file anywhere in it; FileNotFoundError where there is none."""
        ...

    def arrow_source(self, name: str) -> str | BinaryIO:
        """What pyarrow reads a file from; FileNotFoundError, here or there, where there is none."""
        ...

    def store(self, contents: Mapping[str, bytes]) -> None:
        """Write small files, each in place of one that has its name; when this returns, a power cut finds them."""
        ...

    def create(self, name: str) -> AbstractContextManager[NewFile]:
        """Write a file of any length; what is not published by the end of the block never was."""
        ...

    def rename(self, name: str, new: str) -> None:
        """Give a small file another name. Where a process dies in the middle, both may be there."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are not there are no error."""
        ...

    def sweep(self) -> None:
        """Remove what killed writers have left unpublished, and their reports."""
        ...

    def leave(self) -> None:
        """Remove the place itself as far as it is empty."""
        ...

    def writing(self) -> AbstractContextManager[None]:
        """Say in our words what the place refuses while files are written."""
        ...


def read_bytes(storage: DumpStorage, name: str, largest: int = 1 << 28) -> bytes:
    """The content of a small file; FileNotFoundError where there is none, OSError where it is larger."""
    with storage.open(name) as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"larger than {largest} bytes", storage.shown(name))
    return content
