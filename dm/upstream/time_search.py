"""The place in a server's binlog where a time begins.

The first event of a file says when the file was created, so the file is found by binary search with one short dump
each; then this file is read until the time has come. Nothing is written there in between that is older, since files
follow each other in time.
"""

from __future__ import annotations

from bisect import bisect_left

from dm.binlog.header import EventType
from dm.binlog.time_boundary import TimeBoundary
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import MAGIC_SIZE, Position, TimePlace
from dm.upstream.connection import connect
from dm.upstream.dump_stream import DumpStream
from dm.upstream.facts import binlog_end, binlog_files, read_facts
from dm.upstream.gtid_history import gtids_before
from dm.upstream.replica_identity import ReplicaIdentity
from dm.upstream.stream_position import StreamPosition


def find_time(endpoint: Endpoint, identity: ReplicaIdentity, time: int) -> TimePlace | None:
    """The place of a time, in seconds since the epoch; None when nothing there is as late."""
    connection = connect(endpoint)
    try:
        facts = read_facts(connection)
        files = [name for name, _ in binlog_files(connection)]
        end = binlog_end(connection, facts, exact=False)
    finally:
        connection.close()
    # The last file that was created before the time: a file of the same second may follow transactions of that second.
    number = bisect_left(range(len(files)), time, key=lambda one: _created(endpoint, identity, files[one]))
    start = files[max(0, number - 1)]
    found = _behind_older(endpoint, identity, start, end, time)
    if found is None:
        return None
    gtid_set = GtidSet.empty(facts.flavor)
    if facts.gtid_mode:
        gtid_set = gtids_before(endpoint, identity, found.file, found.offset, facts.flavor)
    return TimePlace(Position(facts.server_uuid, found.file, found.offset, gtid_set), found.older or number > 1)


def _created(endpoint: Endpoint, identity: ReplicaIdentity, file: str) -> int:
    with DumpStream(endpoint, identity, (file, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if event[4] == EventType.FORMAT_DESCRIPTION:
                    return int.from_bytes(event[:4], "little")
    raise DMError("internal-error", what="a dump stream ended without a word")


def _behind_older(
    endpoint: Endpoint, identity: ReplicaIdentity, start: str, end: Position, time: int
) -> TimeBoundary | None:
    """Behind the last older transaction; None at the end of the binlog."""
    place, boundary = StreamPosition(), TimeBoundary(time, start, MAGIC_SIZE)
    with DumpStream(endpoint, identity, (start, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if place.advance(event) and boundary.reaches(event, place.file, place.offset):
                    return boundary
                if Position(end.server_uuid, place.file, place.offset).order >= end.order:
                    return None
    raise DMError("internal-error", what="a dump stream ended without a word")
