"""Which columns of a table appear in its row events.

Measured on both servers (MySQL 9.7, MariaDB 10.11): generated columns do, including virtual ones, and so do invisible
ones, including MySQL's generated primary key. MySQL's columns for functional indexes do not. MariaDB's columns for the
hash of a UNIQUE that is too long for an index do, at the end, one for each such index.
"""

from __future__ import annotations

from typing import Final

from dm.flavor import Flavor
from dm.schema.charset import bytes_per_character
from dm.schema.table import Column, Index, TableSchema
from dm.type_family import BLOB_BYTES, GEOMETRIES, LONG_TEXT_BYTES, MEMBERED

# A name that no target column has: for the column map it means that there is nothing to copy.
_HIDDEN: Final = "!hidden!DB_ROW_HASH_"
_LARGEST_KEY: Final = 3072  # bytes of an InnoDB index entry (row formats DYNAMIC and COMPRESSED)
# A POINT has a key length: its 25 bytes.
_WITHOUT_LIMIT: Final = (frozenset(LONG_TEXT_BYTES) | frozenset(BLOB_BYTES) | GEOMETRIES) - {"point"}
_HASH_ENGINES: Final = frozenset({"memory", "heap"})


def _too_long(index: Index, schema: TableSchema) -> bool:
    size = 0
    for part in index.parts:
        column = schema.column(part.column or "")
        if column is None:
            continue
        if part.prefix is None and column.base in _WITHOUT_LIMIT:
            return True
        characters = part.prefix or column.length or 0
        if column.charset is not None and column.base not in MEMBERED:
            size += characters * bytes_per_character(column.charset)
        elif column.base in ("binary", "varbinary"):
            size += characters
    return size > _LARGEST_KEY


def wire_columns(schema: TableSchema, flavor: Flavor) -> tuple[Column, ...]:
    """The columns of a table map, in its order."""
    if flavor != "mariadb" or (schema.engine or "").lower() in _HASH_ENGINES:
        return schema.columns
    hashed = [index for index in schema.indexes if index.kind == "unique" and (index.hash or _too_long(index, schema))]
    return schema.columns + tuple(
        Column(f"{_HIDDEN}{number + 1}", "bigint", unsigned=True, generated="virtual", invisible=True)
        for number in range(len(hashed))
    )
