"""What a transaction asks before its first row event: does the server apply events as when the session began?

Variables of the whole server decide how, anybody may set them at any time, and they hold at once: MariaDB passes over
missing rows and duplicate keys by one, sends rows to another schema by another, and by a third both servers cut values
that do not fit. So each transaction asks, in the round trip of its events, and commits only if nothing has changed.
"""

from __future__ import annotations

from typing import Final

from dm.mysql.dialect import Flavor, dialect

GUARD: Final = b"SELECT 1 FROM DUAL WHERE @@GLOBAL."
"""What each such question begins with; its answer has one row."""

_MARIADB: Final = (
    b"slave_exec_mode = 'STRICT' AND @@GLOBAL.slave_type_conversions = '' AND @@GLOBAL.replicate_rewrite_db = ''"
)


def guard(flavor: Flavor, version: int) -> bytes:
    """The question to a server of this version."""
    server = dialect(flavor, version)
    if server.rewrites_schemas:
        return GUARD + _MARIADB
    return GUARD + (b"replica" if server.says_replica else b"slave") + b"_type_conversions = ''"
