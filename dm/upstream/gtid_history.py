"""The GTID set at a file and offset that were configured without one."""

from __future__ import annotations

from dm.binlog.gtid_history import empty_history
from dm.binlog.header import EventType
from dm.config.endpoint import Endpoint
from dm.flavor import Flavor
from dm.gtid import GtidSet
from dm.upstream.connection import connect, fetch
from dm.upstream.dump_stream import DumpStream
from dm.upstream.replica_identity import ReplicaIdentity
from dm.upstream.stream_position import StreamPosition

_HEARTBEATS = frozenset({EventType.HEARTBEAT, EventType.HEARTBEAT_V2})
_LEADING = frozenset({EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS})


def gtids_before(endpoint: Endpoint, identity: ReplicaIdentity, file: str, offset: int, flavor: Flavor) -> GtidSet:
    """Everything complete before this offset: MariaDB is asked; on MySQL the file is read up to there."""
    if flavor == "mariadb":
        connection = connect(endpoint)
        try:
            found = fetch(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (file, offset))[0][0]
        finally:
            connection.close()
        return GtidSet.parse(str(found or ""), "mariadb")
    history = empty_history(flavor)
    place = StreamPosition()
    with DumpStream(endpoint, identity, (file, 4)) as stream:
        for batch in stream.batches():
            for event in batch:
                in_file = place.advance(event)
                leading = event[4] in _LEADING
                # A heartbeat, or another file's name: this file has no more events.
                if place.file != file or event[4] in _HEARTBEATS:
                    return history.gtid_set
                if not in_file:
                    continue
                if place.offset > offset and not leading:
                    return history.gtid_set
                history.feed(event)
                if place.offset >= offset and not leading:
                    return history.gtid_set
    return history.gtid_set
