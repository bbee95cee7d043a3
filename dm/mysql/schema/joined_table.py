"""One table that takes the rows of several shards: all their columns, each with a type that holds the values of all.

Whether tables that are to be merged are alike: shards of one target table, which are altered by the same statements.

The order of columns does not matter, since rows find theirs by name. Names of indexes do: a statement that drops one
names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dm.ident import TableName
from dm.mysql.schema.normal import index_form, same_column, same_structure
from dm.mysql.schema.shard_column import fits, implicit_default, needs_value
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.mysql.schema.widening import faithful


@dataclass(frozen=True, slots=True)
class Untaken:
    """A column of a shard whose values a table does not take."""

    column: Column
    there: Column | None


def untaken(shard: TableSchema, table: TableSchema) -> Iterator[Untaken]:
    """Columns of a shard that a table lacks, or has in a way that does not hold all values."""
    for column in shard.columns:
        there = table.column(column.name)
        if there is None or not fits(column, there) or (column.nullable and not there.nullable):
            yield Untaken(column, there)


def lacking(shard: TableSchema, table: TableSchema, extracted: frozenset[str] = frozenset()) -> Iterator[Column]:
    """Columns of a table that a shard has not; what is filled with parts of names (in lower case) is not meant."""
    for there in table.columns:
        if shard.column(there.name) is None and there.name.lower() not in extracted:
            yield there


def finds_rows(shard: TableSchema, table: TableSchema, extracted: frozenset[str] = frozenset()) -> bool:
    """Whether a key of a table finds the rows of a shard, whose values in its columns come unchanged.

    The plan of the rows asks the same (`dm.changes.row_keys`). `extracted` as above.
    """
    return any(_finds(index, shard, table, extracted) for index in table.unique_indexes)


def unfilled(table: TableSchema, extracted: frozenset[str]) -> TableSchema:
    """A table and its keys without the columns that parts of names fill (in lower case)."""
    indexes = [
        replace(index, parts=tuple(part for part in index.parts if (part.column or "").lower() not in extracted))
        for index in table.indexes
    ]
    return replace(
        table,
        columns=tuple(column for column in table.columns if column.name.lower() not in extracted),
        indexes=tuple(index for index in indexes if index.parts),
    )


def keys_for_rows(table: TableSchema, extracted: frozenset[str]) -> TableSchema:
    """`unfilled` but for what may be NULL: `finds_rows` has the same answer, and needs no `extracted`."""
    return unfilled(table, extracted - {column.name.lower() for column in table.columns if column.nullable})


def _finds(key: Index, shard: TableSchema, table: TableSchema, extracted: frozenset[str]) -> bool:
    for part in key.parts:
        there = None if part.column is None else table.column(part.column)
        if there is None or there.generated is not None or (there.nullable and key.kind != "primary"):
            return False
        column = shard.column(there.name)
        if there.name.lower() not in extracted and (column is None or not faithful(column, there)):
            return False
    return bool(key.parts)


def tells_apart(key: Index, shard: TableSchema, extracted: frozenset[str]) -> bool:
    """Whether two rows of a shard with the same values in the key can't be."""
    columns = {name.lower() for name in key.columns} - extracted
    if key.functional or any(part.prefix is not None for part in key.parts):
        return any(index_form(key, shard) == index_form(own, shard) for own in shard.unique_indexes)
    return any({name.lower() for name in own.columns} <= columns and not own.functional for own in shard.unique_indexes)


@dataclass(frozen=True, slots=True)
class Unjoinable:
    """Two shards whose types of one column have no common one among those of the shards."""

    one: TableSchema
    other: TableSchema
    column: str


def joined(name: TableName, shards: Sequence[TableSchema]) -> TableSchema | Unjoinable:
    """The table that takes the rows of all shards, with the keys and indexes that all of them have."""
    columns = list[Column]()
    for column_name in dict.fromkeys(column.name.lower() for shard in shards for column in shard.columns):
        holders = [(shard, column) for shard in shards if (column := shard.column(column_name)) is not None]
        (owner, widest), *others = holders
        for shard, column in others:
            if not fits(column, widest):
                if not fits(widest, column):
                    return Unjoinable(owner, shard, widest.name)
                owner, widest = shard, column
        widest = replace(widest, nullable=any(column.nullable for _, column in holders))
        if len(holders) < len(shards) and needs_value(widest):
            widest = optional(widest)
        columns.append(widest)
    first = shards[0]
    indexes = tuple(index for index in first.indexes if all(_has(shard, index, first) for shard in shards[1:]))
    return replace(first, name=name, columns=tuple(columns), indexes=indexes, foreign_keys=(), checks=(), partitions=())


def optional(column: Column) -> Column:
    """The column, as rows may lack it."""
    literal = implicit_default(column)
    return replace(column, nullable=True) if literal is None else replace(column, default=literal)


def _has(shard: TableSchema, index: Index, of: TableSchema) -> bool:
    form = index_form(index, of)
    return any(index_form(each, shard) == form for each in shard.indexes)


_NAME = TableName("", "")


def alike(one: TableSchema, other: TableSchema) -> bool:
    """Whether two shards have the same columns and indexes."""
    return same_structure(_plain(one), _plain(other))


def _plain(schema: TableSchema) -> TableSchema:
    columns = tuple(sorted(schema.columns, key=lambda column: column.name.lower()))
    return replace(
        schema, name=_NAME, columns=columns, foreign_keys=(), charset=None, collation=None, engine=None, checks=(),
        partitions=(),
    )  # fmt: skip


def differences(one: TableSchema, other: TableSchema) -> list[str]:
    """In what they differ, for people; the first table is the subject."""
    found = list[str]()
    for column in one.columns:
        there = other.column(column.name)
        if there is None:
            found.append(f"column {column.name} is here only")
        elif not same_column(column, there):
            found.append(f"column {column.name} is {_column(column)} here and {_column(there)} there")
    found += [f"column {column.name} is there only" for column in other.columns if one.column(column.name) is None]
    here, there_ = {_index(index) for index in one.indexes}, {_index(index) for index in other.indexes}
    found += [f"index {text} is here only" for text in sorted(here - there_)]
    found += [f"index {text} is there only" for text in sorted(there_ - here)]
    return found


def _column(column: Column) -> str:
    size = ",".join(str(part) for part in (column.length, column.decimals) if part is not None)
    words = [column.base + (f"({size})" if size else "") + (" unsigned" if column.unsigned else "")]
    words += [column.collation] if column.collation else []
    words += [] if column.nullable else ["NOT NULL"]
    words += [f"DEFAULT {column.default}"] if column.default is not None else []
    return " ".join(words)


def _index(index: Index) -> str:
    return f"{index.name} {index.kind} ({', '.join(index.columns)})"
