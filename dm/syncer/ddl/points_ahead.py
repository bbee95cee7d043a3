"""Which tables the dump read behind a statement, or found gone, while the statement's pieces are planned.

Such a table has a point: what the source did to it before is in its structure and rows already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.sql.operation import ExchangePartition, RenameTable
from dm.sql.piece import Piece
from dm.syncer.ddl.known import DumpWindow, KnownStructures
from dm.syncer.stream.transaction import SourceTransaction

_SWAPS = (RenameTable, ExchangePartition)


class PointsAhead:
    """The points as of one event; `found` are those that its pieces add."""

    def __init__(self, window: DumpWindow, structures: KnownStructures, transaction: SourceTransaction) -> None:
        self._window = window
        self._structures = structures
        self._transaction = transaction
        self.found: dict[TableName, Position] = {}

    def pass_on(self, piece: Piece) -> None:
        """A table that got a name which the dump never saw keeps the point of its old one.

        The dump ended with a look at all tables behind every point, and read each that it did not know with a point of
        its own. So the new name was given up before that look, and its rows went with it or stand under a later name.
        A name that the plan had at P0 is known for ever (`write_handover`): which table the dump read under it is not.
        """
        for old, new in piece.renames:
            point = self._point(old)
            if point is None or self._point(new) is not None or self._structures.get(new) is not None:
                continue
            if self._passed(point):
                self.found[new] = point

    def behind(self, tables: Iterable[TableName]) -> frozenset[TableName]:
        """Those of the tables that the dump read behind the statement."""
        return frozenset(table for table in tables if (point := self._point(table)) is not None and self._passed(point))

    def refuse_swap(self, piece: Piece, tables: Sequence[TableName]) -> None:
        """Raise DMError for tables that change places while the dump reads.

        They look the same afterwards, so the dump could not notice, and which rows it read under which name is not
        known.
        """
        if any(isinstance(each, _SWAPS) for each in piece.operations) and self._dump_reads():
            raise DMError("ddl-within-dump", statement=piece.text, tables=", ".join(map(str, tables)))

    def left_beside(self, piece: Piece, behind: frozenset[TableName]) -> list[Piece]:
        """What is left of a statement, some of whose tables the dump read behind it; raises DMError.

        A schema change by a copy, under names that no rule tells, ends with RENAME t TO old, copy TO t. If that falls
        into the dump, t and old have points behind it, and the copy, which the dump never saw, only has to go.
        """
        left = [table for table in piece.changed if table not in behind]
        names = {new for _, new in piece.renames}
        if not names or any(table in names for table in left):
            raise DMError("ddl-within-dump", statement=piece.text, tables=", ".join(map(str, behind)))
        return [Piece.of(f"DROP TABLE {table.sql}", piece.context) for table in left]

    def _point(self, table: TableName) -> Position | None:
        return self.found.get(table) or self._window.points.get(table)

    def _passed(self, point: Position) -> bool:
        return point.has_processed(self._transaction.gtid, self._transaction.end)

    def _dump_reads(self) -> bool:
        """Whether the dump was still reading tables when the transaction began."""
        until = self._window.until
        return until is not None and not self._transaction.begin.covers(until)
