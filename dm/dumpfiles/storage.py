"""Where the files of a dump are: a directory, or a place in object storage; all that a dump or a load asks of it.

Two promises, whatever the place: a file is whole or it is not there, and of several that are made under one name with
`create` the first one stays. So a process may die between any two of these calls, and a worker that outlives its driver
replaces nothing.

Workers report how far they are, and sessions of a consistent dump meet, through small files that may be lost and are
never part of a dump. Those are in `work`, always a directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from dm.atomic_file import write_atomically, write_together
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


# A dump in a directory: files become whole by a link or a rename, which a file system does at once.

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Some network file systems have no hard links; there a rename must do, and the first one no longer wins.
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """A directory of this machine, or one that all machines of a cluster share."""

    directory: Path

    def __str__(self) -> str:
        return str(self.directory)

    @property
    def work(self) -> Path:
        """The directory itself."""
        return self.directory

    def shown(self, name: str) -> str:
        """The file's path."""
        return str(self.directory / name)

    @property
    def everywhere(self) -> bool:
        """A path is another one on another machine, unless both share the directory."""
        return False

    def refusal(self) -> DMError | None:
        """Make a file; what was made to find out is removed again."""
        why = unusable(self.directory)
        return DMError("dump-directory-unusable", directory=self.directory, cause=why) if why else None

    def prepare(self) -> None:
        """Make the directory."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """All but directories, none where there is no directory.

        Also what is no file: one of a dump that was left out would be rows that are missing.
        """
        if not self.directory.is_dir():
            return []
        return [path.name for path in self.directory.iterdir() if not path.is_dir()]

    def size(self, name: str) -> int:
        """Bytes of a file."""
        return _regular(os.stat(self.directory / name), self.directory / name).st_size

    def open(self, name: str) -> BinaryIO:
        """The file."""
        path = self.directory / name
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
        try:
            _regular(os.fstat(file.fileno()), path)
        except OSError:
            file.close()
            raise
        return file

    def arrow_source(self, name: str) -> str:
        """Its path: pyarrow reads that without Python."""
        self.size(name)
        return str(self.directory / name)

    def store(self, contents: Mapping[str, bytes]) -> None:
        """Replace files, several at a time where they are several."""
        if len(contents) > 1:
            write_together(self.directory, contents)
        for name, data in contents.items() if len(contents) == 1 else ():
            write_atomically(self.directory / name, data, durable=True)

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[_LocalFile]:
        """Write under another name, and link the file to its own."""
        temporary = self.directory / f".{uuid.uuid4().hex}.tmp"
        try:
            with temporary.open("xb") as file:
                yield _LocalFile(file, temporary, self.directory / name)
        finally:
            temporary.unlink(missing_ok=True)

    def rename(self, name: str, new: str) -> None:
        """A file system does it at once."""
        (self.directory / name).replace(self.directory / new)

    def remove(self, names: Iterable[str]) -> None:
        """Unlink them."""
        for name in names:
            (self.directory / name).unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove temporary files; workers of a driver that was killed write for a moment longer."""
        for left in self.directory.glob(".*.tmp"):
            left.unlink(missing_ok=True)

    def leave(self) -> None:
        """Remove the directory; other files may be there, which are not ours."""
        with contextlib.suppress(OSError):
            self.directory.rmdir()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Tell a full disk from a directory that can't be used."""
        try:
            yield
        except OSError as error:
            name = "dump-disk-full" if error.errno in _FULL else "dump-directory-unusable"
            raise DMError(name, directory=self.directory, cause=str(error)) from error


@dataclass(slots=True)
class _LocalFile:
    file: BinaryIO
    temporary: Path
    final: Path

    def write(self, data: memoryview) -> int:
        """Append bytes."""
        return self.file.write(data)

    def publish(self) -> bool:
        """Link the file to its name.

        A power cut may take the name away, and the chunk is read again. Those of a finished dump are as safe as its
        plan, which is stored after them.
        """
        self.file.flush()
        os.fsync(self.file.fileno())
        return publish(self.temporary, self.final)


def _regular(found: os.stat_result, path: Path) -> os.stat_result:
    """Whoever opens a pipe waits for its writer, and a device has no end; raises OSError."""
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return found


def publish(temporary: Path, final: Path) -> bool:
    """Give a finished file its name; False when another worker was first, whose file then stays."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        temporary.rename(final)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def unusable(directory: Path) -> str:
    """Why files can't be made in a directory, empty where they can; what was made to find out is removed again."""
    missing = [place for place in (directory, *directory.parents) if not os.path.lexists(place)]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return ""
    except OSError as error:
        return f"{error.strerror or error}: {error.filename or directory}"
    finally:
        for place in missing:
            with contextlib.suppress(OSError):
                place.rmdir()
