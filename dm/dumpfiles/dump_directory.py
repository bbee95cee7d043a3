"""The files of a dump in its place: whose they are, and removing what is ours.

Problem: `loaders.dir` names a directory of the user's. A dump must never wipe what somebody else's dump has left there,
a load must never take the remains of a removal for a dump, and a process may die between any two files.

So every file of ours exists only while the plan (`dump.json`) or the mark of a removal exists: the plan is stored
before the first chunk is written, and a removal begins by renaming the plan to that mark and ends by removing the mark.
"""

from __future__ import annotations

import re
import shutil
from typing import Final

from dm.dumpfiles.storage import DumpStorage

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


def foreign_file(storage: DumpStorage) -> str | None:
    """The name of a file of a dump that is not ours; None where there is none."""
    names = storage.names()
    if PLAN_FILE in names or _REMOVAL in names:
        return None
    return min((name for name in names if _DUMP_LIKE.fullmatch(name)), default=None)


def remove_files(storage: DumpStorage) -> None:
    """Remove what a dump of ours has written here, and nothing else."""
    names = storage.names()
    if PLAN_FILE in names:
        storage.rename(PLAN_FILE, _REMOVAL)
    if PLAN_FILE in names or _REMOVAL in names:
        storage.remove(name for name in storage.names() if _OURS.fullmatch(name))
        shutil.rmtree(storage.work / SLOTS_DIRECTORY, ignore_errors=True)
        storage.remove([_REMOVAL])
    storage.leave()
