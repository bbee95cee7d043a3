"""VECTOR: an array of floats, of four bytes each.

Nobody but the server says which vectors are the same: its rows are compared by their bytes. MySQL's row events have a
code of its own for it, MariaDB's have a binary string.
"""

from __future__ import annotations

from typing import Final

from dm.mysql.binlog.table_map import WireForm
from dm.mysql.binlog.wire_type import WireCode
from dm.mysql.sql.cursor import Cursor
from dm.mysql.types.family import ColumnType, DataType, TypeFamily, length_of, written_length

_DIMENSIONS: Final = 2048  # where none are written (Reference Manual, "The VECTOR Type")


def _read(cursor: Cursor, word: str) -> DataType:
    return DataType("vector", length_of(cursor) or _DIMENSIONS)


VECTOR: Final = ColumnType(
    name="vector",
    wire=WireForm((WireCode.VECTOR, WireCode.VARCHAR, WireCode.BLOB)),
    parameters=written_length,
    outside=True,
    large=True,
)
FAMILY: Final = TypeFamily((VECTOR,), {"VECTOR": _read})
