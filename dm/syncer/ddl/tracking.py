"""How the tracked structures of the source follow the steps of a plan, executed or not."""

from __future__ import annotations

from collections.abc import Iterable

from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.reader import TableMap
from dm.mysql.binlog.table_map import mismatch
from dm.mysql.schema.effect import same_structure
from dm.mysql.schema.table import TableSchema, wire_columns
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.operation import CreateTable, DropColumn
from dm.mysql.sql.piece import Piece
from dm.rules.table_rules import TableRules
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction
from dm.syncer.apply.structures import alike
from dm.syncer.ddl.plan import Execute, Forget, PieceStep, TrackOnly, pausing


class StructureTracking:
    """Tracks pieces; belongs to the unit's own thread."""

    def __init__(self, tracker: SchemaTracker, rules: TableRules, targets: TargetSchemas) -> None:
        self.tracker = tracker
        self._rules = rules
        self._targets = targets

    def follow(self, step: PieceStep) -> None:
        """Track a step; raises DMError if the known structures do not allow it."""
        if not isinstance(step, Forget) and step.track == "not":
            return
        kept = [schema for table in step.kept if (schema := self.tracker.get(table)) is not None]
        if isinstance(step, Forget) or not self._followed(step.piece, demanded=step.track == "exactly"):
            for table in step.piece.changed:
                self.tracker.forget(table)  # it is found again when its next rows come
        for schema in kept:
            self.tracker.set(schema)
        dropped = [each.column for each in step.piece.operations if isinstance(each, DropColumn)]
        if dropped and not isinstance(step, Execute) and self._rules.wanted(step.piece.table):
            self.tracker.keep_dropped(step.piece.table, dropped)

    def adopt(self, pieces: Iterable[Piece], transaction: SourceTransaction) -> set[TableName]:
        """Track injected pieces for tables whose rows prove that the source has that structure; returns them."""
        pieces = list(pieces)
        maps = {
            TableName(item.table_map.schema, item.table_map.table): item.table_map
            for item in transaction.items
            if isinstance(item, RowsItem)
        }
        known = {table: self.tracker.get(table) for piece in pieces for table in piece.tables}
        adopted: set[TableName] = set()
        with self.tracker.changing() as structures:
            for piece in pieces:
                self.follow(TrackOnly(piece, "if possible"))
        for table, before in known.items():
            after = self.tracker.get(table)
            if table in maps and not _fits(before, maps[table]) and _fits(after, maps[table]):
                adopted.add(table)
            elif before is not None:
                self.tracker.set(before)
            else:
                self.tracker.forget(table)
        if not adopted:
            for schema in self.tracker.with_other_keys(structures).values():
                self.tracker.set(schema)
        return adopted

    def _followed(self, piece: Piece, *, demanded: bool) -> bool:
        untold = self._untold(piece)
        try:
            with pausing(piece.text):
                self.tracker.apply(piece)
        except DMError:
            if self._read_again(piece):
                return True
            if demanded:
                raise
            return False
        return untold is None or self._as_at_target(untold)

    def _untold(self, piece: Piece) -> TableName | None:
        """The table of a CREATE TABLE IF NOT EXISTS, if it is unknown: then it is unclear whether this created it."""
        operation = piece.operation
        if not isinstance(operation, CreateTable) or not operation.if_not_exists:
            return None
        return operation.table if self.tracker.get(operation.table) is None else None

    def _as_at_target(self, table: TableName) -> bool:
        """Whether the target, which got its columns from the source, has the columns of the statement."""
        schema, target = self.tracker.get(table), self._targets.read(self._rules.destinations(table)[0])
        return schema is None or (target is not None and alike(schema, target))

    def _read_again(self, piece: Piece) -> bool:
        """Whether this creates exactly the table that is known already.

        The point after a CREATE TABLE .. SELECT is the begin of its transaction, since its rows are not applied then
        (`DdlBarrier.run`); a run that starts there reads the statement once more.
        """
        if not isinstance(piece.operation, CreateTable):
            return False
        known = self.tracker.get(piece.operation.table)
        if known is None:
            return False
        self.tracker.forget(known.name)
        try:
            self.tracker.apply(piece)
        except DMError:
            created = None
        else:
            created = self.tracker.get(known.name)
        self.tracker.set(known)
        return created is not None and same_structure(created, known)


def _fits(schema: TableSchema | None, table_map: TableMap) -> bool:
    return schema is not None and mismatch(table_map, wire_columns(schema, table_map.flavor)) is None
