"""The place in a server's binlog where a time begins.

A binary search finds the file, with one short dump per step. Then the file is read until the time is reached. On MySQL
the first transaction of a file has its commit time, from a clock that no session sets; everything in earlier files was
committed earlier. On MariaDB and MySQL 5.7 there is only the file's first event, with the clock of the session that
began the file.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from dm.binlog.cursor import ByteCursor
from dm.binlog.event_end import has_checksum
from dm.binlog.header import CHECKSUM_SIZE, HEADER_SIZE, NOT_TRANSACTIONS, EventType
from dm.binlog.time_boundary import TimeBoundary
from dm.binlog.transaction import parse_gtid, parse_gtid_tagged
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

_GTIDS: Final = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED})
_NEVER: Final = 1 << 62  # later than any time


def find_time(endpoint: Endpoint, identity: ReplicaIdentity, time: int) -> TimePlace | None:
    """The place of a time, in seconds since the epoch; None if nothing there is as late."""
    connection = connect(endpoint)
    try:
        facts = read_facts(connection)
        files = [name for name, _ in binlog_files(connection)]
        end = binlog_end(connection, facts, exact=False)
    finally:
        connection.close()
    # The last file that began before the time: transactions of one second may be in two files.
    number = bisect_left(range(len(files)), time, key=lambda one: _began(endpoint, identity, files[one], end))
    start = files[max(0, number - 1)]
    found = _behind_older(endpoint, identity, start, end, time)
    if found is None:
        return None
    gtid_set = GtidSet.empty(facts.flavor)
    if facts.gtid_mode:
        gtid_set = gtids_before(endpoint, identity, found.file, found.offset, facts.flavor)
    return TimePlace(Position(facts.server_uuid, found.file, found.offset, gtid_set), found.older or number > 1)


def _began(endpoint: Endpoint, identity: ReplicaIdentity, file: str, end: Position) -> int:
    """No transaction of an earlier file is later; later than any time if nothing is written from this file on."""
    place, created = StreamPosition(), 0
    with DumpStream(endpoint, identity, (file, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if not place.advance(event):
                    continue
                if event[4] == EventType.FORMAT_DESCRIPTION:
                    created = created or int.from_bytes(event[:4], "little")
                elif event[4] in _GTIDS:
                    return _committed(event) or created
                elif event[4] not in NOT_TRANSACTIONS:
                    return created  # a transaction of MariaDB, or of MySQL 5.6
                if Position(end.server_uuid, place.file, place.offset).order >= end.order:
                    return _NEVER
    raise DMError("internal-error", what="a dump stream ended without a word")


def _committed(event: bytes) -> int:
    """The second of a transaction's commit at this server, by its GTID event; 0 if the event lacks it."""
    end = len(event) - (CHECKSUM_SIZE if has_checksum(event) else 0)
    if event[4] == EventType.GTID_TAGGED:
        found = parse_gtid_tagged(ByteCursor(event, HEADER_SIZE, end))
    else:
        found = parse_gtid(event, HEADER_SIZE, end, event[4] == EventType.ANONYMOUS_GTID)
    return (found.commit_timestamp_us or 0) // 1_000_000


def _behind_older(
    endpoint: Endpoint, identity: ReplicaIdentity, start: str, end: Position, time: int
) -> TimeBoundary | None:
    """The place after the last older transaction; None at the end of the binlog."""
    place, boundary = StreamPosition(), TimeBoundary(time, start, MAGIC_SIZE)
    with DumpStream(endpoint, identity, (start, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if place.advance(event) and boundary.reaches(event, place.file, place.offset):
                    return boundary
                if Position(end.server_uuid, place.file, place.offset).order >= end.order:
                    return None
    raise DMError("internal-error", what="a dump stream ended without a word")
