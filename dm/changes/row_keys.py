"""The keys that tell a target's rows apart, what the changes of a row touch, and the conditions that find a row again.

The row key is the first unique index without NULLs whose columns all come unchanged from the source row. The plan says
what depends on it (`dm.changes.plan`). In a key that the source lacks its rows may meet (`dm.changes.own_key_check`).

Conditions find a row again by its key, or by all of its bytes. For a key, the server's own equality is right: the
unique index uses the same. Without a key the condition must find exactly *that* row, so every column is compared for
the same bytes. How that is done for a type its file in `dm.mysql.types` says. Here is the rest: a TIMESTAMP in a
session of any zone, NULL, and values that are not there.
"""

from __future__ import annotations

from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import gmtime, strftime, strptime
from typing import Final

from dm.changes.collation import Weights, fold_for
from dm.changes.column_map import MappedColumn
from dm.changes.computing import ZERO, moment_text
from dm.changes.keys import KeyFunction, KeyPart, SharedKeys, key_function, wild_key
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT, Value
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.schema.own_keys import lacking_indexes
from dm.mysql.schema.table import ForeignKey, Index, TableSchema, faithful
from dm.mysql.types.family import Comparison
from dm.mysql.types.members import EXACT_BITS


@dataclass(frozen=True, slots=True)
class LackedKey:
    """A unique index that the source lacks, over whole columns that it fills."""

    index: str
    columns: tuple[MappedColumn, ...]


@dataclass(frozen=True, slots=True)
class LackedKeys:
    """The unique indexes that the source lacks, and what tells its rows apart."""

    source_key: tuple[MappedColumn, ...] = ()  # the source's own key, else the row key
    compared: tuple[LackedKey, ...] = ()
    refusing: frozenset[str] = frozenset()  # those that can't be compared: their names, in lower case


NONE_LACKED: Final = LackedKeys()


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The columns that tell the rows of one table apart."""

    index: str  # the index of the row key, empty without one
    row_key: tuple[MappedColumn, ...]  # finds a row; empty if nothing does
    identity: tuple[MappedColumn, ...]  # the source's key, if rows of the source may exchange values of the row key
    others: tuple[tuple[MappedColumn, ...], ...]  # the unique keys besides the row key that can be computed
    verified: tuple[MappedColumn, ...]  # further key columns, compared where the order of changes was altered
    columns: frozenset[int]  # indexes in the row of all columns of unique indexes
    lacked: LackedKeys


def row_keys(source: TableSchema, schema: TableSchema, by_name: dict[str, MappedColumn]) -> RowKeys:
    """The keys of a target's table for rows of `source`; `by_name` are the mapped columns by the target's names."""
    uniques = schema.unique_indexes
    usable = ((index.name, key) for index in uniques if (key := _row_key(index, by_name, nulls=False)))
    row_index, row_key = next(usable, ("", ()))
    identity = _identity(source, row_key, by_name)
    key_names = {name.lower() for index in uniques for name in index.columns}
    in_row_key = {column.at for column in row_key}
    in_keys = [c for c in by_name.values() if c in identity or c.target.name.lower() in key_names]
    lacked = _lacked(source, schema, by_name, row_index, row_key)
    computed = (_row_key(index, by_name, nulls=True) for index in uniques if index.name.lower() not in lacked.refusing)
    return RowKeys(
        index=row_index,
        row_key=row_key,
        identity=identity,
        others=tuple(key for key in computed if key and (key != row_key or identity)),
        verified=tuple(
            column
            for column in in_keys
            if column.written and column.at not in in_row_key and faithful(column.source, column.target)
        ),
        columns=frozenset(column.at for column in in_keys),
        lacked=lacked,
    )


def key_functions(
    target: TargetTable,
    by_name: dict[str, MappedColumn],
    weights: Weights | None,
    shared: SharedKeys,
    *,
    foreign_keys: bool,
) -> tuple[KeyFunction, ...]:
    """Computes the keys that a change touches; with `foreign_keys` those of parents and children as well."""
    name, wild = target.schema.name, bool(target.referenced)
    uniques = target.schema.unique_indexes
    functions = [_index_key(name, index, by_name, weights, shared, wild=wild) for index in uniques]
    if foreign_keys:
        functions += _reference_keys(target, by_name, weights)
    return tuple(functions)


def _row_key(index: Index, by_name: dict[str, MappedColumn], *, nulls: bool) -> tuple[MappedColumn, ...]:
    """The columns by which the index finds exactly one row, empty if it can't."""
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
    """What tells the source's rows apart if the row key does not: two rows may exchange their values of it."""
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


