"""How the changes of one source table become changes of one target table: worked out once per pair of structures.

Everything that depends on the structures only is decided here, so that the way of a row is a few calls of prepared
functions: which column goes where, which keys order the changes, which key finds a row again, which statements are
allowed.

`keyed` tables have a primary key, or a unique key without NULLs, whose columns all come from the source row unchanged.
Only these can be replayed (safe mode); everything else is applied exactly once, in order, by comparing whole rows.
Where that key is unique at the target only, rows of the source may exchange its values. A row is then found by the
source's own key besides (`identity`): in a replay the one that holds the key by now may be another row.

What may not be done to a table, and why:

- REPLACE, if the target has columns the source lacks (it would reset them), or if rows of other tables refer to it and
  the target checks that (it would delete the parent). `upsert` says so: UPDATE, and INSERT if there was no row.
- INSERT .. ON DUPLICATE KEY UPDATE, with columns the source lacks (they may have no default), or with triggers, which
  would see an INSERT.
- Changing the order of changes, if triggers or checked foreign keys make one row's change depend on other rows.
- Leaving out what a later change of the row makes up for (`compact`), if the target might have refused it: each column
  must have the source's own type there, and nothing there may judge or compute values.

`ordered` tables go to the one ordered lane, exactly once and in the source's order: those without a key, and, where the
target checks foreign keys, those that a foreign key joins, over however many steps,

- to a table without a key, whose rows could not wait for theirs in another lane, or
- by foreign keys that change rows by themselves (`cascades`). What such a change does depends on all rows that are
  there at that moment. So these are never replayed either.

Where several tables are merged into one, those without a key take the others along (`dm.changes.shared_keys`).

The changes of other joined tables carry their parents' keys and are free otherwise. While they are replayed, rows of
two times stand together, so nothing is checked then (`RowChange.unchecked`): the source has checked it all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dm.binlog.value import Row
from dm.changes.collation import Weights
from dm.changes.column_map import MappedColumn, map_columns
from dm.changes.comparison import Comparison, exact
from dm.changes.constant import ConstantColumn
from dm.changes.fold import faithful, fold_for
from dm.changes.keys import Key, KeyFunction, KeyPart, key_function, table_key, wild_key
from dm.changes.narrowing import refuse_narrower
from dm.changes.row_text import RowText, listed_text, row_text
from dm.changes.shared_keys import SharedKeys
from dm.changes.target_table import TargetTable
from dm.config.syncer import InsertMode, MissingRow, NarrowerColumns
from dm.errors import DMError
from dm.flavor import Flavor
from dm.ident import TableName
from dm.schema.table import Column, ForeignKey, Index, TableSchema
from dm.type_family import BLOB_BYTES, FLOATS, INTEGERS, LONG_TEXT_BYTES

# Beyond this the optimizer may give up the ranges of an IN list; INSERTs gain nothing more either.
STATEMENT_ROWS: Final = 500
_LONG_TYPES: Final = (frozenset(LONG_TEXT_BYTES) | frozenset(BLOB_BYTES) | {"json"}) - {"tinytext", "tinyblob"}
# The beginning of a number or a string; functions and expressions begin with a word or a parenthesis.
_LITERAL: Final = re.compile(r"[-+]?\.?\d|'|\"|_\w+\s*['\"]|[bxn]'|(?:true|false)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What holds for all tables of a subtask."""

    flavor: Flavor  # the target's
    weights: Weights | None = None  # whom to ask about collations; None: text keys under collations count as one value
    foreign_key_checks: bool = False
    insert_mode: InsertMode = "insert"
    multiple_rows: bool = True
    compact: bool = False
    missing_row: MissingRow = "pause"
    narrower_columns: NarrowerColumns = "pause"


@dataclass(frozen=True, slots=True, eq=False)
class TablePlan:
    """The conversion of one source table into one target table."""

    source: TableName
    target: TableName
    flavor: Flavor
    columns: tuple[MappedColumn, ...]  # those that are written
    values: RowText  # of them, in parentheses
    keyed: bool
    ordered: bool  # its changes keep the source's order among each other and with those of all such tables
    linked: bool  # foreign keys that the target checks begin or end here
    cascades: bool  # they change rows by themselves
    row_key: tuple[MappedColumn, ...]  # finds a row of a keyed table
    identity: tuple[MappedColumn, ...]  # the source's key, where rows of the source may exchange values of the row key
    row_index: str  # the index of the row key, empty without one
    key_values: RowText  # of the row key, as an element of a list
    all_key_values: RowText  # and of the columns that are verified
    comparisons: tuple[tuple[int, Comparison], ...]  # find a row of a keyless table: index in the row, condition
    other_keys: tuple[tuple[MappedColumn, ...], ...]  # the unique keys besides the row key that can be computed
    verified: tuple[MappedColumn, ...]  # further key columns, compared where the order of changes was altered
    key_functions: tuple[KeyFunction, ...]
    order_key: Key | None  # shared by all changes of a table whose changes must stay in order
    key_columns: frozenset[int]  # indexes in the row of all columns of unique indexes
    unique_indexes: int
    zero_enums: tuple[int, ...]  # indexes in the row of ENUM columns: their error value needs a lenient statement
    insert_replaces: bool  # `insert-mode: replace`
    counts_missing: bool  # `missing-row: count`
    upsert: bool  # REPLACE is not allowed
    updates_by_insert: bool  # INSERT .. ON DUPLICATE KEY UPDATE is allowed
    groupable: bool  # changes may share a statement and move over others
    statement_rows: int  # how many rows may share a statement
    compacts: bool  # changes of one row may become one
    forgets_rows: bool  # INSERT and DELETE of one row may become none
    long_columns: tuple[int, ...]  # indexes in the row of columns that may exceed a packet
    defaults_agree: frozenset[int]  # indexes in the row of columns that may be left out of an INSERT
    constants: Row = ()  # what routes extract: to be put behind every row image


