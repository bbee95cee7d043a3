"""The columns of a table as a server has them now: whether they are what was planned with.

A comparison under way reads values by the structure that it has found. After an ALTER the same query may give something
else: digits where there were none, members of another list.
"""

from __future__ import annotations

import hashlib

from dm.ident import TableName
from dm.upstream.connection import Connection, fetch

_COLUMNS = (
    "SELECT column_name, column_type, is_nullable, character_set_name, collation_name FROM information_schema.columns"
    " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)


def shape_of(connection: Connection, table: TableName) -> str:
    """What tells the columns from others; raises DMError."""
    known = hashlib.sha256()
    for row in fetch(connection, _COLUMNS, table):
        for value in row:
            known.update(value if isinstance(value, bytes) else str(value).encode())
            known.update(b"\0")
    return known.hexdigest()
