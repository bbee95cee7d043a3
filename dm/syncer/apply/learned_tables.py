"""The tables of the run's table maps: learned from both sides once, kept until a DDL.

Everything that depends only on the table and its structure is computed here: which kinds of events are wanted, the
decoder, the plan of the conversion, the row filter.

Source tables that are merged into one must agree on the columns of their keys (`dm.changes.keys`). They are learned one
by one, so a table may show that the plans of earlier ones are not usable. Then the lanes are drained, as before a DDL,
and those tables are learned again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dm.changes.collation import Weights
from dm.changes.column_map import ConstantColumn, constant_columns
from dm.changes.computing import SourceSettings
from dm.changes.event_rules import RoutedTable, event_form, hindrance
from dm.changes.hash_rules import row_hash
from dm.changes.keys import SharedKeys
from dm.changes.native_changes import DirectTable
from dm.changes.plan import PlanOptions, TablePlan, build_plan, sees_none
from dm.changes.row_keys import TargetTable
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.source_session_settings import computing_at, local_time
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.reader import TableMap
from dm.mysql.dialect.pair import same_family
from dm.mysql.schema.merged_table import lacking
from dm.mysql.schema.table import Column, TableSchema, wire_columns, without_columns
from dm.position import Position
from dm.rules.router import Scattering
from dm.rules.row_filter import Judges
from dm.rules.table_rules import RowEvent, TableRules
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.sourcelog.upstream.facts import ServerFacts
from dm.sourcelog.upstream.privilege import grants_told
from dm.syncer.apply.completion import Ticket
from dm.syncer.apply.lanes import Lanes
from dm.syncer.apply.ordered_lane import OrderedTables
from dm.syncer.apply.safe_mode_window import SafeModeWindow
from dm.syncer.apply.scattered_table import ScatteredColumns, ScatteredTable, scattered_values
from dm.syncer.apply.source_table import KINDS, SourceTable
from dm.syncer.apply.structures import TargetNames, TrackedStructures
from dm.syncer.apply.table_counters import RowForms

_TABLES_BYTES = 256 << 20  # of all learned tables, about


@dataclass(frozen=True, slots=True)
class SourceSide:
    """What is known of the source's tables."""

    rules: TableRules
    structures: TrackedStructures
    points: dict[TableName, Position]  # of tables ahead of L; a DDL changes them


@dataclass(frozen=True, slots=True)
class TargetSide:
    """What is known of the target's tables, and the evaluator of expression filters."""

    schemas: TargetSchemas
    names: TargetNames
    options: PlanOptions
    judges: Judges
    others_have: Callable[[TableName, tuple[str, ...]], tuple[str, ...]]  # which of these columns other shards have