def build_plan(
    source: TableSchema,
    wire: Sequence[Column],
    target: TargetTable,
    options: PlanOptions,
    constants: Sequence[ConstantColumn] = (),
    shared: SharedKeys | None = None,
) -> TablePlan:
    """The plan for rows of `source`, as the binlog holds them, at `target`; raises DMError where columns don't fit.

    `shared` is what the plans of all source tables of that target have in common; it learns from this one.
    """
    shared = SharedKeys() if shared is None else shared
    schema = target.schema
    columns = [*wire, *(constant.column for constant in constants)]
    mapped = map_columns(source.name, columns, schema, options.flavor)
    if options.narrower_columns == "pause":
        # Those of routes are fitted to the target's.
        own = (column for column in mapped if column.at < len(wire))
        pairs = ((column.source, column.target) for column in own)
        refuse_narrower(source.name, schema.name, pairs, null_is_now=target.null_is_now)
    by_name = {column.target.name.lower(): column for column in mapped}
    uniques = schema.unique_indexes
    usable = ((index.name, key) for index in uniques if (key := _row_key(index, by_name, nulls=False)))
    row_index, row_key = next(usable, ("", ()))
    checked = options.foreign_key_checks
    written = tuple(column for column in mapped if column.written)
    extra = any(c.generated is None and c.name.lower() not in by_name for c in schema.columns)
    indexed = {name.lower() for index in schema.indexes for name in index.columns}
    keyed = bool(row_key)
    identity = _identity(source, row_key, by_name)
    shared.plans += 1
    shared.keyless = shared.keyless or not keyed
    groupable = (options.multiple_rows or options.compact) and not target.triggers and not checked
    compacts = options.compact and groupable and keyed and _same_values(schema, mapped, len(wire))
    if target.linked and not keyed and not target.keyless_kin:
        # Its kin took it for a table with a key, as the target's structure says.
        raise DMError("foreign-key-kin-keyless", table=schema.name)
    wild = bool(target.referenced)
    functions = [_index_key(schema.name, index, by_name, options.weights, shared, wild=wild) for index in uniques]
    if checked:
        functions += _reference_keys(target, by_name, options.weights)
    key_names = {name.lower() for index in uniques for name in index.columns}
    in_row_key = {column.at for column in row_key}
    verified = tuple(
        column
        for column in written
        if column.at not in in_row_key
        and (column in identity or column.target.name.lower() in key_names)
        and faithful(column.source, column.target)
    )
    return TablePlan(
        source=source.name,
        target=schema.name,
        flavor=options.flavor,
        columns=written,
        values=row_text(written, b"(", b")"),
        keyed=keyed,
        ordered=shared.keyless or target.acting or target.keyless_kin,
        linked=target.linked,
        cascades=target.acting,
        row_key=row_key,
        identity=identity,
        row_index=row_index,
        key_values=listed_text(row_key),
        all_key_values=listed_text(row_key + verified),
        comparisons=tuple(
            (column.at, exact(column, options.flavor, table=source.name, indexed=column.target.name.lower() in indexed))
            for column in written
        ),
        other_keys=tuple(
            key
            for key in (_row_key(index, by_name, nulls=True) for index in uniques)
            if key and (key != row_key or identity)
        ),
        verified=verified,
        key_functions=tuple(functions),
        order_key=table_key(schema.name) if shared.keyless else None,
        key_columns=frozenset(
            column.at for column in mapped if column in identity or column.target.name.lower() in key_names
        ),
        unique_indexes=len(uniques),
        zero_enums=tuple(column.at for column in written if column.source.base == column.target.base == "enum"),
        insert_replaces=options.insert_mode == "replace" and keyed,
        counts_missing=options.missing_row == "count" and keyed,
        upsert=extra or (checked and bool(target.referenced)),
        # VALUES() of a SET's empty member arrives as the empty SET.
        updates_by_insert=keyed
        and not (extra or any("" in column.target.members for column in written))
        and groupable
        and options.multiple_rows,
        groupable=groupable,
        statement_rows=STATEMENT_ROWS if options.multiple_rows else 1,
        compacts=compacts,
        forgets_rows=compacts and len(uniques) == 1 and not (schema.partitions or identity),
        long_columns=tuple(column.at for column in written if column.source.base in _LONG_TYPES),
        defaults_agree=frozenset(
            column.at
            for column in written
            if column.source.default == column.target.default and _constant(column.source)
        ),
        constants=tuple(constant.value for constant in constants),
    )


