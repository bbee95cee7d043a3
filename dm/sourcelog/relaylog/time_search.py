"""The place in a relay's files where a time begins.

The indexes locate the file: each has the time of its latest transaction, so of hundreds of files only one is opened.
Its marks lead close to the place. The times are commit times in seconds, by the source's clock. So the place is only
"about then".

Times go back if a session sets its clock (`mysqlbinlog | mysql` does). So one transaction's time proves nothing: only a
part known to hold no transaction of this time or later is skipped. A file is read if its index does not tell.
"""

from __future__ import annotations

from dm.errors import DMError
from dm.mysql.binlog.gtid_history import format_has_checksum
from dm.mysql.binlog.time_boundary import TimeBoundary
from dm.mysql.dialect import Flavor
from dm.position import MAGIC_SIZE, Position, TimePlace
from dm.sourcelog.relaylog.event_file import EventFile
from dm.sourcelog.relaylog.index import ANY_SIZE, FileIndex, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory
from dm.sourcelog.relaylog.recovery import gtids_at
from dm.sourcelog.relaylog.scan import wrong


def find_time(directory: RelayDirectory, flavor: Flavor, time: int) -> TimePlace | None:
    """The place of a time, in seconds since the epoch; None when nothing stored is as late."""
    files = [(sub, name) for sub in directory.sub_directories() for name in sub.files()]
    for number, (sub, name) in enumerate(files):
        if number < len(files) - 1 and _all_older(sub, name, time):
            continue
        found = _in_file(sub, name, time)
        if found is not None:
            offset, older = found
            position = Position(sub.server_uuid, name, offset, gtids_at(sub, name, offset, flavor))
            return TimePlace(position, older or number > 0)
    return None


def _all_older(sub: SubDirectory, name: str, time: int) -> bool:
    """Whether a closed file's index says so."""
    size = sub.file(name).stat().st_size
    index = read_index(sub.idx(name), size)
    return index is not None and index.complete == size and _knows_times(index) and index.latest_time < time


def _knows_times(index: FileIndex) -> bool:
    return index.latest_time > 0 or not index.transactions


def _in_file(sub: SubDirectory, name: str, time: int) -> tuple[int, bool] | None:
    """The offset after the last transaction before the first of this time or later, and whether there is one."""
    with EventFile(sub.file(name)) as file:
        first = file.first_event()
        if first is None:
            return None
        index = read_index(sub.idx(name), ANY_SIZE, int.from_bytes(first[:4], "little"))
        checksum = format_has_checksum(first) if index is None else index.checksum
        known = [] if index is None or not _knows_times(index) else index.marks
        marks = [offset for offset, latest in known if latest < time and offset <= file.size]
        offset = marks[-1] if marks else MAGIC_SIZE
        boundary = TimeBoundary(time, name, offset, checksum=checksum)
        while events := file.read(offset):
            for event in events:
                offset += len(event)
                if fault := wrong(event, offset, checksum):
                    raise DMError("relay-file-corrupt", file=name, offset=offset - len(event), what=fault)
                if boundary.reaches(event, name, offset):
                    return boundary.offset, boundary.older or bool(marks)
    return None
