"""Which columns of a table appear in its row events."""

from __future__ import annotations

from dm.schema.table import Column, TableSchema
from dm.sql.context import Flavor


def wire_columns(schema: TableSchema, flavor: Flavor) -> tuple[Column, ...]:
    """The columns of a table map, in its order."""
    del flavor
    return schema.columns
