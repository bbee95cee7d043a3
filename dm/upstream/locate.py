"""Where a server's binlog continues after a GTID set."""

from __future__ import annotations

from dm.binlog.event_end import has_checksum
from dm.binlog.header import CHECKSUM_SIZE, HEADER, HEADER_SIZE, EventType
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.upstream.dump_stream import DumpStream
from dm.upstream.facts import ServerFacts
from dm.upstream.replica_identity import ReplicaIdentity
from dm.upstream.stream_position import StreamPosition

_HEARTBEAT_SECONDS = 1.0


def locate(facts: ServerFacts, endpoint: Endpoint, identity: ReplicaIdentity, gtid_set: GtidSet) -> Position:
    """The start of the file with the first transaction the set lacks; the server finds and names it."""
    place = StreamPosition()
    with DumpStream(endpoint, identity, gtid_set) as stream:
        for batch in stream.batches():
            for event in batch:
                place.advance(event)
                if event[4] == EventType.ROTATE and place.file:
                    return Position(facts.server_uuid, place.file, MAGIC_SIZE, gtid_set)
    raise DMError("internal-error", what="a dump stream ended without a word")


def place_behind(facts: ServerFacts, endpoint: Endpoint, identity: ReplicaIdentity, gtid_set: GtidSet) -> Position:
    """The exact place after the last transaction of a MariaDB set of one domain, which the server finds itself.

    The first event it sends begins there; a heartbeat says that nothing follows it yet.
    """
    place = StreamPosition()
    with DumpStream(endpoint, identity, gtid_set, heartbeat_seconds=_HEARTBEAT_SECONDS) as stream:
        for batch in stream.batches():
            for event in batch:
                in_file = place.advance(event)
                if in_file and event[4] == EventType.MARIADB_GTID:
                    return Position(facts.server_uuid, place.file, place.offset - len(event), gtid_set)
                if event[4] == EventType.HEARTBEAT:
                    name = event[HEADER_SIZE : -CHECKSUM_SIZE if has_checksum(event) else None].decode()
                    return Position(facts.server_uuid, name, HEADER.unpack_from(event)[4], gtid_set)
    raise DMError("internal-error", what="a dump stream ended without a word")
