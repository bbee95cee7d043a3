"""The way of row events: table -> rules -> structure -> decode -> convert -> lanes.

All that depends only on the table and on its structure is worked out once per table map and kept until a DDL: whether
which kinds of events are wanted, the decoder, the plan of the conversion, the row filter.

Source tables that are merged into one must agree in what their keys are read from (`dm.changes.shared_keys`). They are
learned one by one, so one of them may show that the plans of the others don't do. Everything placed is then awaited,
as before a DDL, and those are learned again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dm.binlog.decode import RowDecoder
from dm.binlog.reader import TableMap
from dm.changes.constant import ConstantColumn, constant_columns
from dm.changes.keys import keys_of
from dm.changes.native_changes import DirectTable, change_maker
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_change import RowChange
from dm.changes.shared_keys import SharedKeys
from dm.changes.target_table import TargetTable
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.flavor import Flavor
from dm.ident import TableName
from dm.position import Position
from dm.progress.undone import Undone, UndoneKeys
from dm.rules.table_rules import TableRules
from dm.rules.texts import TextOracle
from dm.schema.table import Column, TableSchema
from dm.schema.wire import wire_columns
from dm.syncer.apply.change_stream import PART_COST, ChangeStream
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.ordered_tables import OrderedTables
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.apply.source_table import KINDS, SourceTable
from dm.syncer.apply.structures import Structures
from dm.syncer.apply.target_names import TargetNames
from dm.syncer.stream.memory_quota import CHANGE_COST, DECODED_FACTOR
from dm.syncer.stream.transaction import RowsItem, SourceTransaction

_TABLES_KEPT = 16384


class RowPlacing:
    """Turns row events into placed changes."""

    def __init__(
        self,
        rules: TableRules,
        structures: Structures,
        targets: TargetSchemas,
        lanes: Lanes,
        safe_mode: SafeModeWindow,
        names: TargetNames,
        *,
        flavor: Flavor,
        options: PlanOptions,
        points: dict[TableName, Position],
        keyless_done: Position | None,
        ordered: OrderedTables,
        atomic: bool = False,
        atomic_done: Position | None = None,
        undone: Undone | None = None,
        oracle: TextOracle | None = None,
    ) -> None:
        self._rules = rules
        self._structures = structures
        self._targets = targets
        self._lanes = lanes
        self._safe_mode = safe_mode
        self._names = names
        self._flavor: Flavor = flavor
        self._options = options
        self.points = points
        self._keyless_done = keyless_done
        self._ordered = ordered
        self._atomic = atomic  # every table goes to the ordered lane
        self._atomic_done = atomic_done
        self._undone = undone or Undone()
        self._oracle = oracle
        self._tables: dict[int, SourceTable] = {}
        self._same_tables: dict[bytes, SourceTable] = {}  # the same by what their table maps say behind the table's id
        self._maker = None if atomic else change_maker(DECODED_FACTOR, CHANGE_COST)
        self._direct: dict[int, DirectTable] = {}  # of these tables, those that the compiled loop takes
        self._shared: dict[TableName, SharedKeys] = {}  # by target table, of all plans made since a DDL
        # Of the transaction under way, behind its last DDL.
        self._taken = 0  # row events
        self._keyless: list[RowChange] = []
        self._keyless_cost = 0
        self._keyless_tables: dict[int, SourceTable] = {}
        self._keyless_from: dict[int, int] = {}  # the number of the first row event that was collected
        self.skipped_keyless = 0

    def forget(self) -> None:
        """Drop everything derived from structures; called behind every DDL."""
        self._forget_tables()
        self._shared.clear()  # a DDL waits for everything placed
        self._names.forget()
        self._ordered.settle()

    def _forget_tables(self) -> None:
        self._tables.clear()
        self._same_tables.clear()
        self._direct.clear()

    def take(self, items: list[RowsItem], ticket: Ticket, transaction: SourceTransaction) -> int:
        """Place the changes that go to any lane among these row events, collect those of the ordered one.

        Gives how many were placed.
        """
        gtid, end = transaction.gtid, transaction.end
        if self._atomic_done is not None and self._atomic_done.has_processed(gtid, end):
            return 0  # I9: neither by this way nor by the other
        safe = self._safe_mode.covers_change(transaction.begin)
        undone = self._undone.of(end)  # which also says that this run has come to it
        if not safe or self._safe_mode.wanted:
            undone = None
        elif undone is not None and undone.whole:
            safe, undone = False, None
        given = at = 0
        while at < len(items):
            if self._maker is not None and undone is None:
                changes, cost, at = self._maker(items, at, self._direct, safe)
                if changes:
                    self._lanes.place_all(changes, cost // len(changes), ticket, end)
                    given += len(changes)
                if at == len(items):
                    break
            given += self._take_item(items[at], self._taken + at, ticket, transaction, safe=safe, undone=undone)
            at += 1
        self._taken += len(items)
        if safe:
            self._safe_mode.rows += given
        return given

    def _take_item(
        self,
        item: RowsItem,
        number: int,
        ticket: Ticket,
        transaction: SourceTransaction,
        *,
        safe: bool,
        undone: UndoneKeys | None,
    ) -> int:
        table = self._tables.get(id(item.table_map)) or self._learn(item.table_map, ticket, transaction)
        if table is None:
            return 0
        kind, point = item.rows.kind, table.point
        if not table.wanted_kinds[kind] or (
            point is not None and point.has_processed(transaction.gtid, transaction.end)
        ):
            return 0
        plan = table.plan
        if self._atomic or plan.ordered:
            self._collect(table, item, number, transaction, safe=safe)
            return 0
        unchecked = table.unchecked(item, safe=safe)
        pairs = table.pairs(item, transaction, safe=safe)
        cost = DECODED_FACTOR * len(item.rows.data) // (len(pairs) or 1) + CHANGE_COST
        given = 0
        for before, after in pairs:
            if table.row_filter is not None and table.row_filter(kind, before, after):
                continue
            change = RowChange(plan, KINDS[kind], before, after, safe, unchecked)
            if undone is not None and undone.hold(keys_of(change)):
                change.safe = False
            self._lanes.place(change, cost, ticket, transaction.end)
            given += 1
        return given

    def _collect(
        self, table: SourceTable, item: RowsItem, number: int, transaction: SourceTransaction, *, safe: bool
    ) -> None:
        # The lane's row names what it has done exactly (I5): not again, and not one row less. After a switch of servers
        # the same transactions may come in another order, so each one is asked about.
        ordered = table.plan.ordered
        if ordered and self._ordered.is_done(table.plan, transaction, number, lost_key=table.lost_key):
            return
        done = self._keyless_done if ordered else None
        if done is not None and done.has_processed(transaction.gtid, transaction.end):
            self.skipped_keyless += len(table.ordered_changes(item, transaction, safe=False))
            return
        self._keyless_tables[id(item.table_map)] = table
        self._keyless_from.setdefault(id(item.table_map), number)
        if self._keyless_cost < PART_COST:
            changes = table.ordered_changes(item, transaction, safe=safe)
            self._keyless += changes
            self._keyless_cost += DECODED_FACTOR * len(item.rows.data) + CHANGE_COST * len(changes)
        else:
            self._keyless.clear()  # too many to be held: the lane decodes them itself

    def finish(self, first: int, last: int, ticket: Ticket, transaction: SourceTransaction) -> int:
        """Give what was collected from the items between these numbers to the keyless lane; gives how many jobs' worth.

        All of it is one target transaction.
        """
        self._taken = 0
        if not self._keyless_tables:
            return 0
        changes, cost, tables, begins = self._keyless, self._keyless_cost, self._keyless_tables, self._keyless_from
        self._keyless, self._keyless_cost, self._keyless_tables, self._keyless_from = [], 0, {}, {}
        if cost >= PART_COST:
            safe = self._safe_mode.covers_change(transaction.begin)
            stream = ChangeStream(transaction, first, last, tables, begins, self._lanes.memory, safe=safe)
            self._lanes.stream_keyless(stream, ticket, transaction.end)
            return 1
        if changes:
            self._lanes.place_keyless(changes, cost, ticket, transaction.end)
        return len(changes)

    def _learn(self, table_map: TableMap, ticket: Ticket, transaction: SourceTransaction) -> SourceTable | None:
        name, position = TableName(table_map.schema, table_map.table), transaction.end
        point = self.points.get(name)
        if point is not None and point.has_processed(transaction.gtid, position):
            # Rows from before the table's own point may still have the structure from before a DDL in that window, and
            # a table that vanished in it has no structure any more. Both end before the point.
            return None
        if point is not None and transaction.begin.is_behind(point):
            point = None  # it was passed
        known = self._same_tables.get(table_map.behind_id)
        if known is not None:
            # The source has opened it again. Its old id does not come any more, or else it is learned anew.
            del self._tables[id(known.table_map)]
            self._direct.pop(id(known.table_map), None)
            return self._keep(replace(known, table_map=table_map))
        schema = self._structures.at(table_map, position)
        wire = wire_columns(schema, self._flavor)
        self._names.demand_own(name, position)
        target = self._targets.get(self._rules.route(name))
        if target is None:
            unread = self._structures.unread
            raise DMError("target-table-missing", table=str(self._rules.route(name)), unread=unread, position=position)
        try:
            columns = [column.name for column in wire]
            constants = constant_columns(name, columns, target.schema, self._rules.extracted(name))
            plan = self._plan(schema, wire, target, constants, ticket)
            wanted = {kind: self._rules.row_event(name, kind) == "do" for kind in KINDS}
            row_filter = self._rules.row_filter(schema, wire, self._oracle)
            self._ordered.learned(plan, transaction.begin)
        except DMError as error:
            error.position = error.position or str(position)
            raise
        exact = plan.ordered and self._ordered.exact(plan.target) and not self._safe_mode.wanted
        lost_key = schema.has_key and not target.schema.has_key
        decoder = RowDecoder(table_map, wire)
        table = SourceTable(table_map, wire, decoder, plan, wanted, row_filter, point, exact, lost_key)
        if len(self._tables) >= _TABLES_KEPT:
            self._forget_tables()
        return self._keep(table)

    def _plan(
        self,
        schema: TableSchema,
        wire: Sequence[Column],
        target: TargetTable,
        constants: Sequence[ConstantColumn],
        ticket: Ticket,
    ) -> TablePlan:
        name = target.schema.name
        shared = self._shared.get(name)
        if shared is None:
            shared = self._shared[name] = SharedKeys(keyless=self._ordered.stored(name))
        before = shared.size
        plan = build_plan(schema, wire, target, self._options, constants, shared)
        if shared.size > before and shared.plans > 1:
            # What was placed has keys that those of this plan don't meet, or went to other lanes.
            self._lanes.drain(ticket)
            for table in [table for table in self._tables.values() if table.plan.target == name]:
                del self._tables[id(table.table_map)], self._same_tables[table.table_map.behind_id]
                self._direct.pop(id(table.table_map), None)
        return plan

    def _keep(self, table: SourceTable) -> SourceTable:
        key = id(table.table_map)
        self._tables[key] = self._same_tables[table.table_map.behind_id] = table
        direct = table.direct()
        if direct is not None:
            self._direct[key] = direct
        return table
