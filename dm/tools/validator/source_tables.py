"""From row events to rows that wait, by the task's rules: which tables, which changes, which literals at the target.

A table whose rows can't be validated is stopped, and says why. Its rows are passed over until its structure changes. So
are those that wait: what is passed over may have changed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from dm.changes.column_map import constant_columns, with_constants
from dm.changes.plan import PlanOptions, TablePlan, build_plan
from dm.changes.row_hash import RowText, row_text
from dm.changes.row_keys import TargetTable
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.gtid import Gtid
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.reader import TableMap
from dm.mysql.binlog.table_map import mismatch
from dm.mysql.binlog.value import ABSENT, Row
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import Column, TableSchema, wire_columns
from dm.mysql.schema.tracker import SchemaTracker
from dm.position import Position
from dm.progress.validator_errors import TableStatus
from dm.rules.table_rules import RowEvent, TableRules
from dm.sourcelog.stream.transaction import RowsItem
from dm.tools.validator.pending import PendingRow, Shape

# DM's words where DM has the reason.
NO_KEY: Final = "no primary key"
UNKNOWN: Final = "table is not synced or dropped"
FILTERED: Final = "an expression filter decides which of its rows are at the target"
PARTIAL: Final = "the binlog leaves out columns of its rows (`binlog_row_image` is not FULL)"
_TABLES_KEPT: Final = 10_000  # a table gets another id each time the source opens it
KINDS: Final[tuple[RowEvent, ...]] = ("insert", "update", "delete")


class Unsupported(Exception):
    """The rows of a table can't be validated."""

    def __init__(self, target: TableName | None, why: str) -> None:
        super().__init__(why)
        self.target = target
        self.why = why


@dataclass(frozen=True, slots=True)
class _ValidatedTable:
    table_map: TableMap  # kept alive: its identity is the key
    decoder: RowDecoder
    plan: TablePlan
    shape: Shape
    key: RowText
    values: RowText
    wanted: frozenset[RowEvent]


@dataclass(frozen=True, slots=True)
class ValidatorSource:
    """What is known of the source."""

    rules: TableRules
    tracker: SchemaTracker
    flavor: Flavor
    sole: bool  # the task has no other


@dataclass(frozen=True, slots=True)
class ValidatorTarget:
    """What is asked of the target."""

    schemas: TargetSchemas
    options: PlanOptions
    stored: Callable[[TableName], TableSchema | None]  # the structure of a source's table at the syncer's checkpoint


