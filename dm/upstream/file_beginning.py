"""The beginning of a binlog file at the server, which tells two files of one name apart."""

from __future__ import annotations

from dm.binlog.header import EventType
from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.position import MAGIC_SIZE
from dm.upstream.dump_stream import DumpStream
from dm.upstream.replica_identity import ReplicaIdentity


def created_in(event: bytes) -> int:
    """The timestamp of a format description, in seconds."""
    return int.from_bytes(event[:4], "little")


def creation_time(endpoint: Endpoint, identity: ReplicaIdentity, file: str) -> int:
    """The second in which the server began the file, from its format description; raises DMError."""
    with DumpStream(endpoint, identity, (file, MAGIC_SIZE)) as stream:
        for batch in stream.batches():
            for event in batch:
                if event[4] == EventType.FORMAT_DESCRIPTION:
                    return created_in(event)
    raise DMError("internal-error", what="a dump stream ended without a word")
