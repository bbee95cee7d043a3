"""Makes the target's tables for a dump, and tells how rows get into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from dm.changes.column_map import constant_columns
from dm.changes.computing import PLAIN, TableSettings, moment_parts
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.source_session_settings import computing_at, local_time
from dm.dumpfiles.destination import Destination, is_keyed
from dm.dumpfiles.dump_files import DumpedTable, DumpPlan
from dm.dumpfiles.literals import constant_literal, naming_key
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.deferred_indexes import demand_complete, put_off
from dm.loader.local_data import LocalDataAdmission
from dm.loader.part_writer import unjudged
from dm.loader.replaced_rows import mapped_keys, own_keys
from dm.loader.target_tables import TargetTables
from dm.mysql.dialect import flavor_named
from dm.mysql.schema.parse import has_checks, parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.progress.joining.table_joining import note_loaded
from dm.progress.load_parts import LoadRun, filled_tables
from dm.rules.router import refuse_alike
from dm.rules.table_rules import TableRules

_WORTH_ROWS: Final = 100_000  # of a table; to take its indexes off and to add them costs some statements


@dataclass
class DumpedStructures:
    """Structures of the dumped tables, each read once."""

    plan: DumpPlan
    _parsed: dict[TableName, TableSchema] = field(default_factory=dict)

    def context(self, table: TableName) -> SourceContext:
        """How the source writes statements."""
        return SourceContext(flavor_named(self.plan.flavor), self.plan.version, table.schema)

    def schema(self, table: DumpedTable) -> TableSchema:
        """The structure of a dumped table."""
        if table.name not in self._parsed:
            self._parsed[table.name] = parse_create_table(table.structure, self.context(table.name))
        return self._parsed[table.name]


class Destinations:
    """Makes tables one by one; `finish` when all are there."""

    def __init__(
        self,
        connection: TargetConnection,
        subtask: SubtaskConfig,
        rules: TableRules,
        structures: DumpedStructures,
        run: LoadRun,
    ) -> None:
        self._subtask = subtask
        self._rules = rules
        self._structures = structures
        self._run = run
        self._admission = LocalDataAdmission.ask(connection)
        self._local_time = local_time(connection, subtask.timezone)
        self._computing = computing_at(connection, structures.plan.settings, subtask)
        strict = subtask.collation_compatible == "strict"
        self._targets = TargetTables.at(
            connection,
            strict_collations=strict,
            translation=rules.translation,
            wider=subtask.shard_mode == "optimistic",
        )
        self._made: list[TableSchema] = []
        self.created: list[TableName] = []  # of the target: those that were not there

    def make_schemas(self) -> None:
        """Make the schemas that the target needs, each with the defaults of a source schema that goes there.

        Raises DMError where two tables would be one, because the target does not tell upper from lower case, and where
        the routes have led to other tables so far.
        """
        plan, wanted = self._structures.plan, dict[str, tuple[str, str]]()
        self._demand_same_routes(plan)
        if self._targets.connection.folds_names:
            refuse_alike([table.name for table in plan.tables], self._rules.destinations)
        for table in plan.tables:
            wanted.setdefault(self._rules.route(table.name).schema, plan.schemas[table.name.schema])
        self._note_missing()
        self._targets.create_schemas(wanted, self._structures.context(TableName("", "")))

    def _note_missing(self) -> None:
        """Where the tables are loaded beside a task's stream: store which of them a cancel will have to drop."""
        if self._subtask.share is None or self._subtask.share.older is None:
            return
        targets = {self._rules.route(table.name) for table in self._structures.plan.tables}
        missing = [table for table in sorted(targets) if not self._targets.exists(table)]
        note_loaded(self._targets.connection, self._run.key.main, missing)

    def make(self, table: DumpedTable) -> Destination:
        """Make the table, or see that rows fit into the one that is there."""
        schema, context = self._structures.schema(table), self._structures.context(table.name)
        extracted = self._rules.extracted(table.name)
        target, new = self._targets.create(
            table.structure, schema, context, self._rules.route, extracted, self._demand_unloaded
        )
        if self._read_for_replay(table) and not is_keyed(schema, target, context.flavor, extracted):
            raise DMError("load-key-missing", table=target.name, source_table=table.name)
        if new:
            self.created.append(target.name)
        settings = self._settings(target)
        if settings.zone and table.form == "sql":
            raise DMError("expression-zone-in-files", table=target.name, zone=settings.zone)
        # An index over computed values is made in the session that writes the rows.
        if new and settings == PLAIN and self._defers(table):
            self._made.append(target)
        elif not new and self._subtask.spark.defer_indexes is True:
            demand_complete(self._targets, self._run.key, schema, target)
        columns = tuple(column for column in schema.columns if column.generated is None)
        constants = constant_columns(table.name, [column.name for column in schema.columns], target, extracted)
        filled = {column.name.lower() for column in (*schema.columns, *(each.column for each in constants))}
        own = self._local_time.own_columns(target, filled) if columns else ()
        return Destination(
            target.name,
            columns,
            bool(target.unique_indexes),
            tuple((each.column, constant_literal(each.value, each.column)) for each in constants),
            naming_key(schema),
            self._subtask.spark.json_types == "exact",
            bool(columns) and not settings.zone and self._admission.of(target),
            tuple((each.column, each.inserted) for each in own if each.inserted is not None),
            tuple(column.name for column in target.columns if column.generated is not None),
            mapped_keys(schema, target),
            own_keys(schema, target),
            self._unjudged(table, target, context),
            settings,
            moment_parts(offsets=self._computing.offset_literals) if settings.zone else (),
        )

    def _unjudged(self, table: DumpedTable, target: TableSchema, context: SourceContext) -> bool:
        if "CHECK" not in table.structure.upper():
            return False  # as most: nobody is asked
        return unjudged(table.structure, context, self._targets.structure(target.name), self._targets.context)

    def _settings(self, target: TableSchema) -> TableSettings:
        targets = self._targets
        unread = targets.context.dialect.skips_checks and any(column.type.is_moment for column in target.columns)
        if unread:
            unread = has_checks(targets.structure(target.name), target, targets.context)
        return self._computing.settings(target, unread_checks=unread)

    def _defers(self, table: DumpedTable) -> bool:
        """Whether the indexes of a table that was just made come after its rows."""
        asked = self._subtask.spark.defer_indexes
        if asked != "auto":
            return asked
        # The syncer of another source may be at work on the table before this load completes it, and drop an index that
        # is not there. TiDB adds an index row by row as well.
        alone = self._subtask.sole_source and self._targets.connection.dialect.adds_indexes_at_once
        return alone and table.estimated_rows >= _WORTH_ROWS

    def _read_for_replay(self, table: DumpedTable) -> bool:
        """Whether the rows are of several moments, and the syncer is to find each again by its key."""
        syncs = self._subtask.mode in ("all", "load&sync")
        return syncs and not (table.keyless or self._structures.plan.consistent)

    def _demand_same_routes(self, plan: DumpPlan) -> None:
        """Raise DMError where rows are recorded as loaded into another table than the one that comes now.

        They would stay behind there, and the rest would go here.
        """
        planned = {table.name for table in plan.tables}
        for target, sources in self._filled.items():
            for source in sources:
                now = self._rules.route(source)
                if source in planned and now != target:
                    raise DMError("load-route-changed", source_table=source, before=target, table=now)

    @cached_property
    def _filled(self) -> Mapping[TableName, Sequence[TableName]]:
        """The target tables that have rows of earlier runs, each with the tables they are from."""
        return filled_tables(self._targets.connection, self._run)

    def _demand_unloaded(self, target: TableName) -> None:
        """Raise DMError where rows are recorded as loaded into a table that is not there."""
        sources = self._filled.get(target)
        if sources:
            raise DMError("load-table-gone", table=target, sources=", ".join(map(str, sources)))

    def finish(self) -> None:
        """Take off new tables what they get back when their rows are there."""
        if self._made:
            put_off(self._targets, self._run, self._made)
        self._made = []
