"""The file of a server that holds the first transaction a GTID set lacks."""

from __future__ import annotations

from dm.binlog.header import EventType
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.upstream.dump_stream import DumpStream
from dm.upstream.facts import ServerFacts
from dm.upstream.replica_identity import ReplicaIdentity
from dm.upstream.stream_position import StreamPosition


def locate(facts: ServerFacts, endpoint: Endpoint, identity: ReplicaIdentity, gtid_set: GtidSet) -> Position:
    """The start of that file: the server finds it when asked for a dump by GTID, and names it first."""
    place = StreamPosition()
    with DumpStream(endpoint, identity, gtid_set) as stream:
        for batch in stream.batches():
            for event in batch:
                place.advance(event)
                if event[4] == EventType.ROTATE and place.file:
                    return Position(facts.server_uuid, place.file, MAGIC_SIZE, gtid_set)
    raise DMError("internal-error", what="a dump stream ended without a word")
