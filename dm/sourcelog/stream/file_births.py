"""Whether the binlog files being read are the ones that were read before: each is known by its creation time.

A reset source reuses the same file names. Once it has written enough, L names a place in its new files, and L's GTID
set is covered by theirs. Only the time in the file's format description tells the two apart. Files of one server and
one name follow each other in time, so their times grow. The checkpoint stores the time of L's file in DM's `table_info`
of the global row. Beside it stand the sessions of the opposite task that are announced at L (`marks.py`), and nothing
else.
"""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass, replace

from dm.errors import DMError
from dm.position import Position
from dm.sourcelog.stream.marks import Marks, Session

UNKNOWN = "{}"


@dataclass(frozen=True, slots=True)
class FileBirth:
    """One file of one server, and its creation time (seconds since 1970, by the server's clock)."""

    server_uuid: str
    file: str
    created: int
    announced: frozenset[Session] | None = None  # at the checkpoint in this file; None where it is not known

    def is_of(self, position: Position) -> bool:
        """Whether the position is in this file."""
        return (self.server_uuid, self.file) == (position.server_uuid, position.file)


def birth_to_json(birth: FileBirth | None) -> str:
    """The stored text."""
    if birth is None:
        return UNKNOWN
    found = asdict(birth)
    announced = found.pop("announced")
    return json.dumps({"binlog": found} if announced is None else {"binlog": found, "opposite": sorted(announced)})


def birth_from_json(text: str) -> FileBirth | None:
    """What was stored; None if it was unknown, or if an older version of ours stored nothing."""
    found = json.loads(text)
    stored = found.get("binlog") if isinstance(found, dict) else None
    if stored is None:
        return None
    announced = found.get("opposite")
    sessions = (
        None if announced is None else frozenset(Session(int(server), int(number)) for server, number in announced)
    )
    return FileBirth(str(stored["server_uuid"]), str(stored["file"]), int(stored["created"]), sessions)


def made_again(read: FileBirth, created: int) -> str:
    """Evidence that the source was reset: a file of the name that was read, created at another time."""
    return f"file {read.file} was made at {created}, and the one that was read at {read.created} (seconds since 1970)"


class FileBirths:
    """The files of a run, from L's file on; the reader adds them, the progress writer asks."""

    def __init__(self, stored: FileBirth | None = None, marks: Marks | None = None) -> None:
        self._lock = threading.Lock()
        self._marks = marks
        self._births = [] if stored is None else [stored]  # in stream order

    def seen(self, birth: FileBirth) -> bool:
        """Note the file being read; returns whether it is new. Raises DMError if it replaced another of its name."""
        with self._lock:
            for known in self._births:
                if (known.server_uuid, known.file) == (birth.server_uuid, birth.file):
                    if known.created == birth.created:
                        return False
                    raise DMError("source-reset", what=made_again(known, birth.created))
            self._births.append(birth)
            return True

    def of(self, position: Position) -> FileBirth | None:
        """L's file; None until it is known. Earlier files are forgotten."""
        with self._lock:
            for at, birth in enumerate(self._births):
                if birth.is_of(position):
                    del self._births[:at]
                    return replace(birth, announced=None if self._marks is None else self._marks.at(position))
            return None
