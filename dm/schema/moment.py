"""A moment as a default value: which one a literal of a TIMESTAMP column means, its session's time zone decides.

Structures that a server tells were asked for in UTC, so their literals agree where they are spelled alike. One that was
written in another zone is kept under the word TIMESTAMP, as what nobody spells: it is the same default as any other
literal when structures are compared, and never the value that another server's literal gives.
"""

from __future__ import annotations

from dataclasses import replace

from dm.schema.table import Column
from dm.sql.context import SourceContext

_ZERO = "'0000-00-00"  # is no moment


def with_its_zone(column: Column, context: SourceContext) -> Column:
    """The column, its default told apart from one that was written in UTC."""
    text = column.default
    if context.in_utc or column.base != "timestamp" or text is None or text[:1] not in "'\"" or text.startswith(_ZERO):
        return column
    return replace(column, default=f"TIMESTAMP{text}")
