"""A time as a default value: the session's time zone decides which moment a literal of a TIMESTAMP column means.

Structures are read from servers in UTC, so equal spellings are equal moments. A literal written in another zone is kept
with the word TIMESTAMP in front, a form that no server prints. In comparisons of structures it counts as the same
default as any other literal. It is never the value of another server's literal.
"""

from __future__ import annotations

from dataclasses import replace

from dm.schema.table import Column
from dm.sql.context import SourceContext

_ZERO = "'0000-00-00"  # is no moment


def with_its_zone(column: Column, context: SourceContext) -> Column:
    """The column, with its default marked unless it was written in UTC."""
    text = column.default
    if context.in_utc or column.base != "timestamp" or text is None or text[:1] not in "'\"" or text.startswith(_ZERO):
        return column
    return replace(column, default=f"TIMESTAMP{text}")
