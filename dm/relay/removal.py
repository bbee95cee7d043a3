"""Removing the relay of a source that is forgotten: all that a relay has written there, and nothing else.

`relay-dir` is the user's directory, and other things may lie there. So files go by the names that a relay gives. What
is left stays with the directories that hold it, and is told.

The sub-directories are first taken out of use, as those of a lost history are. After a SIGKILL amid the removal nothing
misleads: no reader and no relay looks at them, and the next removal finishes it.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from dm.errors import DMError
from dm.relay.puller import LOCK_NAME, sole_writer
from dm.relay.refetch import FETCHING_NAME
from dm.sourcelog.relaylog import hold
from dm.sourcelog.relaylog.layout import INDEX_NAME, RESET_SUFFIX, RelayDirectory, is_binlog_name, is_remnant
from dm.unit import JSON


@dataclass(slots=True)
class Removed:
    """What went, and what is left because no relay has made it."""

    directory: Path
    files: int = 0  # of binlog
    size: int = 0  # their bytes
    left: str = ""

    def to_json(self) -> dict[str, JSON]:
        """For an answer; 64-bit numbers are text, as in all of DM's answers."""
        return {
            "relayDirectory": str(self.directory),
            "removedFiles": self.files,
            "removedBytes": str(self.size),
            "left": self.left,
        }


def relay_size(root: Path) -> tuple[int, int]:
    """How many binlog files a relay's directory has, also those that are out of use, and their bytes."""
    files = [path for path in root.glob("*/*") if is_binlog_name(path.name)]
    return len(files), sum(path.stat().st_size for path in files)


def remove_relay(root: Path) -> Removed:
    """Remove a relay's files and directories; raises DMError while a relay writes there, or where the disk refuses."""
    removed = Removed(root)
    if not root.is_dir():
        return removed
    try:
        with sole_writer(root):
            directory = RelayDirectory(root)
            directory.set_aside()
            for path in sorted(root.iterdir()):
                if directory.named(path.name.removesuffix(RESET_SUFFIX)) is not None and path.is_dir():
                    _remove_files(path, removed)
            shutil.rmtree(root / FETCHING_NAME, ignore_errors=True)
            _remove_holds(root / hold.HOLDS_NAME)
            (root / INDEX_NAME).unlink(missing_ok=True)
            (root / LOCK_NAME).unlink(missing_ok=True)
        names = sorted(os.listdir(root))
        if not names:
            root.rmdir()
    except OSError as error:
        raise DMError("relay-storage-failed", path=root) from error
    removed.left = ", ".join(names)
    return removed


def _remove_files(sub: Path, removed: Removed) -> None:
    for name in os.listdir(sub):
        path = sub / name
        if is_binlog_name(name):
            removed.files += 1
            removed.size += path.stat().st_size
        elif not is_remnant(name):
            continue
        path.unlink()
    if not os.listdir(sub):
        sub.rmdir()


def _remove_holds(directory: Path) -> None:
    if not directory.is_dir():
        return
    for name in os.listdir(directory):
        if name.endswith(hold.SUFFIX) or name == hold.LOCK_NAME:
            (directory / name).unlink()
    if not os.listdir(directory):
        directory.rmdir()
