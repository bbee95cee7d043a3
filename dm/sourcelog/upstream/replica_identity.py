"""Our identity when we register as a replica.

When a replica registers, both servers end an older dump of the same replica: MySQL identifies it by uuid, MariaDB by
server id. So the identity is computed from what we are (this relay, or this task on this source), never drawn at
random. A restarted process replaces its own zombie, and two different readers never collide.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Collection
from dataclasses import dataclass

_NAMESPACE = uuid.UUID("5b0c6f2e-0d4f-5b59-9a3c-7d1f0a0b6d6d")
_FIRST = 429_496_729  # DM's own range of replica ids starts here; real servers usually have lower ids
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
        # Two installations with different server ids on one source must differ for MySQL, too.
        return ReplicaIdentity(server_id, str(uuid.uuid5(_NAMESPACE, f"{key}\0{server_id}")))
    own = str(uuid.uuid5(_NAMESPACE, key))
    candidate = _FIRST + zlib.crc32(key.encode()) % _SPAN
    while candidate in taken:
        candidate += 1
    return ReplicaIdentity(candidate, own)
