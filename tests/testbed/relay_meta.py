"""What a relay.meta says, for tests of who writes it."""

from __future__ import annotations

import tomllib
from pathlib import Path

from dm.gtid import GtidSet
from dm.position import Position


def read_meta(path: Path, server_uuid: str) -> Position:
    """The position in the file."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return Position(
        server_uuid,
        str(found["binlog-name"]),
        int(found["binlog-pos"]),
        GtidSet.parse(str(found.get("binlog-gtid", ""))),
    )