class LearnedTables:
    """The run's tables by the identity of their table maps; belongs to the dispatcher."""

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
        self.known: dict[int, SourceTable | ScatteredTable] = {}
        self.direct: dict[int, DirectTable] = {}  # in the form of the compiled loop, if it can handle them
        self._same: dict[bytes, SourceTable | ScatteredTable] = {}  # the same, by the content of their table maps
        self._memory = 0
        self._shared: dict[TableName, SharedKeys] = {}  # by target table, of all plans since the last DDL

    def forget(self) -> None:
        """Drop everything derived from structures; called after every DDL, which has drained the lanes."""
        self._clear()
        self._shared.clear()

    def _clear(self) -> None:
        self.known.clear()
        self._same.clear()
        self.direct.clear()
        self._memory = 0

    def _drop(self, table: SourceTable | ScatteredTable) -> None:
        del self.known[id(table.table_map)], self._same[table.table_map.content]
        self.direct.pop(id(table.table_map), None)
        self._memory -= table.memory

    def learn(
        self, table_map: TableMap, ticket: Ticket, transaction: SourceTransaction
    ) -> SourceTable | ScatteredTable | None:
        """Learn the table of a table map that is not `known`; None if its rows are unwanted. Raises DMError."""
        name, position = TableName(table_map.schema, table_map.table), transaction.end
        if not self._rules.owned(name):
            return None
        point = self._points.get(name)
        if point is not None and point.has_processed(transaction.gtid, position):
            # Rows before the table's own point may have a structure from before a DDL in that window, or the table may
            # have vanished in it. Both cases end before the point.
            return None
        if point is not None and transaction.begin.at_or_after(point):
            point = None  # it is passed
        known = self._same.get(table_map.content)
        if known is not None:
            # The same table map, read again.
            self._drop(known)
            return self._keep(replace(known, table_map=table_map))
        schema = self._structures.at(table_map, position)
        wire = wire_columns(schema, self._structures.flavor)
        self._target.names.demand_own(name, position)
        scattering = self._rules.scattered(name)
        if scattering is not None:
            found = self._scattered(scattering, (table_map, schema, wire), ticket, transaction)
            return self._keep(replace(found, point=point))
        target = self._target.schemas.get(self._rules.route(name))
        if target is None:
            unread = self._structures.unread
            raise DMError("target-table-missing", table=str(self._rules.route(name)), unread=unread, position=position)
        try:
            columns = [column.name for column in wire]
            constants = constant_columns(name, columns, target.schema, self._rules.extracted(name))
            plan = self._plan(schema, wire, target, constants, ticket)
            wanted = self._wanted(name)
            row_filter = self._rules.row_filter(schema, wire, self._target.judges)
            self._ordered.learned(plan, transaction.begin)
        except DMError as error:
            error.position = error.position or str(position)
            raise
        exact = self._exact(plan)
        lost_key = schema.has_key and not target.schema.has_key
        mistaken = () if plan.keyed else self._mistaken(schema, target.schema)
        decoder = RowDecoder(table_map, wire)
        pair = RoutedTable(table_map, wire, target, plan, self._target.options, filtered=row_filter is not None)
        plan = self._with_forms(pair, decoder)
        apart = _judged_apart(plan, target)
        table = SourceTable(table_map, wire, decoder, plan, wanted, row_filter, point, exact, mistaken, lost_key, apart)
        return self._keep(table)

    def _wanted(self, name: TableName) -> dict[RowEvent, bool]:
        return {kind: self._rules.row_event(name, kind) == "do" for kind in KINDS}

    def _exact(self, plan: TablePlan) -> bool:
        return plan.ordered and self._ordered.exact(plan.target) and not self._safe_mode.wanted

    def _scattered(
        self,
        scattering: Scattering,
        source: tuple[TableMap, TableSchema, Sequence[Column]],
        ticket: Ticket,
        transaction: SourceTransaction,
    ) -> ScatteredTable:
        """A table whose rows go to several of the target, with a plan for each; raises DMError."""
        table_map, schema, wire = source
        try:
            columns = ScatteredColumns.of(schema.name, wire, scattering.columns)
            part = without_columns(schema, scattering.columns)
            decoder, wanted = RowDecoder(table_map, wire), self._wanted(schema.name)
            rows = [wire[at] for at in columns.kept]
            tables = dict[tuple[str | None, ...], SourceTable | TableName]()
            for values, name in scattered_values(scattering, wire).items():
                target = self._target.schemas.get(name)
                if target is None:
                    tables[values] = name
                    continue
                plan = self._plan(part, rows, target, (), ticket)
                self._ordered.learned(plan, transaction.begin)
                self.forms.learned(plan, "its rows go to several tables")
                tables[values] = SourceTable(
                    table_map, rows, decoder, plan, wanted, None, None, self._exact(plan),
                    lost_key=part.has_key and not target.schema.has_key, unconstrained=_judged_apart(plan, target),
                )  # fmt: skip
        except DMError as error:
            error.position = error.position or str(transaction.end)
            raise
        return ScatteredTable(table_map, wire, decoder, columns, tables, wanted, None)

    def _mistaken(self, schema: TableSchema, target: TableSchema) -> tuple[str, ...]:
        """Columns that the shard lacks and others have: in all other columns, their rows may equal its own."""
        found = tuple(column.name for column in lacking(schema, target, self._rules.filled(schema.name)))
        return self._target.others_have(schema.name, found) if found else ()

    def _with_forms(self, pair: RoutedTable, decoder: RowDecoder) -> TablePlan:
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
            # Changes already placed have other keys, which don't collide with the keys of this plan.
            self._lanes.drain(ticket)
            for table in list(self.known.values()):
                if any(known.target == name for known in table.plans):
                    self._drop(table)
        return plan

    def _keep(self, table: SourceTable | ScatteredTable) -> SourceTable | ScatteredTable:
        if self._memory + table.memory > _TABLES_BYTES:
            self._clear()
        key = id(table.table_map)
        self.known[key] = self._same[table.table_map.content] = table
        self._memory += table.memory
        direct = table.direct() if isinstance(table, SourceTable) else None
        if direct is not None:
            self.direct[key] = direct
        return table


