"""Column types: one file per family says all that is particular to its types."""

from dm.mysql.types.family import ColumnType, DataType, TypedColumn
from dm.mysql.types.registry import (
    column_type,
    defines_moment,
    has_type,
    is_known,
    printed_type,
    read_name,
    read_type,
)

__all__ = [
    "ColumnType", "DataType", "TypedColumn", "column_type", "defines_moment", "has_type", "is_known", "printed_type",
    "read_name", "read_type",
]  # fmt: skip
