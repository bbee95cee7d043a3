"""What a statement of the binlog means for tables and for rows that wait.

The plan of a statement is the syncer's own (`dm.syncer.ddl.planner`), so lists, filters, routes and online DDL count
as they did when it was executed. The structures follow its steps as the syncer's do. Nothing is executed here: what
is read lies after the syncer's checkpoint.

Rows that wait are older than the statement, and the target has it already:

- of a table that was dropped or emptied, they wait for nothing any more;
- of a renamed table, they wait under the new name;
- of an altered table, only columns count that the statement has left as they were, and without one of its key's
  columns the row can't be found any more.

A statement that was left out at the target changes nothing there. One that can't be understood, which a person has
skipped or replaced, may have changed anything: the tables that it names are not validated until their structure is
known again, which it is at the syncer's next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.effect_on_rows import effect_of
from dm.mysql.sql.operation import (
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    ExchangePartition,
    Operation,
    OtherAlter,
    RenameTable,
    TruncateTable,
)
from dm.mysql.sql.piece import Piece
from dm.progress.intent import OnlineRecord
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.source_server import SourceServer
from dm.sourcelog.stream.transaction import SourceTransaction, StatementItem
from dm.syncer.ddl.plan import CutOver, DumpWindow, Execute, PlanningState, SourceAnswers, StatementEvent, pausing
from dm.syncer.ddl.planner import plan
from dm.syncer.ddl.temporary_tables import TemporaryTables
from dm.syncer.ddl.tracking import StructureTracking
from dm.tools.validator.pending import PendingRows, Shape
from dm.tools.validator.source_tables import SourceTables

# Of what no structure shows: keys on or off, a rebuild, another order on disk. Partitions may go with their rows.
_REBUILDS: Final = frozenset({"ENABLE", "DISABLE", "FORCE", "ORDER"})


@dataclass
class Statements:
    """Follows the statements of one source; belongs to the reader's thread."""

    server: SourceServer
    rules: TableRules
    tables: SourceTables
    pending: PendingRows
    schemas: TargetSchemas
    known: PlanningState
    superseded: int = 0  # rows that a statement has taken away, or made unfindable

    @classmethod
    def of(
        cls,
        server: SourceServer,
        rules: TableRules,
        tables: SourceTables,
        pending: PendingRows,
        schemas: TargetSchemas,
        *,
        online: Mapping[TableName, OnlineRecord],
    ) -> Statements:
        """Those from a place on where these online DDLs are under way."""
        # Whether a name is a view does not matter to rows that were applied, and asking is about the present.
        source = SourceAnswers(server.context_of, lambda _: False, server.present_table)
        known = PlanningState(rules, tables.tracker, source, DumpWindow(tables.points), online, TemporaryTables())
        return cls(server, rules, tables, pending, schemas, known)

    def follow(self, item: StatementItem, transaction: SourceTransaction) -> None:
        """The next statement."""
        with self.tables.tracker.changing() as before:
            self._follow(item, transaction, before)

    def _follow(
        self, item: StatementItem, transaction: SourceTransaction, before: Mapping[TableName, TableSchema | None]
    ) -> None:
        tracker = self.tables.tracker
        dropped = set[tuple[TableName, str]]()
        try:
            with pausing(item.query.readable):
                planned = plan(StatementEvent(item.query, transaction), self.known)
            tracking = StructureTracking(tracker, self.rules, self.schemas)
            for step in planned.steps:
                if isinstance(step, CutOver):
                    continue
                if isinstance(step, Execute):
                    self._executed(step.piece)
                for operation in step.piece.operations:
                    if isinstance(operation, DropColumn):
                        dropped.add((step.piece.table, operation.column.lower()))
                tracking.follow(step)
        except DMError:
            # The syncer has passed it, by a person's word or by a filter.
            self._not_understood(item)
            return
        self.tables.points.update(planned.points)
        online = {**self.known.online, **planned.online}
        self.known = replace(
            self.known,
            temporary=planned.temporary,
            online={name: record for name, record in online.items() if record is not None},
        )
        if planned.steps:
            self._altered(before, dropped)
            self.tables.forget()

    def _not_understood(self, item: StatementItem) -> None:
        tracker = self.tables.tracker
        effect = effect_of(item.query.readable, self.server.context_of(item.query), self.rules.wanted)
        touched = effect.stands_before([table for table in tracker.tables() if self.rules.wanted(table)])
        for table in touched:
            tracker.forget(table)
        if touched:
            names = frozenset(touched)
            self.superseded += self.pending.forget(lambda shape: shape.source in names)
            self.tables.forget()

    def _executed(self, piece: Piece) -> None:
        """What the target has executed of this has happened to rows that wait."""
        for operation in piece.operations:
            if isinstance(operation, RenameTable):
                self._renamed(operation)
            elif (gone := _emptied(piece, operation)) is not None:
                self.superseded += self.pending.forget(gone)

    def _renamed(self, operation: RenameTable) -> None:
        for old, new in operation.pairs:
            if self.rules.wanted(new):
                self.pending.rename({old: (new, self.rules.route(new))})
            else:
                self.superseded += self.pending.forget(_of(old))

    def _altered(self, before: Mapping[TableName, TableSchema | None], dropped: set[tuple[TableName, str]]) -> None:
        """Columns that are not what they were do not count for rows from before."""
        tracker = self.tables.tracker
        for shape in {row.shape for row in self.pending.all()}:
            was, now = before.get(shape.source), tracker.get(shape.source)
            if was is None or was is now:
                continue
            if now is None:
                self.superseded += self.pending.forget(_is(shape))
                continue
            changed = {name.lower() for name in _changed(was, now)}
            changed |= {name for table, name in dropped if table == shape.source}
            shape.compared = frozenset(name for name in shape.compared if name.lower() not in changed)
            shape.version += 1
            if any(name.lower() in changed for name in shape.key):
                self.superseded += self.pending.forget(_is(shape))


def _emptied(piece: Piece, operation: Operation) -> Callable[[Shape], bool] | None:
    """Whose rows an operation takes away."""
    match operation:
        case DropDatabase(name=name):
            return lambda shape: shape.source.schema == name.schema
        case DropTable(table=table) | TruncateTable(table=table):
            return _of(table)
        case CreateTable(table=table, or_replace=True):
            return _of(table)
        case ExchangePartition():
            names = frozenset(piece.tables)
            return lambda shape: shape.source in names
        case OtherAlter(clause=clause) if not clause.words or clause.words[0] not in _REBUILDS:
            return _of(piece.table)
    return None


def _of(table: TableName) -> Callable[[Shape], bool]:
    return lambda shape: shape.source == table


def _is(shape: Shape) -> Callable[[Shape], bool]:
    return lambda other: other is shape


def _changed(was: TableSchema, now: TableSchema) -> list[str]:
    """Names of columns whose values the statement may have changed, or that are gone."""
    return [
        column.name
        for column in was.columns
        if (there := now.column(column.name)) is None or _values(there) != _values(column)
    ]


def _values(column: Column) -> tuple[object, ...]:
    """What decides a column's values."""
    return (
        column.type, column.length, column.decimals, column.unsigned, column.charset, column.collation, column.members,
        column.nullable, column.generated, column.expression,
    )  # fmt: skip