def _judged_apart(plan: TablePlan, target: TargetTable) -> TablePlan | None:
    """The plan for rows that the source wrote without a look at CHECKs, where that makes a difference."""
    if not (plan.dialect.skips_checks and target.judged):
        return None
    return replace(plan, unconstrained=True, row_hash=None)  # finding rows by hash is another way to write


def plan_options(
    subtask: SubtaskConfig,
    facts: ServerFacts,
    target: TargetConnection,
    weights: Weights | None,
    *,
    foreign_key_checks: bool,
    no_events: str,
    source: SourceSettings,
) -> PlanOptions:
    """What applies to all plans of a subtask, by its settings and both servers.

    `no_events`: why the sessions take no row events.
    """
    settings, flavor = subtask.syncer, target.flavor
    own_mode = "sql_mode" in subtask.target.session
    # `compact` drops intermediate values, so not if the target might have refused one that the source took.
    same_rules = same_family(flavor, facts.flavor) and not own_mode
    # A sql_mode does not apply to row events.
    no_events = "the task's `session` has a sql_mode, which judges values of SQL only" if own_mode else no_events
    return PlanOptions(
        flavor=flavor,
        version=target.version,
        weights=weights,
        foreign_key_checks=foreign_key_checks,
        insert_mode=settings.insert_mode,
        multiple_rows=bool(settings.multiple_rows),
        compact=bool(settings.compact) and same_rules,
        missing_row=settings.missing_row,
        narrower_columns=settings.narrower_columns,
        local_time=local_time(target, subtask.timezone),
        computing=computing_at(target, source, subtask),
        no_events=_others_alter(subtask) or _others_may(subtask) or _no_row_events(facts, target) or no_events,
        others_alter=_others_alter(subtask),
        sees_triggers=_sees_triggers(target),
        mode=target.has("sql_mode"),
    )


def _others_alter(subtask: SubtaskConfig) -> str:
    if subtask.shard_mode == "optimistic":
        return "with `shard-mode: optimistic` the target's tables change under the rows of other sources"
    return ""


def _others_may(subtask: SubtaskConfig) -> str:
    """Why the order of the target's columns may change under a plan: a row event's values have no column names.

    Without a shard mode each source executes its own DDL; in the pessimistic mode a person may waive a shard.
    """
    return "other sources of the task may alter the target's table under these rows" if subtask.neighbours else ""


def _no_row_events(facts: ServerFacts, target: TargetConnection) -> str:
    if not same_family(facts.flavor, target.flavor):
        return "source and target are of different families"
    return "the target's version is below the source's" if target.version < facts.version else ""


def _sees_triggers(target: TargetConnection) -> Callable[[TableName], bool]:
    """For which tables the target shows triggers to the account, by its present grants."""
    try:
        grants = grants_told(target.query, target.flavor, target.version)
    except DMError as error:
        if error.retryable:
            raise
        return sees_none
    if target.folds_names:  # then names in grants are in lower case
        return lambda table: grants.on_table("TRIGGER", TableName(table.schema.lower(), table.table.lower()))
    return lambda table: grants.on_table("TRIGGER", table)
