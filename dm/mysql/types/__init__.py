"""Column types: one file per family says all that is particular to its types."""

from dm.mysql.types.family import ColumnType, DataType, TypedColumn
from dm.mysql.types.registry import column_type, has_type, is_known, read_type

__all__ = ["ColumnType", "DataType", "TypedColumn", "column_type", "has_type", "is_known", "read_type"]
