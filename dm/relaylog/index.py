"""The sidecar of a relay file: what the Pump keeps in its files' footers, beside the file, so that the file stays the
source's.

A final index (`final: true`) says that the file will not grow. An index that is not final is a checkpoint of the
scan: up to `complete` everything was read once, and the state there is known, so a restart reads only what comes
after. An index is a hint about its file: one that does not fit (larger than the file, another creation time, not
readable) counts as none. `marks` are a sparse map from place to time, one per MiB, to find a time without reading the
file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.binlog.header import EventType
from dm.gtid import Flavor, GtidSet

FORMAT = 1
MARK_EVERY = 1 << 20

# Events between transactions: they move the complete end, but are none.
NOT_TRANSACTIONS = frozenset(
    {
        EventType.FORMAT_DESCRIPTION,
        EventType.PREVIOUS_GTIDS,
        EventType.MARIADB_GTID_LIST,
        EventType.MARIADB_BINLOG_CHECKPOINT,
        EventType.MARIADB_START_ENCRYPTION,
        EventType.ROTATE,
        EventType.STOP,
        EventType.IGNORABLE,
    }
)


@dataclass(slots=True)
class FileIndex:
    """What is known of one relay file up to the end of its last complete transaction."""

    complete: int = 4  # end of the last complete transaction
    created: int = 0  # the format description's timestamp: tells files of one name apart
    checksum: bool = True
    flavor: Flavor = "mysql"
    gtid_set: str = ""  # everything complete at `complete`, earlier files included
    transactions: int = 0
    first_time: int = 0
    last_time: int = 0
    next_file: str = ""  # where the file's rotation points to
    final: bool = False
    marks: list[tuple[int, int]] = field(default_factory=list)  # offset, timestamp
    format: int = FORMAT

    @property
    def gtids(self) -> GtidSet:
        """The GTID set as a value."""
        return GtidSet.parse(self.gtid_set, self.flavor)


def write_index(path: Path, index: FileIndex) -> None:
    """Replace the sidecar."""
    write_atomically(path, json.dumps(asdict(index)).encode(), durable=False)


def read_index(path: Path, size: int, created: int) -> FileIndex | None:
    """The sidecar of a file of this size and creation time; None when it does not fit."""
    try:
        found = json.loads(path.read_bytes())
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            return None
        index = FileIndex(**found)
        index.marks = [(int(offset), int(time)) for offset, time in index.marks]
        fits = 4 <= int(index.complete) <= size and int(index.created) == created
        GtidSet.parse(str(index.gtid_set), index.flavor)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return index if fits else None
