"""When the source created the binlog file that holds L.

A reset source reuses the same file names. Once it has written enough, L names a place in its new files, and L's GTID
set is covered by theirs. Only the time in the file's format description tells the two apart. Files of one server and
one name follow each other in time, so their times grow. The time is stored in DM's `table_info` of the global row,
which holds nothing else.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from dm.position import Position

UNKNOWN = "{}"


@dataclass(frozen=True, slots=True)
class FileBirth:
    """One file of one server, and its creation time (seconds since 1970, by the server's clock)."""

    server_uuid: str
    file: str
    created: int

    def is_of(self, position: Position) -> bool:
        """Whether the position is in this file."""
        return (self.server_uuid, self.file) == (position.server_uuid, position.file)


def birth_to_json(birth: FileBirth | None) -> str:
    """The stored text."""
    return UNKNOWN if birth is None else json.dumps({"binlog": asdict(birth)})


def birth_from_json(text: str) -> FileBirth | None:
    """What was stored; None if it was unknown, or if an older version of ours stored nothing."""
    found = json.loads(text)
    stored = found.get("binlog") if isinstance(found, dict) else None
    if stored is None:
        return None
    return FileBirth(str(stored["server_uuid"]), str(stored["file"]), int(stored["created"]))


def made_again(read: FileBirth, created: int) -> str:
    """Evidence that the source was reset: a file of the name that was read, created at another time."""
    return f"file {read.file} was made at {created}, and the one that was read at {read.created} (seconds since 1970)"
