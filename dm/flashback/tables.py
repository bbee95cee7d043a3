"""From row events to the statements that take them back, by the task's rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from dm.binlog.check import mismatch
from dm.binlog.decode import RowDecoder
from dm.binlog.table_map import TableMap
from dm.binlog.value import ABSENT, Row
from dm.changes.constant import constant_columns, with_constants
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.target_table import TargetTable
from dm.errors import DMError
from dm.flashback.survey import parents
from dm.flashback.undo import undo
from dm.flavor import Flavor
from dm.ident import TableName
from dm.position import Position
from dm.rules.row_filter import RowFilter
from dm.rules.server_condition import Judges
from dm.rules.table_rules import RowEvent, TableRules
from dm.schema.table import Column, TableSchema
from dm.schema.wire import wire_columns
from dm.syncer.stream.transaction import RowsItem


@dataclass(frozen=True, slots=True)
class SourceStructures:
    """The source's tables as they are at the checkpoint."""

    flavor: Flavor
    tables: Mapping[TableName, TableSchema]
    logs_cascades: bool


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What is asked of the target."""

    table: Callable[[TableName], TargetTable | None]
    options: PlanOptions
    judges: Judges


@dataclass(frozen=True, slots=True)
class _Table:
    table_map: TableMap  # kept alive: its identity is the key
    wire: tuple[Column, ...]
    decoder: RowDecoder
    plan: TablePlan
    row_filter: RowFilter | None
    acting: frozenset[int]  # columns whose changes have changed other tables without a trace; any DELETE has


class UndoneTables:
    """Knows each table of the stretch by its table map; structures do not change in between (`survey.py`)."""

    def __init__(self, rules: TableRules, source: SourceStructures, target: TargetSide) -> None:
        self._rules = rules
        self._source = source
        self._target = target
        self._parents = {} if source.logs_cascades else parents(source.tables.values())
        self._known: dict[int, _Table] = {}

    def statements(self, item: RowsItem, end: Position) -> Iterator[tuple[TableName, bytes]]:
        """The target's table and the statement for each change of an event, in the event's order; raises DMError."""
        name = TableName(item.table_map.schema, item.table_map.table)
        kind: RowEvent = item.rows.kind
        if self._rules.row_event(name, kind) != "do":
            return
        try:
            table = self._known.get(id(item.table_map)) or self._learn(name, item.table_map, end)
            pairs = table.decoder.decode(item.rows)
            if table.plan.constants:
                pairs = with_constants(pairs, table.plan.constants)
            skipped = [False] * len(pairs)
            if table.row_filter is not None:
                skipped = table.row_filter.skipped(kind, pairs, item.rows.timestamp)
            for (before, after), left_out in zip(pairs, skipped, strict=True):
                if not left_out:
                    self._refuse_lost(table, before, after)
                    yield table.plan.target, undo(table.plan, before, after)
        except DMError as error:
            error.position = error.position or str(end)
            raise

    def _learn(self, name: TableName, table_map: TableMap, end: Position) -> _Table:
        schema = self._source.tables.get(name)
        if schema is None:
            raise DMError("structure-unknown", table=str(name), why="the checkpoint has none", position=end)
        wire = tuple(wire_columns(schema, self._source.flavor))
        why = mismatch(table_map, wire)
        if why is not None:
            raise DMError("structure-mismatch", table=str(name), why=why, position=end)
        target = self._target.table(self._rules.route(name))
        if target is None:
            raise DMError("target-table-missing", table=str(self._rules.route(name)), unread="", position=end)
        constants = constant_columns(name, [column.name for column in wire], target.schema, self._rules.extracted(name))
        plan = build_plan(schema, wire, target, self._target.options, constants)
        row_filter = self._rules.row_filter(schema, wire, self._target.judges)
        names = self._parents.get(name, frozenset())
        acting = frozenset(at for at, column in enumerate(wire) if column.name.lower() in names)
        table = _Table(table_map, wire, RowDecoder(table_map, wire), plan, row_filter, acting)
        self._known[id(table_map)] = table
        return table

    @staticmethod
    def _refuse_lost(table: _Table, before: Row | None, after: Row | None) -> None:
        if not table.acting or before is None:
            return
        if after is None or any(after[at] is not ABSENT and after[at] != before[at] for at in table.acting):
            raise DMError("flashback-cascade", table=str(table.plan.source))
