"""Which tables a replay takes, and how it reads their rows: by the syncer's plans, decoders and compiled loop.

What is said here depends only on structures and settings, so each task that meets a table comes to the same answer.
A table that is not taken is left to the syncer, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from dm.changes.column_map import constant_columns
from dm.changes.event_rules import RoutedTable, event_form, hindrance, image_reader
from dm.changes.native_changes import DirectTable
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_keys import TargetTable
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.table_map import TableMap, mismatch
from dm.mysql.binlog.value import Row
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import TableSchema, wire_columns
from dm.position import Position
from dm.rules.table_rules import TableRules
from dm.syncer.apply.source_table import KINDS, SourceTable


@dataclass(frozen=True, slots=True)
class KnownTables:
    """The source's tables at the checkpoint, and what is known against some of them."""

    structures: Mapping[TableName, TableSchema]
    points: frozenset[TableName]  # those that are ahead of the checkpoint
    ordered: frozenset[TableName]  # tables of the target that have been changed in the source's order
    shared: frozenset[TableName]  # tables of the source that share one of the target


@dataclass(slots=True)
class ReplayedTable:
    """A table that is taken."""

    table: SourceTable
    updates: bool  # the values of all its unique keys are in the rows
    removals_first: bool  # rows of it may meet in a unique key
    read: Callable[[bytes], Row]  # reads an image that the source wrote

    @property
    def plan(self) -> TablePlan:
        """Its plan."""
        return self.table.plan


@dataclass(slots=True)
class ReplayTables:
    """The tables that one task has met."""

    rules: TableRules
    known: KnownTables
    flavor: Flavor  # the source's
    target: Callable[[TableName], TargetTable | None]
    options: PlanOptions
    again: bool
    by_map: dict[int, ReplayedTable | None] = field(default_factory=dict)  # None: left to the syncer
    direct: dict[int, DirectTable] = field(default_factory=dict)  # for the compiled loop
    left: dict[TableName, str] = field(default_factory=dict)
    taken: dict[TableName, ReplayedTable] = field(default_factory=dict)
    _maps: list[TableMap] = field(default_factory=list)  # kept alive: their identities are keys

    def forget(self) -> None:
        """Begin anew."""
        for known in (self.by_map, self.direct, self.left, self.taken, self._maps):
            known.clear()

    def learn(self, table_map: TableMap, place: Position | None = None) -> ReplayedTable | None:
        """The table of a table map; None where it is left to the syncer. Raises DMError."""
        name = TableName(table_map.schema, table_map.table)
        self._maps.append(table_map)
        found = self._of(name, table_map, place)
        self.by_map[id(table_map)] = found
        if found is not None:
            self.taken[name] = found
            direct = found.table.direct()
            if direct is not None:
                self.direct[id(table_map)] = direct
        return found

    def _of(self, name: TableName, table_map: TableMap, place: Position | None) -> ReplayedTable | None:
        why = _told(name, self.known, self.rules)
        if why:
            self.left[name] = why
            return None
        schema = self.known.structures[name]
        wire = wire_columns(schema, self.flavor)
        unlike = mismatch(table_map, wire)
        if unlike is not None:
            raise DMError("structure-mismatch", table=str(name), why=unlike, position=place)
        target = self.target(self.rules.route(name))
        if target is None:
            raise DMError("target-table-missing", table=str(self.rules.route(name)), unread="", position=place)
        names = [column.name for column in wire]
        constants = constant_columns(name, names, target.schema, self.rules.extracted(name))
        plan = build_plan(schema, wire, target, self.options, constants)
        why = _unsuited(plan, target)
        if why:
            self.left[name] = why
            return None
        # In each job all changes are of different keys, so no keys are needed to keep an order.
        plan = replace(plan, key_functions=())
        decoder = RowDecoder(table_map, wire)
        pair = RoutedTable(table_map, wire, target, plan, self.options)
        if not hindrance(pair):
            plan = replace(plan, events=event_form(pair, decoder))
        table = SourceTable(table_map, wire, decoder, plan, dict.fromkeys(KINDS, True), None, None)
        updates = _rows_have_keys(plan, target.schema)
        # Two values of such a type are the same key only if they are the same.
        plain = all(column.source.type.is_integer and column.target.type.is_integer for column in plan.row_key)
        alone = updates and plan.unique_indexes == 1 and plain
        return ReplayedTable(table, updates, self.again or not alone, image_reader(pair))


def _told(name: TableName, known: KnownTables, rules: TableRules) -> str:
    if name not in known.structures:
        return "its structure at the checkpoint is not known"
    if name in known.points:
        return "it is ahead of the checkpoint"
    if name in known.shared:
        return "the target's table has rows of other tables, too"
    if rules.route(name) in known.ordered:
        return "it was changed in the source's order"
    if any(rules.row_event(name, kind) != "do" for kind in KINDS):
        return "an event filter concerns its rows"
    return "an expression filter chooses among its rows" if rules.filters_rows(name) else ""


def _unsuited(plan: TablePlan, target: TargetTable) -> str:
    """Why net effects would not give what the changes give."""
    if not plan.keyed or plan.ordered or plan.order_key is not None:
        return "it has no key by which rows are found"
    if plan.identity:
        return "its key at the target is another than at the source"
    if plan.upsert:
        return "the target's table has columns that the source lacks"
    if plan.linked:
        return "the target checks its foreign keys"
    if target.triggers:
        return "the target's table has triggers"
    if any(column.source.type.is_float for column in plan.row_key):
        return "a column of its key has floating points"
    return ""


def _rows_have_keys(plan: TablePlan, schema: TableSchema) -> bool:
    written = {column.target.name.lower() for column in plan.columns}
    parts = (part for index in schema.unique_indexes for part in index.parts)
    return all(part.column is not None and part.column.lower() in written for part in parts)