class SourceTables:
    """Knows each table by its table map until its structure changes; belongs to the reader's thread."""

    def __init__(
        self,
        source: ValidatorSource,
        target: ValidatorTarget,
        tell: Callable[[TableStatus], None],
        forget_rows: Callable[[TableName], object],
        points: dict[TableName, Position],
    ) -> None:
        self._rules = source.rules
        self.tracker = source.tracker
        self._flavor: Flavor = source.flavor
        self._target = target
        self._tell = tell
        self._forget_rows = forget_rows  # that wait, of a table of the source
        self._sole = source.sole
        self.points = points  # rows before them are not validated
        self._known: dict[int, _ValidatedTable | None] = {}  # None: stopped
        self._maps: list[TableMap] = []  # of the stopped ones, kept alive
        self._status: dict[TableName, TableStatus] = {}
        self.unknown = False  # some table's structure is: perhaps the next checkpoint has it

    def forget(self) -> None:
        """A structure has changed: everything is learned again."""
        self._known.clear()
        self._maps.clear()
        self.unknown = False
        self._target.schemas.invalidate_all()

    def stop(self, source: TableName, target: TableName | None, why: str) -> None:
        """A table's rows are validated no more."""
        self._say(TableStatus(source, target or source, "Stopped", why))
        self._forget_rows(source)
        for key, table in list(self._known.items()):
            if table is not None and table.shape.source == source:
                self._maps.append(table.table_map)
                self._known[key] = None

    def rows(self, item: RowsItem, gtid: Gtid | None, end: Position) -> Iterator[PendingRow]:
        """What the changes of an event leave to be looked at; raises DMError."""
        key = id(item.table_map)
        if key not in self._known:
            self._learn(item.table_map, gtid, end)
        table = self._known.get(key)
        kind: RowEvent = item.rows.kind
        if table is None or kind not in table.wanted:
            return
        try:
            pairs = table.decoder.decode(item.rows)
            if table.plan.constants:
                pairs = with_constants(pairs, table.plan.constants)
            for before, after in pairs:
                yield from _of_change(table, before, after)
        except Unsupported as stopped:
            self.stop(table.shape.source, table.shape.target, stopped.why)
        except DMError as error:
            error.position = error.position or str(end)
            raise

    def _learn(self, table_map: TableMap, gtid: Gtid | None, end: Position) -> None:
        name = TableName(table_map.schema, table_map.table)
        point = self.points.get(name)
        if point is not None:
            if point.has_processed(gtid, end):
                return  # not kept: rows after the point are looked at
            del self.points[name]
        if len(self._known) >= _TABLES_KEPT:
            self.forget()
        try:
            self._known[id(table_map)] = table = self._table(name, table_map)
            self._say(TableStatus(name, table.shape.target))
        except Unsupported as unsupported:
            self._known[id(table_map)] = None
            self._maps.append(table_map)
            self.stop(name, unsupported.target, unsupported.why)

    def _table(self, name: TableName, table_map: TableMap) -> _ValidatedTable:
        target_name = self._rules.route(name)
        schema, wire = self._structure(name, table_map, target_name)
        if self._rules.filters_rows(name):
            raise Unsupported(target_name, FILTERED)
        # A table that was dropped or renamed there by a DDL ahead was as the source's.
        target = self._target.schemas.get(target_name) or TargetTable(replace(schema, name=target_name))
        try:
            columns = [column.name for column in wire]
            constants = constant_columns(name, columns, target.schema, self._rules.extracted(name))
            there = [column if target.schema.column(column.name) else _gone_there(column) for column in wire]
            plan = build_plan(schema, there, target, self._target.options, constants)
            wanted = frozenset(kind for kind in KINDS if self._rules.row_event(name, kind) == "do")
        except DMError as error:
            raise Unsupported(target_name, error.message) from error
        key = tuple(column.target.name for column in plan.row_key)
        written = {column.target.name for column in plan.columns}
        if not plan.keyed or not written.issuperset(key):
            raise Unsupported(target_name, NO_KEY)
        shape = Shape(
            name, target_name, tuple(column.target for column in plan.columns), key, frozenset(written),
            shared=not self._sole or target_name != name,
        )  # fmt: skip
        return _ValidatedTable(
            table_map,
            RowDecoder(table_map, wire),
            plan,
            shape,
            row_text(plan.row_key, b"(", b")"),
            row_text(plan.columns),
            wanted,
        )

    def _structure(
        self, name: TableName, table_map: TableMap, target: TableName
    ) -> tuple[TableSchema, tuple[Column, ...]]:
        """The table's structure here: as it was followed, else as the syncer has stored it, proven by the rows."""
        schema = self.tracker.get(name)
        found = schema or self._target.stored(name)
        if found is None:
            self.unknown = True
            raise Unsupported(target, UNKNOWN)
        wire = tuple(wire_columns(found, self._flavor))
        why = mismatch(table_map, wire)
        if why is not None:
            self.unknown = True
            self.tracker.forget(name)
            raise Unsupported(target, f"its structure at this place of the binlog is unknown: {why}")
        if schema is None:
            self.tracker.set(found)
        return found, wire

    def _say(self, status: TableStatus) -> None:
        if self._status.get(status.source) != status:
            self._status[status.source] = status
            self._tell(status)

    def statuses(self, known: list[TableStatus]) -> None:
        """What an earlier run has said."""
        self._status = {status.source: status for status in known}


def _of_change(table: _ValidatedTable, before: Row | None, after: Row | None) -> Iterator[PendingRow]:
    shape = table.shape
    if before is not None and after is not None:
        after = tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))
    if after is not None and any(after[column.at] is ABSENT for column in table.plan.columns):
        raise Unsupported(shape.target, PARTIAL)
    gone = None if before is None else _gone(table, before)
    if after is None:
        assert gone is not None
        yield gone
        return
    key = table.key(after)
    if gone is not None and gone.key != key:
        yield gone
        gone = None
        yield PendingRow(shape, "insert", key, table.values(after))
    else:
        yield PendingRow(shape, "insert" if before is None else "update", key, table.values(after))


def _gone_there(column: Column) -> Column:
    """A column that the target has lost by a DDL ahead, in a form that is not looked for there."""
    return replace(column, name=f"!hidden!{column.name}", generated="virtual")


def _gone(table: _ValidatedTable, before: Row) -> PendingRow:
    if any(before[column.at] is ABSENT for column in table.plan.row_key):
        raise Unsupported(table.shape.target, PARTIAL)
    if any(before[column.at] is ABSENT for column in table.plan.columns):
        if table.shape.shared:
            raise Unsupported(table.shape.target, PARTIAL)
        before = tuple(None if value is ABSENT else value for value in before)
    return PendingRow(table.shape, "delete", table.key(before), table.values(before))
