"""What relay files prove: each after any kind of end, and whether one continues another.

Only the newest file can be unfinished: an older one was closed before the next was created. Recovery reads it from the
last index (or from the start), event by event with checksums. It cuts off whatever follows the last complete
transaction: half a write, half a transaction, damaged bytes. The source sends that again. relay.meta is not read, only
rewritten. After a clean stop the index covers the whole file, so no event is read.

Whether one relay file continues another.

A reader that moves to the next file must not miss anything: a removed file, the cut end of a file, or what a source
purged while the relay was away (the relay then continues in a new sub-directory, if no task needs the missing part).
One of these proves that nothing is missing:

- for one server's files, the final index, which knows its file's size and the name of the next file;
- for one server's files, consecutive numbers, if the first one was closed in order;
- for files of two servers, or of two names (`log_bin` was changed), the GTID sets: the next file begins inside of what
  the relay had up to here.

Sets prove nothing for files of one server: what stood in a missing file may have had no GTIDs (`gtid_mode` was off for
a while), numbers out of order (MariaDB without strict mode), or a domain that was deleted since. For another server
they prove it only together with what `dm.sourcelog.upstream.locate` asked that server when the relay went over to it.

Without such a proof the reader stops with an error. The relay fetches a missing file, or a file with a doubtful end,
again. That settles it.
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
from dm.sourcelog.relaylog import checked_file
from dm.sourcelog.relaylog.checked_file import CheckedFile
from dm.sourcelog.relaylog.index import ANY_SIZE, FileIndex, read_index, read_seal, write_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, base_name, file_number
from dm.sourcelog.relaylog.scan import EventFile, Scan, scan


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
    given_up = checked_file.lost(sub, name)
    if given_up is not None:
        return DMError("relay-file-lost", file=name, offset=0, what=what, why=given_up.lost)
    checked_file.report(sub, name, 0, what)
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
        if found.size >= offset:
            checked_file.report(sub, name, found.stopped, found.what)
            raise DMError("relay-file-corrupt", file=name, offset=found.stopped, what=found.what)
        return GtidSet.empty(flavor)  # the relay has not got as far: the part in between is unknown
    return found.index.gtids


_CLOSING = frozenset({EventType.ROTATE, EventType.STOP})


def continues(sub: SubDirectory, file: str, next_sub: SubDirectory, next_file: str) -> bool:
    """Whether `next_file` begins where `file` ended, which was read to its end; False until it says so.

    Raises DMError when it does not, or when nothing can prove that it does.
    """
    index = read_index(sub.idx(file), ANY_SIZE)
    if _is_next(sub, file, index, next_sub, next_file):
        return True
    with CheckedFile(next_sub, next_file, MAGIC_SIZE) as beginning:
        beginning.read(MAGIC_SIZE)  # damage there must not look like a part that is not written yet
    before = gtids_before_file(next_sub, next_file)
    if before is None:
        return False
    found = scan(sub.file(file), sub.idx(file), sub.flavor, trust=True)
    if found is not None and follows(sub, file, found, next_sub, next_file, before):
        return True
    if found is not None and sub == next_sub and next_file == _successor(file):
        # No file is missing between the two, but nothing proves the end of this one.
        checked_file.report(sub, file, found.stopped, "its end can't be proven")
        raise DMError("relay-file-corrupt", file=file, offset=found.stopped, what="its end can't be proven")
    missing = (index.next_file if index is not None else "") or _successor(file)
    if sub == next_sub and checked_file.lost(sub, missing) is None:
        checked_file.report(sub, missing, 0, "it is missing")
        raise DMError("relay-file-corrupt", file=missing, offset=0, what="it is missing")
    raise DMError("relay-gap", file=file, next=next_file)


def _is_next(sub: SubDirectory, file: str, index: FileIndex | None, next_sub: SubDirectory, next_file: str) -> bool:
    """Whether the index of a file that is final names the next one."""
    if index is None or not index.final or sub.server_uuid != next_sub.server_uuid:
        return False
    return next_file == (index.next_file or (_successor(file) if sub == next_sub else ""))


def proven(sub: SubDirectory, file: str, next_sub: SubDirectory, next_file: str) -> bool | None:
    """The same for whoever only asks: no damage is reported; None until `next_file` says what precedes it."""
    if _is_next(sub, file, read_index(sub.idx(file), ANY_SIZE), next_sub, next_file):
        return True
    before = gtids_before_file(next_sub, next_file)
    if before is None:
        return None
    found = scan(sub.file(file), sub.idx(file), sub.flavor, trust=True)
    return found is not None and follows(sub, file, found, next_sub, next_file, before)


def end_is_proven(directory: RelayDirectory, sub: SubDirectory, file: str, found: Scan) -> bool:
    """Whether a scanned file is known to be complete; the newest one is, whatever it has."""
    names = sub.files()
    later = [name for name in names if file_number(name) > file_number(file)]
    if not later:
        return directory.last() == sub or not found.what
    return follows(sub, file, found, sub, later[0], gtids_before_file(sub, later[0]))


def follows(
    sub: SubDirectory, file: str, found: Scan, next_sub: SubDirectory, next_file: str, before: GtidSet | None
) -> bool:
    """Whether a file's bytes and the beginning of the next file prove that nothing is missing between them."""
    index = found.index
    if before is None or found.what or found.stopped != index.complete:
        return False
    if sub.server_uuid != next_sub.server_uuid or base_name(file) != base_name(next_file):
        return bool(index.gtids) and index.gtids.reaches_into(before)
    if file_number(next_file) == file_number(file) + 1:
        return _closed_in_order(sub, file, found)
    # A later sub-directory of the same server that begins with a file which the relay had: nothing is left out.
    return sub != next_sub and file_number(next_file) <= file_number(file)


def _closed_in_order(sub: SubDirectory, file: str, found: Scan) -> bool:
    if found.index.final:
        return True
    if not found.last_kind:  # its index covers all of it, so no event was read
        whole = scan(sub.file(file), None, found.index.flavor, trust=True)
        return whole is not None and whole.stopped == found.stopped and whole.last_kind in _CLOSING
    return found.last_kind in _CLOSING


def _successor(file: str) -> str:
    base, _, number = file.rpartition(".")
    return f"{base}.{int(number) + 1:06d}"
