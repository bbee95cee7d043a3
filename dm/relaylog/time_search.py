"""The place in a relay's files where a time begins.

Files are found by their indexes: binary search over the time of each file's last transaction, so of hundreds of files
only the one that holds the place is opened. In it the marks lead close to the place. The times are those of commits,
in seconds and as the source's clock went, which is why the place is "about then" and not more.
"""

from __future__ import annotations

from bisect import bisect_left

from dm.binlog.time_boundary import TimeBoundary
from dm.errors import DMError
from dm.gtid import Flavor
from dm.position import MAGIC_SIZE, Position, TimePlace
from dm.relaylog.event_file import EventFile
from dm.relaylog.index import ANY_SIZE, FileIndex, read_index
from dm.relaylog.layout import RelayDirectory, SubDirectory
from dm.relaylog.recovery import gtids_at
from dm.relaylog.scan import scan, wrong

_NEVER = 1 << 62  # later than any time


def find_time(directory: RelayDirectory, flavor: Flavor, time: int) -> TimePlace | None:
    """The place of a time, in seconds since the epoch; None when nothing stored is as late."""
    files = [(sub, name) for sub in directory.sub_directories() for name in sub.files()]
    newest = len(files) - 1

    def last_time(number: int) -> int:
        sub, name = files[number]
        return _NEVER if number == newest else _last_time(sub, name, flavor)

    for number in range(bisect_left(range(len(files)), time, key=last_time), len(files)):
        found = _in_file(*files[number], flavor, time)
        if found is not None:
            offset, older = found
            sub, name = files[number]
            position = Position(sub.server_uuid, name, offset, gtids_at(sub, name, offset, flavor))
            return TimePlace(position, older or number > 0)
    return None


def _last_time(sub: SubDirectory, name: str, flavor: Flavor) -> int:
    """The time of a closed file's last transaction, or of its creation when it has none."""
    index = read_index(sub.idx(name), sub.file(name).stat().st_size)
    if index is None:
        found = scan(sub.file(name), sub.idx(name), flavor, trust=True)
        index = FileIndex() if found is None else found.index
    return index.last_time or index.created


def _in_file(sub: SubDirectory, name: str, flavor: Flavor, time: int) -> tuple[int, bool] | None:
    """The offset behind the last transaction before the first one of this time or later, and whether there is any."""
    with EventFile(sub.file(name)) as file:
        first = file.first_event()
        if first is None:
            return None
        index = read_index(sub.idx(name), ANY_SIZE, int.from_bytes(first[:4], "little")) or FileIndex(flavor=flavor)
        marks = [offset for offset, marked in index.marks if marked < time and offset <= file.size]
        offset = marks[-1] if marks else MAGIC_SIZE
        boundary = TimeBoundary(time, name, offset, checksum=index.checksum)
        while events := file.read(offset):
            for event in events:
                offset += len(event)
                if fault := wrong(event, offset, index.checksum):
                    raise DMError("relay-file-corrupt", file=name, offset=offset - len(event), what=fault)
                if boundary.reaches(event, name, offset):
                    return boundary.offset, boundary.older or bool(marks)
    return None
