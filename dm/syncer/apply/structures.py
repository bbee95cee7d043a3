"""Which structure a table had at the binlog position being read: found once, then tracked through every DDL.

The checkpoint holds the structures at L. If a table is not there yet (a task that starts from a position without a full
load), nothing shows its structure at that moment. So two present structures are read and must agree. The source's must
match the table map exactly, and the target's table must have each of its columns, in the same order. If the source logs
FULL metadata, the map itself names the columns and is the third witness. Anything else pauses: a structure is never
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.reader import TableMap
from dm.mysql.binlog.table_map import mismatch
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import TableSchema, wire_columns
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.operation import RenameTable
from dm.mysql.sql.piece import Piece
from dm.mysql.types.documents import may_hold_documents
from dm.position import Position
from dm.rules.router import FoldedNames, folded, refuse_alike
from dm.rules.table_rules import TableRules


@dataclass(frozen=True, slots=True)
class TargetLook:
    """What the target has of a table of the source."""

    read: Callable[[TableName], TableSchema | None]  # the table, or one of those that its rows go to
    left_out: Callable[[TableName], Collection[str]] = lambda _table: ()  # columns, lower case, that it is not to have


class TrackedStructures:
    """The tracked structures of the source's tables, checked against every new table map."""

    def __init__(
        self,
        tracker: SchemaTracker,
        flavor: Flavor,
        read_source: Callable[[TableName], TableSchema | None],
        target: TargetLook,
        found: Callable[[TableSchema], None],
        *,
        loaded: bool = False,
    ) -> None:
        # A full load creates each table that it reads at the target; DDL in the binlog creates each later one.
        self.unread = (
            "; the full load of this task did not read it, or it was dropped since: the rows that it had before are"
            " missing at the target, and only a load brings them"
            if loaded
            else ""
        )
        self.tracker = tracker
        self.flavor: Flavor = flavor  # the source's
        self._read_source = read_source
        self._target = target
        self._found = found

    def at(self, table_map: TableMap, position: Position) -> TableSchema:
        """The structure of a table map's table; raises DMError when it does not match or is unknown."""
        table = TableName(table_map.schema, table_map.table)
        tracked = self.tracker.get(table)
        if tracked is None:
            tracked = self._find(table, table_map, position)
            self.tracker.set(tracked)
            tracked = self.tracker.get(table) or tracked  # with columns that only the target has kept
            self._found(tracked)
            return tracked
        why = mismatch(table_map, wire_columns(tracked, self.flavor))
        if why is not None:
            raise DMError("structure-mismatch", table=str(table), why=why, position=position)
        return tracked

    def _find(self, table: TableName, table_map: TableMap, position: Position) -> TableSchema:
        source = self._read_source(table)
        if source is None:
            raise DMError(
                "structure-unknown",
                table=str(table),
                why=f"the source has no such table now{self.unread}",
                position=position,
            )
        why = mismatch(table_map, wire_columns(source, self.flavor))
        if why is not None:
            raise DMError(
                "structure-unknown",
                table=str(table),
                why=f"the source's present one does not fit: {why}{self.unread}",
                position=position,
            )
        target = self._target.read(table)
        if target is None:
            raise DMError(
                "structure-unknown",
                table=str(table),
                why=f"the target has no such table{self.unread}",
                position=position,
            )
        wanted, there = (", ".join(column.name.lower() for column in one.columns) for one in (source, target))
        if not _same_names(source, target, self._target.left_out(table)):
            raise DMError(
                "structure-unknown",
                table=str(table),
                why=f"source and target differ in their columns: {wanted} and {there}{self.unread}",
                position=position,
            )
        return source


def _same_names(source: TableSchema, target: TableSchema, left_out: Collection[str] = ()) -> bool:
    """Whether the target has all columns of the source but those left out, in the same order; it may have more."""
    wanted = [name for column in source.columns if (name := column.name.lower()) not in left_out]
    return [name for column in target.columns if (name := column.name.lower()) in wanted] == wanted


def alike(source: TableSchema, target: TableSchema) -> bool:
    """Whether rows of the source's table, read with the target's columns, are the same rows."""
    return _same_names(source, target) and all(
        may_hold_documents(one.type)
        or (one.type, one.unsigned, one.charset, one.members)
        == (other.type, other.unsigned, other.charset, other.members)
        for one in source.columns
        if (other := target.column(one.name)) is not None
    )


class TargetNames:
    """Keeps the followed tables distinct at a target that folds names (`dm.rules.router`).

    Asked about each table before its first row, and about each statement; belongs to the unit's own thread.
    """

    def __init__(self, tracker: SchemaTracker, rules: TableRules, *, folded: bool) -> None:
        self._tracker = tracker
        self._rules = rules
        self._folded = folded  # the target ignores case in names
        self._known = FoldedNames(filter(rules.wanted, tracker.tables() if folded else ()), rules.destinations)
        if folded:
            tracker.listen(self._moved)

    def _moved(self, table: TableName) -> None:
        if self._rules.wanted(table):  # others have no place at the target
            (self._known.remove if self._tracker.get(table) is None else self._known.add)(table)

    def demand_own(self, table: TableName, position: Position) -> None:
        """Raise DMError if the target takes another followed table for the same one."""
        if self._folded:
            with _at(position):
                self._known.demand_own(table)

    def demand_apart(self, tables: Collection[TableName], made: Collection[TableName], position: Position) -> None:
        """The same for a statement that names these tables and creates those."""
        if not self._folded:
            return
        with _at(position):
            refuse_alike(made, self._rules.destinations)
            for table in (*made, *tables):
                self._known.demand_own(table, lambda other: other not in tables)

    def only_respelt(self, piece: Piece) -> bool:
        """Whether the piece only gives a table a name that the target takes for the same."""
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
