"""The table as a query knows it, and whether a statement leaves it so."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dm.errors import DMError
from dm.mysql.dialect import dialect
from dm.mysql.schema.charset import UNKNOWN, Collated
from dm.mysql.schema.normal import same_column
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Column, TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.operation import CreateTable
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.rows_before import Effect, effect_of
from dm.position import Position
from dm.sourcelog.stream.transaction import RowsItem, StatementItem
from dm.tools.feed.options import FeedOptions
from dm.tools.feed.prepared import SeenPrepared

_EARLIEST: Final = ("", "earliest")


class KnownTable:
    """Knows whether the table is there already: if so, CREATE TABLE IF NOT EXISTS does nothing."""

    def __init__(self, options: FeedOptions) -> None:
        self._options = options
        # Where a person names a place, or a dump does, the structure is that of the table there.
        self._there = options.point is not None or options.start not in _EARLIEST

    def has_rows(self) -> None:
        """Rows of it were met."""
        self._there = True

    def stays(self, item: StatementItem, end: Position) -> bool:
        """Whether the table has the columns and rows after the statement that it had; raises DMError.

        `end` is that of the statement's transaction.
        """
        context, text = self._context(item), item.query.readable
        effect = self._effect(item)
        if effect.stands_before(self._options.structures):
            # CREATE OR REPLACE takes the rows of the table that was there, and the binlog does not name them.
            stays = self._makes_it(text, context) and not (_replaces(text, context) and self._is_there(end))
        elif self._there or not self._names(effect) or _creation(text, context) is None:
            stays = True
        else:
            stays = self._makes_it(text, context) or self._is_there(end)
        if stays and self._names(effect):
            self._there = True
        return stays

    def _context(self, item: StatementItem) -> SourceContext:
        query, flavor = item.query, self._options.flavor
        return SourceContext.of_sql_mode(flavor, dialect(flavor).newest, query.schema, query.sql_mode or 0)

    def _effect(self, item: StatementItem) -> Effect:
        return effect_of(item.query.readable, self._context(item), lambda table: table in self._options.structures)

    def _names(self, effect: Effect) -> bool:
        return any(table in self._options.structures for table in effect.named)

    def _makes_it(self, text: str, context: SourceContext) -> bool:
        """Whether the statement creates the table with the columns that are expected."""
        creation = _creation(text, context)
        expected = None if creation is None else self._options.structures.get(creation.table)
        if creation is None or creation.like is not None or expected is None:
            return False
        try:
            # The event doesn't tell the character set of its schema: what is inherited is what is expected.
            inherited = Collated(expected.charset, expected.collation or "") if expected.charset else UNKNOWN
            made = parse_create_table(text, context, inherited)
        except DMError:
            return False
        return _same_images(made, expected)

    def _is_there(self, end: Position) -> bool:
        """Whether there is a table before a statement."""
        return self._there or self._was_there(end)

    def _was_there(self, end: Position) -> bool:
        """Whether the relay has something of the table before a statement, in what an earlier batch has read."""
        for transaction in self._options.transactions(self._options.first(), SeenPrepared()):
            if transaction.end.covers(end):
                return False
            for item in transaction.items:
                if isinstance(item, RowsItem) or self._names(self._effect(item)):
                    return True
        return False


def _creation(text: str, context: SourceContext) -> CreateTable | None:
    try:
        operation = Piece.of(text, context).operation
    except DMError:
        return None
    return operation if isinstance(operation, CreateTable) else None


def _replaces(text: str, context: SourceContext) -> bool:
    creation = _creation(text, context)
    return creation is not None and creation.or_replace


def _same_images(one: TableSchema, other: TableSchema) -> bool:
    """Whether bytes of rows mean the same in both."""
    return len(one.columns) == len(other.columns) and all(
        same_column(_of_images(left), _of_images(right)) for left, right in zip(one.columns, other.columns, strict=True)
    )


def _of_images(column: Column) -> Column:
    return replace(
        column, collation=None, nullable=True, default=None, on_update=None, auto_increment=False, expression=None,
        invisible=False,
    )  # fmt: skip
