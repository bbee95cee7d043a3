"""What is known of each table map's table: learned from both sides once, kept until a DDL.

Everything that depends only on the table and its structure is computed here: whether which kinds of events are wanted,
the decoder, the plan of the conversion, the row filter.

Source tables that are merged into one must agree on the columns of their keys (`dm.changes.shared_keys`). They are
learned one by one, so one of them may show that the plans of the others are not usable. Then everything placed is
awaited, as before a DDL, and those are learned again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dm.binlog.decode import RowDecoder
from dm.binlog.reader import TableMap
from dm.changes.constant import ConstantColumn, constant_columns
from dm.changes.event_rules import Pair, event_form, hindrance
from dm.changes.hash_rules import row_hash
from dm.changes.native_changes import DirectTable
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.shared_keys import SharedKeys
from dm.changes.target_table import TargetTable
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.server_condition import Judges
from dm.rules.table_rules import TableRules
from dm.schema.joined_table import lacking
from dm.schema.table import Column, TableSchema
from dm.schema.wire import wire_columns
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.ordered_tables import OrderedTables
from dm.syncer.apply.row_forms import RowForms
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.apply.source_table import KINDS, SourceTable
from dm.syncer.apply.structures import Structures
from dm.syncer.apply.target_names import TargetNames
from dm.syncer.stream.transaction import SourceTransaction

_TABLES_BYTES = 256 << 20  # of what is learned, about


@dataclass(frozen=True, slots=True)
class SourceSide:
    """What is known of the source's tables."""

    rules: TableRules
    structures: Structures
    points: dict[TableName, Position]  # of tables that are ahead of L; a DDL changes them


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What is known of the target's tables, and the evaluator of expression filters."""

    schemas: TargetSchemas
    names: TargetNames
    options: PlanOptions
    judges: Judges
    others_have: Callable[[TableName, tuple[str, ...]], tuple[str, ...]]  # of these columns, those of other shards


class LearnedTables:
    """The tables of the run so far, by the identity of their table maps; belongs to the dispatcher."""

    def __init__(
        self,
        source: SourceSide,
        target: TargetSide,
        ordered: OrderedTables,
        safe_mode: SafeModeWindow,
        lanes: Lanes,
        forms: RowForms,
    ) -> None:
        self._rules = source.rules
        self._structures = source.structures
        self._points = source.points
        self._target = target
        self._ordered = ordered
        self._safe_mode = safe_mode
        self._lanes = lanes
        self.forms = forms
        self.known: dict[int, SourceTable] = {}
        self.direct: dict[int, DirectTable] = {}  # of these, those for the compiled loop
        self._same: dict[bytes, SourceTable] = {}  # the same, by the content of their table maps
        self._memory = 0
        self._shared: dict[TableName, SharedKeys] = {}  # by target table, of all plans since the last DDL

    def forget(self) -> None:
        """Drop everything derived from structures; called after every DDL, which has awaited everything placed."""
        self._clear()
        self._shared.clear()

    def _clear(self) -> None:
        self.known.clear()
        self._same.clear()
        self.direct.clear()
        self._memory = 0

    def _drop(self, table: SourceTable) -> None:
        del self.known[id(table.table_map)], self._same[table.table_map.content]
        self.direct.pop(id(table.table_map), None)
        self._memory -= table.memory

    def learn(self, table_map: TableMap, ticket: Ticket, transaction: SourceTransaction) -> SourceTable | None:
        """The table of a table map that is not `known`; None if these rows are unwanted. Raises DMError."""
        name, position = TableName(table_map.schema, table_map.table), transaction.end
        if not self._rules.owned(name):
            return None
        point = self._points.get(name)
        if point is not None and point.has_processed(transaction.gtid, position):
            # Rows before the table's own point may still have the structure from before a DDL in that window. A table
            # that vanished in it has no structure any more. Both cases end before the point.
            return None
        if point is not None and transaction.begin.is_behind(point):
            point = None  # it is passed
        known = self._same.get(table_map.content)
        if known is not None:
            # The same from another reader, or from one that has forgotten the first.
            self._drop(known)
            return self._keep(replace(known, table_map=table_map))
        schema = self._structures.at(table_map, position)
        wire = wire_columns(schema, self._structures.flavor)
        self._target.names.demand_own(name, position)
        target = self._target.schemas.get(self._rules.route(name))
        if target is None:
            unread = self._structures.unread
            raise DMError("target-table-missing", table=str(self._rules.route(name)), unread=unread, position=position)
        try:
            columns = [column.name for column in wire]
            constants = constant_columns(name, columns, target.schema, self._rules.extracted(name))
            plan = self._plan(schema, wire, target, constants, ticket)
            wanted = {kind: self._rules.row_event(name, kind) == "do" for kind in KINDS}
            row_filter = self._rules.row_filter(schema, wire, self._target.judges)
            self._ordered.learned(plan, transaction.begin)
        except DMError as error:
            error.position = error.position or str(position)
            raise
        exact = plan.ordered and self._ordered.exact(plan.target) and not self._safe_mode.wanted
        lost_key = schema.has_key and not target.schema.has_key
        mistaken = () if plan.keyed else self._mistaken(schema, target.schema)
        decoder = RowDecoder(table_map, wire)
        pair = Pair(table_map, wire, target, plan, self._target.options, filtered=row_filter is not None)
        plan = self._with_forms(pair, decoder)
        apart = None
        if plan.flavor == "mariadb" and target.judged:
            apart = replace(plan, unconstrained=True, row_hash=None)  # what finds rows by hash is another writer
        table = SourceTable(table_map, wire, decoder, plan, wanted, row_filter, point, exact, mistaken, lost_key, apart)
        if self._memory + table.memory > _TABLES_BYTES:
            self._clear()
        return self._keep(table)

    def _mistaken(self, schema: TableSchema, target: TableSchema) -> tuple[str, ...]:
        """Columns that a shard lacks and other shards have: their rows may be like its own in all it has."""
        found = tuple(column.name for column in lacking(schema, target, self._rules.filled(schema.name)))
        return self._target.others_have(schema.name, found) if found else ()

    def _with_forms(self, pair: Pair, decoder: RowDecoder) -> TablePlan:
        why = hindrance(pair)
        plan = replace(pair.plan, events=None if why else event_form(pair, decoder), row_hash=row_hash(pair))
        self.forms.learned(plan, why)
        return plan

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
        plan = build_plan(schema, wire, target, self._target.options, constants, shared)
        if shared.size > before and shared.plans > 1:
            # Placed changes have keys that the keys of this plan don't meet, or are in other lanes.
            self._lanes.drain(ticket)
            for table in [table for table in self.known.values() if table.plan.target == name]:
                self._drop(table)
        return plan

    def _keep(self, table: SourceTable) -> SourceTable:
        key = id(table.table_map)
        self.known[key] = self._same[table.table_map.content] = table
        self._memory += table.memory
        direct = table.direct()
        if direct is not None:
            self.direct[key] = direct
        return table
