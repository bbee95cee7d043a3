"""A statement must not give the target's rows other values than the source's rows got from it.

`dm.sql.own_values` says what a statement leaves to the server. Harmless where there is no row, and what goes by the
order of the rows is harmless with one row, or where both tables keep their rows in the same order: InnoDB reads them by
the primary key, or by its only key that can stand in for one. Without such a key the order is that of the inserts, and
sessions that ran side by side at the source came in the binlog in the order of their commits. Rows that a filter left
out, or that another source table brought, count as another order, too.

What is not harmless pauses: later rows would be looked for by values that the target's rows do not have.
"""

from __future__ import annotations

from dm.errors import DMError
from dm.position import Position
from dm.rules.table_rules import RowEvent, TableRules
from dm.schema.table import Column, Index, TableSchema
from dm.schema.tracker import SchemaTracker
from dm.sql.own_values import OwnValues, own_values
from dm.sql.piece import Piece
from dm.syncer.ddl_session import DdlSession

_KINDS: tuple[RowEvent, ...] = ("insert", "update", "delete")
_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})


def refuse_other_values(
    piece: Piece,
    target: TableSchema | None,
    *,
    tracker: SchemaTracker,
    rules: TableRules,
    session: DdlSession,
    position: Position,
) -> None:
    """Raise DMError where the target's rows would get other values; `target` is the table before the piece."""
    if target is None:
        return
    source = tracker.get(piece.table)
    for own in own_values(piece):
        column = None if own.column is None or source is None else source.column(own.column)
        if column is not None and column.auto_increment:
            continue
        if _harmless(own, piece, source, target, tracker, rules):
            continue
        if session.has_rows(target.name, 2 if own.ordered else 1, own.condition):
            raise DMError("ddl-values-differ", what=own.what, statement=piece.text, position=position)


def _harmless(
    own: OwnValues,
    piece: Piece,
    source: TableSchema | None,
    target: TableSchema,
    tracker: SchemaTracker,
    rules: TableRules,
) -> bool:
    if not own.ordered or source is None:
        return False
    gathered = [table for table in tracker.tables() if rules.wanted(table) and rules.route(table) == target.name]
    whole = rules.row_filter(source) is None and all(rules.row_event(source.name, kind) == "do" for kind in _KINDS)
    return whole and gathered == [piece.table] and _order(source) is not None and _order(source) == _order(target)


def _order(schema: TableSchema) -> tuple[object, ...] | None:
    """What decides in which order a server meets the rows; None where no structure shows it."""
    index = _clustered(schema)
    if index is None or (schema.engine or "innodb").lower() != "innodb":
        return None
    parts = [(part, schema.column(part.column or "")) for part in index.parts]
    return schema.partitions, *(
        (column.name.lower(), _compared(column), part.prefix, part.descending)
        for part, column in parts
        if column is not None
    )


def _clustered(schema: TableSchema) -> Index | None:
    primary = [index for index in schema.indexes if index.kind == "primary"]
    whole = [index for index in schema.unique_indexes if _stands_in(index, schema)]
    # Of several the server takes one that the structure does not tell.
    return primary[0] if primary else whole[0] if len(whole) == 1 else None


def _stands_in(index: Index, schema: TableSchema) -> bool:
    columns = [schema.column(part.column or "") for part in index.parts]
    return all(column is not None and not column.nullable for column in columns) and all(
        part.prefix is None for part in index.parts
    )


def _compared(column: Column) -> tuple[object, ...]:
    kind = "integer" if column.base in _INTEGERS else column.base
    return kind, column.collation, column.members
