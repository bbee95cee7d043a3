"""Optimistic shard merge: the statements that all shards have to arrive at before the target gets them.

This depends on the statement, the shard's own structure and the target's keys, which change for all at once. It does
not depend on how far other shards are. So the same statement waits in every shard, and no statement waits for one that
others have passed. All shards have to arrive at:

- Keys. The plans and the conflict detectors of other subtasks were made from the target's keys.
- Changes of values or names: rows of shards that have not altered yet would get values that their source did not.
- DEFAULTs. Rows of shards that lack the column have the target's (`dm.mysql.schema.joined_table`).
- Any change, if the target has no key for the rows. They are found by all values, and those of a shard that lacks a
  column would match another shard's. So all have one structure.
- Partitions, unless ADD PARTITION only adds some to a RANGE or LIST. The target places rows by its own partitions. More
  of them take the rows of every shard. Fewer or other ones refuse or remove rows of shards that have not altered.
"""

from __future__ import annotations

from dm.mysql.schema.joined_table import column_change, filling, finds_rows, implicit_default, needs_value
from dm.mysql.schema.normal import index_form, key_form
from dm.mysql.schema.partition import added_by_values
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.mysql.sql.operation import (
    AddColumn,
    AddIndex,
    AlterDefault,
    ChangeColumn,
    DropColumn,
    DropIndex,
    ModifyColumn,
    RenameColumn,
)
from dm.mysql.sql.piece import Piece

_PASSING = AddColumn | DropColumn | ModifyColumn | ChangeColumn | AlterDefault | AddIndex | DropIndex


def gated(
    piece: Piece, before: TableSchema, after: TableSchema, target: TableSchema | None, extracted: frozenset[str]
) -> str:
    """Why all shards have to arrive at a piece; empty if they need not.

    `extracted` are columns of the target that hold parts of names, in lower case.
    """
    if target is not None and (why := _at_target(before, after, target, extracted)):
        return why
    if len(piece.operations) > 1:
        return "its operations belong together"
    for operation in piece.operations:
        if isinstance(operation, RenameColumn):
            return "a column gets another name"
        if isinstance(operation, ChangeColumn) and operation.column.lower() != operation.name.lower():
            return "a column gets another name"
        if not isinstance(operation, _PASSING) and added_by_values(piece) is None:
            return "only columns and indexes may differ between shards"
    return _table(before, after) or _columns(before, after) or _indexes(before, after)


def _at_target(before: TableSchema, after: TableSchema, target: TableSchema, extracted: frozenset[str]) -> str:
    if not finds_rows(before, target, extracted):
        return "the target has no key for its rows"
    for name in (name for index in target.unique_indexes for name in index.columns):
        one, other = before.column(name), after.column(name)
        if one is not other and (one is None or other is None or not column_change(one, other).nothing):
            return f"a key of the target has the column (column {name})"
    return ""


def _table(before: TableSchema, after: TableSchema) -> str:
    if _keys(before) != _keys(after):
        return "a key changes"
    if [key_form(key) for key in before.foreign_keys] != [key_form(key) for key in after.foreign_keys]:
        return "a foreign key changes"
    if before.checks != after.checks:
        return "a CHECK changes"
    if (before.charset, before.collation, before.engine) != (after.charset, after.collation, after.engine):
        return "the table's character set or engine changes"
    return ""


def _keys(schema: TableSchema) -> dict[str, tuple[object, ...]]:
    return {index.name.lower(): index_form(index, schema) for index in schema.unique_indexes}


def _columns(before: TableSchema, after: TableSchema) -> str:
    common = [column.name.lower() for column in before.columns if after.column(column.name) is not None]
    if common != [column.name.lower() for column in after.columns if before.column(column.name) is not None]:
        return "columns change places"
    for column in before.columns:
        there = after.column(column.name)
        why = _dropped(column, before) if there is None else _changed(column, there, before)
        if why:
            return f"{why} (column {column.name})"
    for column in after.columns:
        if before.column(column.name) is None and (why := _added(column)):
            return f"{why} (column {column.name})"
    return ""


def _dropped(column: Column, schema: TableSchema) -> str:
    if _indexed(column, schema.indexes):
        return "an index has the column"
    if column.generated is not None:
        return "the column is generated"
    if _judged(column, schema):
        return "a CHECK or a generated column may use it"
    if needs_value(column) and implicit_default(column) is None:
        return "no literal can stand for the value that rows of other shards have"
    return ""


def _added(column: Column) -> str:
    if column.generated is not None or column.auto_increment or column.on_update or column.invisible:
        return "the column has values of its own"
    if filling(column) is None:
        return "its rows get no constant value"
    return ""


def _changed(before: Column, after: Column, schema: TableSchema) -> str:
    change = column_change(before, after)
    if change.nothing:
        return ""
    if change.other:
        return change.other
    if _indexed(before, schema.unique_indexes):
        return "a key has the column"
    if _judged(before, schema):
        return "a CHECK or a generated column may use it"
    if change.to_not_null and change.widens:
        return "it changes its type and becomes NOT NULL at once"
    return ""


def _indexed(column: Column, indexes: tuple[Index, ...]) -> bool:
    name = column.name.lower()
    return any(name in map(str.lower, index.columns) or index.functional for index in indexes)


def _judged(column: Column, schema: TableSchema) -> bool:
    """Whether a CHECK or a generated column may use the column."""
    others = (other for other in schema.columns if other.name != column.name)
    return bool(schema.checks) or any(other.generated is not None for other in others)


def _indexes(before: TableSchema, after: TableSchema) -> str:
    there = {index.name.lower(): index for index in before.indexes}
    for index in after.indexes:
        known = there.get(index.name.lower())
        if known is None and index.functional:
            return "the index computes a column"
        if known is not None and index_form(known, before) != index_form(index, after):
            return "an index changes"
    return ""
