"""Whether one relay file continues another.

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

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.header import EventType
from dm.position import MAGIC_SIZE
from dm.sourcelog.relaylog import damage
from dm.sourcelog.relaylog.checked_file import CheckedFile
from dm.sourcelog.relaylog.index import ANY_SIZE, FileIndex, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, base_name, file_number
from dm.sourcelog.relaylog.recovery import gtids_before_file
from dm.sourcelog.relaylog.scan import Scan, scan

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
    found = scan(sub.file(file), sub.idx(file), "mariadb" if sub.is_mariadb else "mysql", trust=True)
    if found is not None and follows(sub, file, found, next_sub, next_file, before):
        return True
    if found is not None and sub == next_sub and next_file == _successor(file):
        # No file is missing between the two, but nothing proves the end of this one.
        damage.report(sub, file, found.stopped, "its end can't be proven")
        raise DMError("relay-file-corrupt", file=file, offset=found.stopped, what="its end can't be proven")
    missing = (index.next_file if index is not None else "") or _successor(file)
    if sub == next_sub and damage.lost(sub, missing) is None:
        damage.report(sub, missing, 0, "it is missing")
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
    found = scan(sub.file(file), sub.idx(file), "mariadb" if sub.is_mariadb else "mysql", trust=True)
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
