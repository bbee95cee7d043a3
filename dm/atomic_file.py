"""Replacing small files as a whole: after a crash they hold the old or the new content, never a part."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

_SYNCS_AT_ONCE: Final = 16  # a file system makes several durable in about the time of one


def write_atomically(path: Path, data: bytes, *, durable: bool) -> None:
    """Replace a file's content; with `durable` also a power cut finds the old or the new one."""
    _replace(path, data, durable=durable)
    if durable:
        sync_directory(path.parent)


def write_together(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Replace the content of several files, each for itself; when this returns, a power cut finds the new ones."""
    with ThreadPoolExecutor(_SYNCS_AT_ONCE, "write") as pool:
        replace = partial(_replace, durable=True)
        for _ in pool.map(replace, (directory / name for name in contents), contents.values()):
            pass
    sync_directory(directory)


def _replace(path: Path, data: bytes, *, durable: bool) -> None:
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with os.fdopen(create_new(temporary), "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)


def create_new(path: Path) -> int:
    """A descriptor of a file that was not there; raises OSError where anything has the name, a link included.

    A directory that a person has named may be open to others. Who guesses a name there first must not choose where our
    bytes go.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def sync_directory(path: Path) -> None:
    """Make the directory's entries survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
