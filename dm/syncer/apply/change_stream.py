"""The keyless changes of one large source transaction, decoded part by part while they are applied.

They are one target transaction, because the lane's row records whole source transactions. So they can't be handed over
in parts as those of keyed tables can. Instead the lane gets their place and their decoder. If the target rolls the
transaction back, the lane reads them again from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from dm.changes.plan import TablePlan
from dm.changes.row_change import RowChange
from dm.sourcelog.stream.memory_quota import CHANGE_COST, DECODED_FACTOR, MemoryQuota
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction
from dm.syncer.apply.source_table import SourceTable

PART_COST = 2 << 20
_PART_SHARE = 4  # of the lanes' memory: a table whose rows are found by a hash is read once for each part


@dataclass(slots=True)
class OrderedRows:
    """The part of a transaction for the ordered lane: its changes, or their place when they are too many."""

    changes: list[RowChange] = field(default_factory=list)  # empty once they cost more than PART_COST
    cost: int = 0
    tables: dict[int, SourceTable] = field(default_factory=dict)  # by their table maps' ids
    begins: dict[int, int] = field(default_factory=dict)  # per table: its first row event in the ordered lane

    @property
    def too_many(self) -> bool:
        """Whether the lane has to decode them itself."""
        return self.cost >= PART_COST


def part_cost(plans: Iterable[TablePlan], memory: int) -> int:
    """How much memory a part may take, of that of the lanes: more only where a large part saves readings."""
    if any(plan.row_hash is not None and not plan.row_hash.refused for plan in plans):
        return max(PART_COST, memory // _PART_SHARE)
    return PART_COST


class ChangeStream:
    """Changes of the items between two numbers; `release` returns the items."""

    def __init__(
        self,
        transaction: SourceTransaction,
        between: tuple[int, int],
        rows: OrderedRows,
        memory: MemoryQuota,
        *,
        safe: bool,
    ) -> None:
        self._transaction = transaction
        self._items = transaction.items
        self._first, self._last = between
        self._tables = {key: table.for_another_thread() for key, table in rows.tables.items()}
        self._begins = dict(rows.begins)
        self._memory = memory
        self._safe = safe
        self._items.hold()

    def parts(self) -> Iterator[list[RowChange]]:
        """The changes in order, in lists of bounded size; each list is dropped when the next one is requested."""
        part: list[RowChange] = []
        cost = 0
        most = part_cost([table.plan for table in self._tables.values()], self._memory.total)
        rows = (item for item in islice(self._items, self._first, self._last) if isinstance(item, RowsItem))
        for number, item in enumerate(rows):
            table = self._tables.get(id(item.table_map))
            if table is None or not table.wanted_kinds[item.rows.kind] or number < self._begins[id(item.table_map)]:
                continue
            changes = table.ordered_changes(item, self._transaction, safe=self._safe)
            part += changes
            cost += DECODED_FACTOR * len(item.rows.data) + CHANGE_COST * len(changes)
            if cost >= most:
                yield from self._lent(part, cost)
                part, cost = [], 0
        if part:
            yield from self._lent(part, cost)

    def _lent(self, part: list[RowChange], cost: int) -> Iterator[list[RowChange]]:
        # Never waits: other lanes may hold all the memory and wait for this one to leave the gate.
        self._memory.force_acquire(cost)
        try:
            yield part
        finally:
            self._memory.release(cost)

    def release(self) -> None:
        """The changes are committed."""
        self._items.release()
