"""How far a relay's files go on after a place without a gap: asked before a task starts, so nothing is changed."""

from __future__ import annotations

from pathlib import Path

from dm.errors import DMError
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.relaylog.continuity import proven
from dm.sourcelog.relaylog.file_reader import following
from dm.sourcelog.relaylog.index import ANY_SIZE, read_index
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.relaylog.scan import scan


def unbroken_end(directory: Path, flavor: Flavor, start: Position) -> Position | None:
    """The end of what the relay has from `start` on; None where it has nothing of that yet.

    The next file's name stands in for the end of a file that is closed. Raises DMError `relay-gap`, or
    `relay-file-missing` where the relay begins after the start.
    """
    place = RelayEventSource(directory, flavor).place(start)
    if place is None:
        return None
    sub, file = place.sub, place.file
    while (after := following(RelayDirectory(directory), sub, file)) is not None:
        verdict = proven(sub, file, after.sub, after.file)
        if verdict is None:
            break  # the next file has not begun
        if not verdict:
            raise DMError("relay-gap", file=file, next=after.file)
        sub, file = after.sub, after.file
    index = read_index(sub.idx(file), ANY_SIZE)
    if index is None or not index.final:
        found = scan(sub.file(file), sub.idx(file), flavor, trust=True)
        index = index if found is None else found.index
    if index is None:
        return Position(sub.server_uuid, file)
    if index.final and index.next_file:
        return Position(sub.server_uuid, index.next_file, gtid_set=index.gtids)
    return Position(sub.server_uuid, file, index.complete, index.gtids)
