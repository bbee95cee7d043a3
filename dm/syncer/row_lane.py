"""The way of row events: table -> rules -> structure -> decode -> convert -> lanes.

All that depends only on the table and on its structure is worked out once per table map and kept until a DDL: whether
which kinds of events are wanted, the decoder, the plan of the conversion, the row filter.
"""

from __future__ import annotations

from dataclasses import dataclass

from dm.binlog.decode import RowDecoder, RowPair
from dm.binlog.reader import TableMap
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import ChangeKind, RowChange
from dm.changes.row_image import completed_images
from dm.errors import DMError
from dm.gtid import Flavor
from dm.ident import TableName
from dm.position import Position
from dm.rules.row_filter import RowFilter
from dm.rules.table_rules import RowEvent, TableRules
from dm.schema.wire import wire_columns
from dm.syncer.completion import Ticket
from dm.syncer.lanes import Lanes
from dm.syncer.safe_mode import SafeMode
from dm.syncer.structures import Structures
from dm.syncer.transaction import RowsItem, SourceTransaction
from dm.target.target_schema import TargetSchemas

_TABLES_KEPT = 8192
_KINDS: dict[RowEvent, ChangeKind] = {
    "insert": ChangeKind.INSERT,
    "update": ChangeKind.UPDATE,
    "delete": ChangeKind.DELETE,
}


@dataclass(slots=True)
class _Table:
    """What is known of one table map's table."""

    table_map: TableMap  # kept alive: its identity is the key
    decoder: RowDecoder
    plan: TablePlan
    wanted_kinds: dict[RowEvent, bool]
    row_filter: RowFilter | None
    point: Position | None


class RowLane:
    """Turns row events into placed changes."""

    def __init__(
        self,
        rules: TableRules,
        structures: Structures,
        targets: TargetSchemas,
        lanes: Lanes,
        safe_mode: SafeMode,
        *,
        flavor: Flavor,
        options: PlanOptions,
        points: dict[TableName, Position],
        keyless_done: Position | None,
    ) -> None:
        self._rules = rules
        self._structures = structures
        self._targets = targets
        self._lanes = lanes
        self._safe_mode = safe_mode
        self._flavor: Flavor = flavor
        self._options = options
        self.points = points
        self._keyless_done = keyless_done
        self._tables: dict[int, _Table] = {}
        self.skipped_keyless = 0

    def forget(self) -> None:
        """Drop everything derived from structures; called behind every DDL."""
        self._tables.clear()

    def take(self, items: list[RowsItem], ticket: Ticket, transaction: SourceTransaction) -> int:
        """Place all changes of these row events of one transaction; gives how many."""
        gtid, end = transaction.gtid, transaction.end
        safe = self._safe_mode.covers_change(transaction.begin)
        keyless: list[RowChange] = []
        given = 0
        for item in items:
            table = self._tables.get(id(item.table_map)) or self._learn(item.table_map, transaction)
            if table is None:
                continue
            kind = item.rows.kind
            if not table.wanted_kinds[kind] or (table.point is not None and table.point.has_processed(gtid, end)):
                continue
            plan = table.plan
            for before, after in self._decoded(table, item, transaction, safe=safe):
                if table.row_filter is not None and table.row_filter(kind, before, after):
                    continue
                change = RowChange(plan, _KINDS[kind], before, after, safe and plan.keyed)
                if plan.keyed:
                    self._lanes.place(change, ticket, end)
                    given += 1
                else:
                    keyless.append(change)
        self._lanes.hand_over(ticket, end)
        if safe:
            self._safe_mode.rows += given
        if keyless:
            given += self._place_keyless(keyless, ticket, transaction)
        return given

    def _decoded(self, table: _Table, item: RowsItem, transaction: SourceTransaction, *, safe: bool) -> list[RowPair]:
        try:
            pairs = table.decoder.decode(item.rows)
            return pairs if item.rows.whole else completed_images(table.plan, pairs, safe=safe)
        except DMError as error:
            error.position = error.position or str(transaction.end)
            raise

    def _place_keyless(self, changes: list[RowChange], ticket: Ticket, transaction: SourceTransaction) -> int:
        # The lane's row names what it has done exactly (I5): not again, and not one row less. After a switch of servers
        # the same transactions may come in another order, so each one is asked about.
        done = self._keyless_done
        if done is not None and done.has_processed(transaction.gtid, transaction.end):
            self.skipped_keyless += len(changes)
            return 0
        self._lanes.place_keyless(changes, ticket, transaction.end)
        return len(changes)

    def _learn(self, table_map: TableMap, transaction: SourceTransaction) -> _Table | None:
        name, position = TableName(table_map.schema, table_map.table), transaction.end
        point = self.points.get(name)
        if point is not None and point.has_processed(transaction.gtid, position):
            # Rows from before the table's own point may still have the structure from before a DDL in that window, and
            # a table that vanished in it has no structure any more. Both end before the point.
            return None
        schema = self._structures.at(table_map, position)
        wire = wire_columns(schema, self._flavor)
        target = self._targets.get(self._rules.route(name))
        if target is None:
            raise DMError("target-table-missing", table=str(self._rules.route(name)), position=position)
        try:
            plan = build_plan(schema, wire, target, self._options)
        except DMError as error:
            error.position = error.position or str(position)
            raise
        wanted = {kind: self._rules.row_event(name, kind) == "do" for kind in _KINDS}
        table = _Table(table_map, RowDecoder(table_map, wire), plan, wanted, self._rules.row_filter(schema), point)
        if len(self._tables) >= _TABLES_KEPT:
            self._tables.clear()
        self._tables[id(table_map)] = table
        return table
