"""Whether the followed tables stay distinct at a target that folds their names (`dm.rules.folded_names`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.rules.folded_names import FoldedNames, folded, refuse_alike
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
        self._known = FoldedNames(filter(rules.wanted, tracker.tables() if folded else ()), rules.route)
        if folded:
            tracker.listen(self._moved)

    def _moved(self, table: TableName) -> None:
        if self._rules.wanted(table):  # others have no place at the target
            (self._known.remove if self._tracker.get(table) is None else self._known.add)(table)

    def demand_own(self, table: TableName, position: Position) -> None:
        """Raise DMError if another followed table is the same one to the target."""
        if self._folded:
            with _at(position):
                self._known.demand_own(table)

    def demand_apart(self, tables: Collection[TableName], made: Collection[TableName], position: Position) -> None:
        """The same for a statement that names these tables and leaves those it created."""
        if not self._folded:
            return
        with _at(position):
            refuse_alike(made, self._rules.route)
            for table in (*made, *tables):
                self._known.demand_own(table, lambda other: other not in tables)

    def only_respelt(self, piece: Piece) -> bool:
        """Whether the piece only gives a table a name that is the same one to the target."""
        operation = piece.operations[0] if len(piece.operations) == 1 else None
        if not self._folded or not isinstance(operation, RenameTable):
            return False
        names = [(self._rules.route(old), self._rules.route(new)) for old, new in operation.pairs]
        return all(folded(old) == folded(new) for old, new in names)


@contextmanager
def _at(position: Position) -> Iterator[None]:
    try:
        yield
    except DMError as error:
        error.position = str(position)
        raise
