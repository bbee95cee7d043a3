"""What the source's sessions begin with, as far as the values of expressions depend on it."""

from __future__ import annotations

from dm.changes.computing import VARIABLES, SourceSettings
from dm.sql.zone_offsets import offset_named, offsets_of, offsets_question
from dm.upstream.connection import Connection, fetch


def read_source_settings(connection: Connection) -> SourceSettings:
    """Ask the server for its global settings; raises DMError."""
    names = ", ".join(f"'{name}'" for name in VARIABLES)
    rows = fetch(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    found = {str(name).lower(): str(value) for name, value in rows}
    zone, modes = found.pop("time_zone"), found.pop("sql_mode", "")
    offsets = offset_named(zone) or offsets_of(fetch(connection, offsets_question("@@GLOBAL.time_zone")))
    return SourceSettings(zone, offsets, tuple(mode for mode in modes.upper().split(",") if mode), found)
