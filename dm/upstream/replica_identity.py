"""Who we say we are when we register as a replica.

Both servers end an older dump of the same replica when a new one registers: MySQL by the replica's uuid, MariaDB by its
server id. So the identity is computed from what we are (this relay, or this task on this source) and never drawn at
random: a restarted process takes the place of its own zombie, and two different readers never take each other's.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection
from dataclasses import dataclass

_NAMESPACE = uuid.UUID("5b0c6f2e-0d4f-5b59-9a3c-7d1f0a0b6d6d")
_FIRST = 429_496_729  # where DM's own range of replica ids starts; below is what people use for real servers
_SPAN = 3_000_000_000


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """The server id and the uuid of one reader of one source."""

    server_id: int
    uuid: str


def identity_for(purpose: str, source_id: str, *, server_id: int = 0, taken: Collection[int] = ()) -> ReplicaIdentity:
    """The identity of `purpose` ("relay" or a task's name) at a source; `server_id` overrides, `taken` is avoided."""
    key = f"{purpose}\0{source_id}"
    if server_id:
        # Two installations on one source that are told apart by their server id must differ for MySQL, too.
        return ReplicaIdentity(server_id, str(uuid.uuid5(_NAMESPACE, f"{key}\0{server_id}")))
    own = str(uuid.uuid5(_NAMESPACE, key))
    candidate = _FIRST + zlib.crc32(key.encode()) % _SPAN
    while candidate in taken:
        candidate += 1
    return ReplicaIdentity(candidate, own)
