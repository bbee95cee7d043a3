"""The rows that expression filters keep of a part of a transaction, asked for together.

A filter that the target evaluates costs a round trip. A transaction of many small statements has as many row events. So
one question covers all alike events of the part: the same table, kind and second. Their rows are kept until their turn,
so the lanes get them in the source's order.
"""

from __future__ import annotations

from collections.abc import Sequence

from dm.binlog.decode import RowPair
from dm.syncer.apply.source_table import SourceTable
from dm.syncer.stream.transaction import RowsItem, SourceTransaction


class FilteredRows:
    """For one part at a time; belongs to the dispatcher."""

    def __init__(self) -> None:
        self._items: Sequence[RowsItem] = ()
        self._known: dict[int, tuple[SourceTable, list[RowPair]]] = {}  # by the number of the event

    def begin(self, items: Sequence[RowsItem]) -> None:
        """Start another part."""
        self._items = items
        self._known.clear()

    def pairs(self, at: int, table: SourceTable, transaction: SourceTransaction, *, safe: bool) -> list[RowPair]:
        """The rows of an event before and after, without those filtered out; raises DMError."""
        row_filter = table.row_filter
        if row_filter is None or not row_filter.asks:
            return table.wanted(self._items[at : at + 1], transaction, safe=safe)[0]
        owner, pairs = self._known.pop(at, (None, []))
        if owner is table:
            return pairs
        # Unknown so far, or the table was learned again in between.
        alike = [at, *self._alike(at)]
        wanted = table.wanted([self._items[number] for number in alike], transaction, safe=safe)
        for number, kept in zip(alike[1:], wanted[1:], strict=True):
            self._known[number] = (table, kept)
        return wanted[0]

    def _alike(self, at: int) -> list[int]:
        table_map, rows = self._items[at]
        return [
            number
            for number, item in enumerate(self._items[at + 1 :], at + 1)
            if item.table_map is table_map and item.rows.kind == rows.kind and item.rows.timestamp == rows.timestamp
        ]
