"""The directory of a dump: whose it is, removing what is ours, and what a file system says when it can't take more.

Problem: `loaders.dir` names a directory of the user's. A dump must never wipe what somebody else's dump has left there,
a load must never take the remains of a removal for a dump, and a process may die between any two files.

So every file of ours exists only while the plan (`dump.json`) or the mark of a removal exists: the plan is stored
before the first chunk is written, and a removal begins by renaming the plan to that mark and ends by removing the mark.
"""

from __future__ import annotations

import contextlib
import errno
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dm.errors import DMError

PLAN_FILE: Final = "dump.json"
MANIFEST_FILE: Final = "manifest.json"
METADATA_FILE: Final = "metadata"
SLOTS_DIRECTORY: Final = ".slots"  # where the sessions of a consistent dump meet

_REMOVAL = ".dump-removed.json"
# Names as `dump_files` and `atomic_file` make them: chunks end with two numbers, temporary files begin with a dot.
_OURS = re.compile(
    r"metadata|manifest\.json|\..+\.tmp"
    r"|.+(\.[0-9]{3,}\.[0-9]{9,}\.parquet|\.[0-9]{9,}\.sql|-schema\.sql|-schema-create\.sql)"
)
_DUMP_LIKE = re.compile(r"metadata(\.partial)?|.*(\.parquet|\.sql(\.gz|\.zst)?|\.dat|\.csv)", re.DOTALL)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def foreign_file(directory: Path) -> str | None:
    """The name of a file of a dump that is not ours; None where there is none."""
    if (directory / PLAN_FILE).exists() or (directory / _REMOVAL).exists() or not directory.is_dir():
        return None
    return min((path.name for path in directory.iterdir() if _DUMP_LIKE.fullmatch(path.name)), default=None)


def remove_files(directory: Path) -> None:
    """Remove what a dump of ours has written here, and nothing else."""
    plan, removal = directory / PLAN_FILE, directory / _REMOVAL
    if plan.exists():
        plan.replace(removal)
    if removal.exists():
        for path in directory.iterdir():
            if _OURS.fullmatch(path.name):
                path.unlink(missing_ok=True)
        shutil.rmtree(directory / SLOTS_DIRECTORY, ignore_errors=True)
        removal.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()  # other files may be there, which are not ours


@contextlib.contextmanager
def writing_to(directory: Path) -> Iterator[None]:
    """Say in our words what the file system refuses while files of the dump are written."""
    try:
        yield
    except OSError as error:
        name = "dump-disk-full" if error.errno in _FULL else "dump-directory-unusable"
        raise DMError(name, directory=directory, cause=str(error)) from error
