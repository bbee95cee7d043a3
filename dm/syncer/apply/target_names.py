"""Whether the followed tables stay distinct at a target that folds their names (`dm.rules.folded_names`)."""

from __future__ import annotations

from collections.abc import Collection

from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.folded_names import FoldedNames, folded
from dm.rules.table_rules import TableRules
from dm.schema.tracker import SchemaTracker
from dm.sql.operation import RenameTable
from dm.sql.piece import Piece


class TargetNames:
    """Asked about each table before its first row, and each statement; belongs to the unit's own thread."""

    def __init__(self, tracker: SchemaTracker, rules: TableRules, *, folded: bool) -> None:
        self._tracker = tracker
        self._rules = rules
        self._folded = folded  # the target ignores case in names
        self._known: FoldedNames | None = None  # until a statement changes the set of tables

    def forget(self) -> None:
        """Tables were created or removed."""
        self._known = None

    def demand_own(self, table: TableName, position: Position) -> None:
        """Raise DMError if another followed table is the same one to the target."""
        if not self._folded:
            return
        if self._known is None:
            self._known = FoldedNames(self._wanted(), self._rules.route)
        else:
            self._known.add(table)
        self._demand(self._known, [table], position)

    def demand_apart(self, tables: Collection[TableName], made: Collection[TableName], position: Position) -> None:
        """The same for a statement that names these tables and leaves those it created."""
        if not self._folded:
            return
        others = [table for table in self._wanted() if table not in tables]
        self._demand(FoldedNames([*others, *made], self._rules.route), made, position)
        self._demand(FoldedNames(others, self._rules.route), tables, position)

    def only_respelt(self, piece: Piece) -> bool:
        """Whether the piece only gives a table a name that is the same one to the target."""
        operation = piece.operations[0] if len(piece.operations) == 1 else None
        if not self._folded or not isinstance(operation, RenameTable):
            return False
        names = [(self._rules.route(old), self._rules.route(new)) for old, new in operation.pairs]
        return all(folded(old) == folded(new) for old, new in names)

    def _wanted(self) -> list[TableName]:
        return [table for table in self._tracker.tables() if self._rules.wanted(table)]

    @staticmethod
    def _demand(known: FoldedNames, tables: Collection[TableName], position: Position) -> None:
        try:
            for table in tables:
                known.demand_own(table)
        except DMError as error:
            error.position = str(position)
            raise