def _lacked(
    source: TableSchema,
    schema: TableSchema,
    by_name: dict[str, MappedColumn],
    row_index: str,
    row_key: tuple[MappedColumn, ...],
) -> LackedKeys:
    if not row_key:
        return NONE_LACKED
    keys = (_row_key(index, by_name, nulls=True) for index in source.unique_indexes if index.identifies(source))
    source_key = next((key for key in keys if key), row_key)
    found = {
        index.name: () if any(part.prefix is not None for part in index.parts) else _row_key(index, by_name, nulls=True)
        for index in lacking_indexes(source, schema)
        if index.name != row_index or source_key != row_key
    }
    return LackedKeys(
        source_key,
        tuple(LackedKey(name, columns) for name, columns in found.items() if columns),
        frozenset(name.lower() for name, columns in found.items() if not columns),
    )


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
        # A child can't name the parent row in the same terms, so their order could not be kept.
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


@dataclass(frozen=True, slots=True)
class TargetTable:
    """One table of the target and its surroundings."""

    schema: TableSchema
    referenced: tuple[tuple[str, ...], ...] = ()  # its column lists that foreign keys of other tables refer to
    parents: Mapping[TableName, TableSchema] = field(default_factory=dict)  # the tables its own foreign keys refer to
    triggers: bool = False
    checks: bool = False  # a CHECK judges its rows, not only `Column.json_checked`; asked where row events pass over it
    null_is_now: bool = False  # NULL in a TIMESTAMP without NULL is the present moment
    # Only if foreign keys are checked: what joins the table to others, itself included, over any number of steps.
    linked: bool = False  # a foreign key begins or ends here
    acting: bool = False  # one of them changes rows itself (CASCADE, SET NULL, SET DEFAULT)
    keyless_kin: bool = False  # one of the tables has no key that finds its rows

    @property
    def judged(self) -> bool:
        """Whether a MariaDB's CHECKs judge rows that come as SQL."""
        return self.checks or any(column.json_checked for column in self.schema.columns)


_DAY = 86400


def equal(column: MappedColumn, literal: bytes) -> bytes:
    """The condition that a key column has the value of the literal; the server may use an index for it."""
    if literal == b"NULL":
        return column.sql + b"<=>NULL"
    if column.moment:
        return _moment(column.sql, literal)
    return column.equals(column.sql, literal)


def listed(columns: Sequence[MappedColumn]) -> bool:
    """Whether a list of literals, or of tuples of them, finds the same as comparing column by column."""
    if any(column.moment for column in columns):
        return False
    if len(columns) == 1:
        target = columns[0].target
        return not target.type.several_members or len(target.members) <= EXACT_BITS
    return all(column.target.type.in_lists for column in columns)


def _moment(name: bytes, literal: bytes) -> bytes:
    """The condition that a TIMESTAMP is this moment, in a session of any zone.

    A server compares local times, which may stand for two moments; the seconds do not. Any zone is less than a day from
    UTC, so the index finds few others. Where the source's column is no time, the server reads the value, as it does for
    an INSERT; that literal is refused where it would be one of two moments.
    """
    told = moment_text(literal)
    if told is None:
        return name + b"=" + literal
    if told.startswith(ZERO):
        return b"UNIX_TIMESTAMP(" + name + b")=0"
    text, _, fraction = told.decode().partition(".")
    try:
        seconds = timegm(strptime(text, "%Y-%m-%d %H:%M:%S"))
    except ValueError:  # a DATETIME's month of zero, or February 31st, which no TIMESTAMP is
        return b"FALSE"
    first, last = (strftime("%Y-%m-%d %H:%M:%S", gmtime(max(0, seconds + day))) for day in (-_DAY, _DAY))
    moment = f"{seconds}.{fraction}" if fraction else f"{seconds}"
    return (
        name
        + f">='{first}' AND ".encode()
        + name
        + f"<='{last}' AND UNIX_TIMESTAMP(".encode()
        + name
        + (f")={moment}".encode())
    )


def exact(column: MappedColumn, flavor: Flavor, table: TableName, *, indexed: bool) -> Comparison:
    """The condition that the target's column holds exactly the value of a row of this source table."""
    if column.moment:
        return _null_safe(table, column, lambda value: _moment(column.sql, column.encode(value)))
    target, there = column.target, dialect(flavor)
    return _null_safe(table, column, target.type.exact(column.sql, column.encode, target, there, indexed))


def _null_safe(table: TableName, column: MappedColumn, compare: Comparison) -> Comparison:
    is_null = column.sql + b" IS NULL"

    def condition(value: Value) -> bytes:
        if value is None:
            return is_null
        if value is ABSENT:
            raise DMError("partial-row-image", table=table, column=column.source.name)
        return compare(value)

    return condition