def _same_values(schema: TableSchema, mapped: Sequence[MappedColumn], constant_from: int) -> bool:
    """Whether the target takes every row that the source had, as far as the row alone decides."""
    if schema.checks or len(mapped) != len(schema.columns):
        return False
    if any(part.column is None for index in schema.unique_indexes for part in index.parts):
        return False
    return all(
        column.written and (column.at >= constant_from or _same_type(column.source, column.target)) for column in mapped
    )


def _same_type(source: Column, target: Column) -> bool:
    if source.nullable and not target.nullable:
        return False
    one, other = (
        (column.base, _size(column), column.unsigned, column.charset, column.members) for column in (source, target)
    )
    return one == other


def _size(column: Column) -> tuple[int | None, int | None]:
    """What limits the column's values; a width that is only for display does not."""
    if column.base in INTEGERS or column.base == "year" or column.base in _LONG_TYPES:
        return None, None
    if column.base in FLOATS:
        return column.length, column.decimals
    return column.length or (10 if column.base == "decimal" else 1), column.decimals or 0


def _constant(column: Column) -> bool:
    """Whether the column's default is the same in every row: a literal, or NULL."""
    return column.nullable if column.default is None else bool(_LITERAL.match(column.default))


def _row_key(index: Index, by_name: dict[str, MappedColumn], *, nulls: bool) -> tuple[MappedColumn, ...]:
    """The columns by which the index finds exactly one row, empty where it can't."""
    found: list[MappedColumn] = []
    for part in index.parts:
        column = by_name.get((part.column or "").lower())
        if column is None or not column.written or not faithful(column.source, column.target):
            return ()
        if column.target.nullable and index.kind != "primary" and not nulls:
            return ()
        found.append(column)
    return tuple(found)


def _identity(
    source: TableSchema, row_key: Sequence[MappedColumn], by_name: dict[str, MappedColumn]
) -> tuple[MappedColumn, ...]:
    """What tells the source's rows apart, where the row key does not: two of them may exchange their values of it."""
    names = {column.source.name.lower() for column in row_key}
    uniques = source.unique_indexes
    if not row_key or any({(part.column or "").lower() for part in index.parts} <= names for index in uniques):
        return ()
    nullable = {column.name.lower() for column in source.columns if column.nullable}
    for index in uniques:
        whole = all(part.prefix is None for part in index.parts)
        key = _row_key(index, by_name, nulls=True)
        if whole and key and nullable.isdisjoint(name.lower() for name in index.columns):
            return tuple(column for column in key if column not in row_key)
    return ()


def _index_key(
    table: TableName,
    index: Index,
    by_name: dict[str, MappedColumn],
    weights: Weights | None,
    shared: SharedKeys,
    *,
    wild: bool,
) -> KeyFunction:
    parts = []
    for at, part in enumerate(index.parts):
        column = by_name.get((part.column or "").lower())
        name = part.column or f"#{index.name}.{at}"
        if column is None or not column.written:
            parts.append(KeyPart(name, None, None, part.prefix))
        else:
            fold = fold_for(column.source, column.target, part.prefix, weights)
            parts.append(KeyPart(name, column.at, fold, part.prefix))
    if wild and any(part.fold is None for part in parts):
        # A child can't name the parent row in the same terms, so it could not be kept behind it.
        return wild_key
    return key_function(table, [shared.part(part) for part in parts])


def _reference_keys(
    target: TargetTable, by_name: dict[str, MappedColumn], weights: Weights | None
) -> list[KeyFunction]:
    """With foreign keys checked: the keys by which children name this table's rows, and those of its own parents."""
    name = target.schema.name
    functions = []
    unique = {
        tuple(sorted(column.lower() for column in index.columns))
        for index in target.schema.unique_indexes
        if all(part.prefix is None for part in index.parts)
    }
    for columns in target.referenced:
        if tuple(sorted(column.lower() for column in columns)) not in unique:
            functions.append(
                _columns_key(name, target.schema, list(zip(columns, columns, strict=True)), by_name, weights)
            )
    for foreign in target.schema.foreign_keys:
        parent = target.schema if foreign.parent == name else target.parents.get(foreign.parent)
        if parent is not None:
            functions.append(_columns_key(foreign.parent, parent, _pairs(foreign), by_name, weights))
    return functions


def _pairs(foreign: ForeignKey) -> list[tuple[str, str]]:
    return list(zip(foreign.columns, foreign.parent_columns, strict=True))


def _columns_key(
    table: TableName,
    schema: TableSchema,
    pairs: Sequence[tuple[str, str]],
    by_name: dict[str, MappedColumn],
    weights: Weights | None,
) -> KeyFunction:
    parts = []
    for own, there in pairs:
        column, place = by_name.get(own.lower()), schema.column(there)
        fold = None
        if column is not None and column.written and place is not None:
            fold = fold_for(column.source, place, None, weights)
        if column is None or fold is None:
            return wild_key
        parts.append(KeyPart(there, column.at, fold))
    return key_function(table, parts)
