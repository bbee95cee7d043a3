"""One transaction of the source, as the assembler hands it on: raw row events, not yet decoded."""

from __future__ import annotations

from dataclasses import dataclass, field

from dm.binlog.reader import Query, Rows, TableMap
from dm.gtid import Gtid
from dm.position import Position


@dataclass(slots=True)
class RowsItem:
    """One row event with the table map it refers to."""

    table_map: TableMap
    rows: Rows


@dataclass(slots=True)
class StatementItem:
    """One query event that is neither BEGIN nor an end: DDL, or something that needs no replication."""

    query: Query


@dataclass(slots=True)
class SourceTransaction:
    """What the source committed at once, or a mere movement of the position (no items)."""

    begin: Position
    end: Position
    gtid: Gtid | None
    timestamp: int  # the source's clock, seconds
    items: list[RowsItem | StatementItem] = field(default_factory=list)
    size: int = 0  # bytes of binlog

    @property
    def empty(self) -> bool:
        """Whether only the position moves."""
        return not self.items
