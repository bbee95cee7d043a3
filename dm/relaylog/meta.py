"""relay.meta: where the relay is, in DM's form.

It is written for people and for tools that know DM's directories. The relay itself trusts only its files: a meta that
is lost, old or ahead is rebuilt from them.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.gtid import GtidFormatError, GtidSet
from dm.position import Position


def write_meta(path: Path, position: Position) -> None:
    """Replace the file."""
    # JSON strings of these characters are TOML basic strings too.
    text = (
        f"binlog-name = {json.dumps(position.file)}\n"
        f"binlog-pos = {position.offset}\n"
        f"binlog-gtid = {json.dumps(str(position.gtid_set))}\n"
    )
    write_atomically(path, text.encode(), durable=False)


def read_meta(path: Path, server_uuid: str) -> Position | None:
    """What the file says, or None when there is none or it is not a meta file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        return Position(
            server_uuid,
            str(found["binlog-name"]),
            int(found["binlog-pos"]),
            GtidSet.parse(str(found.get("binlog-gtid", ""))),
        )
    except (FileNotFoundError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError, ValueError, GtidFormatError):
        return None
