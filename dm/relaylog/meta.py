"""relay.meta: the relay's position, in DM's form.

It is written for people and for tools that know DM's directories. The relay itself trusts only its files: it rebuilds a
meta that is lost, old or ahead.
"""

from __future__ import annotations

import json
from pathlib import Path

from dm.atomic_file import write_atomically
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
