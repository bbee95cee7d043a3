"""When the source made the binlog file in which L stands.

A reset source begins again with the same names, and once it has written enough, L names a place in its new files and
its GTID set is in theirs: nothing but the time in the file's format description tells the two apart. Files of one
server and one name come one after the other, so their times grow. It goes into DM's `table_info` of the global row,
which holds nothing else.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from dm.position import Position

UNKNOWN = "{}"


@dataclass(frozen=True, slots=True)
class FileBirth:
    """One file of one server, and the time (in seconds since 1970, by the server's clock) when it was made."""

    server_uuid: str
    file: str
    created: int

    def is_of(self, position: Position) -> bool:
        """Whether the position stands in this file."""
        return (self.server_uuid, self.file) == (position.server_uuid, position.file)


def birth_to_json(birth: FileBirth | None) -> str:
    """The text that is stored."""
    return UNKNOWN if birth is None else json.dumps({"binlog": asdict(birth)})


def birth_from_json(text: str) -> FileBirth | None:
    """What was stored; None where it was not known, or an older version of ours stored nothing."""
    found = json.loads(text)
    stored = found.get("binlog") if isinstance(found, dict) else None
    if stored is None:
        return None
    return FileBirth(str(stored["server_uuid"]), str(stored["file"]), int(stored["created"]))


def made_again(read: FileBirth, created: int) -> str:
    """What tells that the source began anew: a file of the name that was read, made at another time."""
    return f"file {read.file} was made at {created}, and the one that was read at {read.created} (seconds since 1970)"
