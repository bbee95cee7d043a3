"""What the files of a sub-directory prove, after any kind of end.

Only the newest file can be unfinished: an older one was closed before the next was created. Recovery reads it from the
last index (or from the start), event by event with checksums. It cuts off whatever follows the last complete
transaction: half a write, half a transaction, damaged bytes. The source sends that again. relay.meta is not read, only
rewritten. After a clean stop the index covers the whole file, so no event is read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.gtid_history import empty_history
from dm.mysql.binlog.header import EventType
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.relaylog import damage
from dm.sourcelog.relaylog.event_file import EventFile
from dm.sourcelog.relaylog.index import ANY_SIZE, FileIndex, read_index, read_seal, write_index
from dm.sourcelog.relaylog.layout import SubDirectory
from dm.sourcelog.relaylog.scan import scan


@dataclass(frozen=True, slots=True)
class Recovered:
    """The newest file, and its state at its last complete transaction."""

    sub: SubDirectory
    file: str
    index: FileIndex
    bytes_read: int = 0  # of the file, read by recovery

    @property
    def position(self) -> Position:
        """Where the source has to continue."""
        return Position(self.sub.server_uuid, self.file, self.index.complete, self.index.gtids)


def recover(sub: SubDirectory, flavor: Flavor) -> Recovered | None:
    """Cut the newest file back to its last complete transaction; None when no file has begun."""
    while True:
        files = sub.files()
        if not files:
            return None
        name = files[-1]
        path = sub.file(name)
        found = scan(path, sub.idx(name), flavor)
        try:
            if found is None:
                if read_index(sub.idx(name), ANY_SIZE) is not None:
                    # It had begun once: its content stays until there is another copy.
                    raise _damaged(sub, name)
                # Killed after it was created and before its format description: treat it as absent.
                path.unlink()
                sub.idx(name).unlink(missing_ok=True)
                continue
            found.index.final = False
            if path.stat().st_size > found.index.complete or read_seal(sub.idx(name)) != found.index.seal:
                # The index first: an index ahead of its file would look like damage to readers.
                write_index(sub.idx(name), found.index)
                _truncate(path, found.index.complete)
        except OSError as error:
            raise DMError("relay-storage-failed", path=path) from error
        return Recovered(sub, name, found.index, found.bytes_read)


def _damaged(sub: SubDirectory, name: str) -> DMError:
    what = "its beginning can't be read"
    given_up = damage.lost(sub, name)
    if given_up is not None:
        return DMError("relay-file-lost", file=name, offset=0, what=what, why=given_up.lost)
    damage.report(sub, name, 0, what)
    return DMError("relay-file-corrupt", file=name, offset=0, what=what)


def _truncate(path: Path, size: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_LEADING = frozenset({EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST})


def gtids_before_file(sub: SubDirectory, name: str) -> GtidSet | None:
    """The file's own preceding GTIDs; None until it states them."""
    history = empty_history("mysql")
    with EventFile(sub.file(name)) as file:
        if not file.has_magic():
            return None
        offset = MAGIC_SIZE
        seen_list = False
        for event in file.read(offset):
            if event[4] not in _LEADING:
                return history.gtid_set
            history.feed(event)
            seen_list = seen_list or event[4] != EventType.FORMAT_DESCRIPTION
    return history.gtid_set if seen_list else None


def gtids_at(sub: SubDirectory, name: str, offset: int, flavor: Flavor) -> GtidSet:
    """The set of everything complete at an offset of a file, from its index or by reading up to there.

    Empty until the relay has got as far; raises DMError when the bytes before the offset are damaged.
    """
    if offset <= MAGIC_SIZE:
        return gtids_before_file(sub, name) or GtidSet.empty(flavor)
    found = scan(sub.file(name), sub.idx(name), flavor, upto=offset, trust=True)
    if found is None:
        return GtidSet.empty(flavor)
    if found.stopped < offset:
        if sub.file(name).stat().st_size >= offset:
            damage.report(sub, name, found.stopped, found.what)
            raise DMError("relay-file-corrupt", file=name, offset=found.stopped, what=found.what)
        return GtidSet.empty(flavor)  # the relay has not got as far: the part in between is unknown
    return found.index.gtids
