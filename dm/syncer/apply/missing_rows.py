"""Rows that an UPDATE or DELETE did not find while the task file says to continue: counted, shown and logged."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence

from dm.changes.row_change import RowChange
from dm.changes.statement import key_of, operation_of
from dm.ident import TableName
from dm.position import Position
from dm.unit import JSON

_LOG = logging.getLogger(__name__)


class MissingRows:
    """The counters of one run; any lane adds to them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: Counter[TableName] = Counter()
        self._last = ""

    def add(self, changes: Sequence[RowChange], end: Position) -> None:
        """Count changes of one committed target transaction; `end` is that of its last source transaction."""
        if not changes:
            return
        change = changes[-1]
        last = f"{operation_of(change)} on {change.plan.target}: {key_of(change)}, at or before {end}"
        with self._lock:
            self._tables.update(change.plan.target for change in changes)
            self._last = last
        _LOG.warning("%d changes found no row at the target (`missing-row: count`); the last: %s", len(changes), last)

    @property
    def total(self) -> int:
        """All counts of this run."""
        with self._lock:
            return sum(self._tables.values())

    @property
    def report(self) -> dict[str, JSON]:
        """The fields of `query-status`."""
        with self._lock:
            tables: dict[str, JSON] = {str(table): count for table, count in sorted(self._tables.items())}
            return {"missingRows": sum(self._tables.values()), "missingRowTables": tables, "lastMissingRow": self._last}
