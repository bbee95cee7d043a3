"""The index of a relay file, stored beside it so that the file stays identical to the source's.

It holds what TiDB's Pump keeps in the footers of its files. A final index (`final: true`) says that the file will not
grow. An index that is not final is a checkpoint of the scan: everything up to `complete` was read once, and the state
there is known, so a restart reads only the rest. `marks` map offsets to times, one per MiB, so that a time is found
without reading the file. A session may set its clock back, so `latest_time` and the times of the marks are those of the
latest transaction so far. If the source writes no checksums, `block_crcs` replace them: one CRC-32 per MiB from the
file's first byte on, the last one up to `complete`.

An index is a hint. If it does not match its file (larger than the file, another creation time, unreadable, an older
format), it is ignored and rebuilt from the file. A wrong number would send the relay to a wrong place, so the index
carries its own CRC. The first line alone shows whether it is final and matches the file's size:

    {"format": 2, "final": true, "size": 1073742102, "crc": 3632233996}
    {"complete": 1073742102, "created": ...}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from dm.atomic_file import write_atomically
from dm.flavor import Flavor
from dm.gtid import GtidSet
from dm.unit import JSON

FORMAT = 2
BLOCK = 1 << 20
MARK_EVERY = 1 << 20
TABLES_KEPT = 1000
ANY_SIZE = 1 << 63  # for `read_index`, when the file's size is checked elsewhere
_SEAL_BYTES = 160  # more than the longest first line


class Seal(NamedTuple):
    """The first line of an index: enough to see whether a closed file is complete."""

    final: bool
    size: int


@dataclass(slots=True)
class FileIndex:
    """What is known of one relay file up to the end of its last complete transaction."""

    complete: int = 4  # end of the last complete transaction
    created: int = 0  # the format description's timestamp: tells files of one name apart
    checksum: bool = True
    flavor: Flavor = "mysql"
    gtid_before: str = ""  # the preceding GTIDs that the file itself states
    gtid_set: str = ""  # everything complete at `complete`, earlier files included
    transactions: int = 0
    first_time: int = 0  # seconds, of the events' headers
    last_time: int = 0
    latest_time: int = 0  # of all transactions; 0 where an older DM began the index
    first_commit: int = 0  # microseconds, of MySQL's GTID events (from 8.0.1 on); 0 where there are none
    last_commit: int = 0
    tables: list[str] = field(default_factory=list)  # `schema.table` of every table map, sorted
    all_tables: bool = True  # False: there are more than are kept, or some are inside compressed transactions
    next_file: str = ""  # the next file by this file's rotation
    final: bool = False
    marks: list[tuple[int, int]] = field(default_factory=list)  # offset, `latest_time` there
    block_crcs: list[int] = field(default_factory=list)  # only where the source writes no checksums

    @property
    def gtids(self) -> GtidSet:
        """The GTID set as a value."""
        return GtidSet.parse(self.gtid_set, self.flavor)

    @property
    def seal(self) -> Seal:
        """What the first line says."""
        return Seal(self.final, self.complete)


def write_index(path: Path, index: FileIndex) -> None:
    """Replace the index."""
    body = json.dumps({known.name: getattr(index, known.name) for known in fields(index)}).encode()
    seal = json.dumps({"format": FORMAT, "final": index.final, "size": index.complete, "crc": crc32(body)}).encode()
    write_atomically(path, seal + b"\n" + body, durable=False)


def read_seal(path: Path) -> Seal | None:
    """The first line only; None when there is none, or one of an older format."""
    try:
        with path.open("rb") as file:
            line, end, _ = file.read(_SEAL_BYTES).partition(b"\n")
        found = _seal(line) if end else None
        return None if found is None else Seal(bool(found["final"]), int(str(found["size"])))
    except (FileNotFoundError, ValueError, KeyError):
        return None


def read_index(path: Path, size: int, created: int | None = None) -> FileIndex | None:
    """The index of a file of this size (and creation time, if given); None when it does not match."""
    try:
        line, _, body = path.read_bytes().partition(b"\n")
        seal = _seal(line)
        if seal is None or seal.get("crc") != crc32(body):
            return None
        index = FileIndex(**json.loads(body))
        index.marks = [(int(offset), int(time)) for offset, time in index.marks]
        GtidSet.parse(index.gtid_set, index.flavor)
    except (FileNotFoundError, ValueError, TypeError):
        return None
    fits = 4 <= index.complete <= size and created in (None, index.created)
    return index if fits else None


def _seal(line: bytes) -> Mapping[str, JSON] | None:
    found = json.loads(line)
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None
