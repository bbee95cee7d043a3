"""One table that takes the rows of several shards: its columns, and what a statement of one means for the others.

Whether tables that are to be merged are alike: shards of one target table, which are altered by the same statements.

The order of columns does not matter, since rows find theirs by name. Names of indexes do: a statement that drops one
names it.

**A column that only some shards have**, or have in other widths. The target's table has one column for all of them.
Rows of a shard that lacks it get the target's default. When that shard adds the column too, its source fills the rows
with *its* default. The two values must be the same at any time; `filling` says which value it is.

**A statement that a shard need not repeat.** A shard may already be where another shard's statement leads; then no
shard has to wait for it. A statement may need all shards as one shard writes it (`DROP COLUMN` of a column with an
index), and none as another does (`DROP INDEX`, then `DROP COLUMN`, or a table that is created so): the second shard
never sends the first one's statement. The structures before and after it tell what a statement changes. If that is only
a DEFAULT, a third default will do in its place: that shard is further on, or reaches this default from elsewhere, when
all others have it. No row of a shard that has the column depends on the target's DEFAULT.

The answer is yes only where nothing can go wrong when the target is altered under the other shard's rows:

- No key and no column of a key changes. Plans and conflict detectors of its stream were made from the target's keys.
- If the target has no key for the rows, only other indexes are added or dropped: rows are found by all their values.
- No column is added: it may be the new name of another column, or the target may have old values of the shard in it.
- No generated column, CHECK, foreign key, partition or character set is concerned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dm.ident import TableName
from dm.mysql.schema.normal import (
    constant_default,
    index_form,
    key_form,
    of_the_moment,
    same_column,
    same_default,
    same_structure,
)
from dm.mysql.schema.table import Column, Index, TableSchema, faithful, widens
from dm.mysql.types.documents import may_hold_documents


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


@dataclass(frozen=True, slots=True)
class Filling:
    """The value that rows without the column have in it, in a normal form; None is NULL."""

    value: str | None


def implicit_default(column: Column) -> str | None:
    """What a server fills a NOT NULL column without DEFAULT with, as a literal; None where no literal says it.

    A date of zeros is refused by strict servers, and columns of long types take no literal as their default in MySQL.
    """
    return column.type.implicit_default(column)


def filling(column: Column) -> Filling | None:
    """What rows without the column have in it; None where that is no constant."""
    if column.default is None and column.nullable:
        return Filling(None)
    literal = implicit_default(column) if column.default is None else column.default
    value = None if literal is None else constant_default(replace(column, default=literal))
    return None if value is None else Filling(value)


def differing_values(column: Column) -> str:
    """How the rows of the shards differ in a new column, for people; empty where all have the same value.

    They have a value of their moment, or perhaps a time that each session understands by a time zone of its own.
    """
    if column.default is None or column.generated is not None:
        return ""
    if of_the_moment(column):
        return other_values(column.name)
    if column.type.is_moment and constant_default(column) is None:
        return (
            f"each shard's rows may have another value in the new column {column.name}, since each session reads its"
            " DEFAULT in a time zone of its own"
        )
    return ""


def other_values(column: str) -> str:
    """How the rows of the shards differ in a column where each has its own value."""
    return f"each shard's rows have another value in the new column {column}"


def needs_value(column: Column) -> bool:
    """Whether an INSERT has to name the column."""
    return not column.nullable and column.default is None and not column.auto_increment and column.generated is None


def fits(column: Column, there: Column) -> bool:
    """Whether each value of a column is the same value in the other one; NULL aside."""
    if column.type is not there.type and may_hold_documents(column.type) and may_hold_documents(there.type):
        return True
    return (column.generated is None) == (there.generated is None) and (
        same_column(_type_alone(column), _type_alone(there)) or widens(column, there)
    )


def _type_alone(column: Column) -> Column:
    return replace(
        column, name="", collation=None, nullable=True, default=None, on_update=None, auto_increment=False,
        invisible=False,
    )  # fmt: skip


def _same_default(before: Column, after: Column) -> bool:
    if not same_default(before, after):
        return False
    return before.default is None or constant_default(before) is not None or before.default == after.default


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """How a column's definition changed."""

    widens: bool  # the type holds more values, and all of the old ones
    to_null: bool
    to_not_null: bool
    other: str  # what else changed, for people; empty where nothing did

    @property
    def nothing(self) -> bool:
        """Whether both definitions are the same."""
        return not (self.widens or self.to_null or self.to_not_null or self.other)


def column_change(before: Column, after: Column) -> ColumnChange:
    """What became of a column of one table."""
    same_type = same_column(_type_alone(before), _type_alone(after))
    other = ""
    if before.collation != after.collation or (not same_type and before.charset != after.charset):
        other = "its character set or collation changes"
    elif (before.generated, before.expression) != (after.generated, after.expression):
        other = "it is generated"
    elif before.auto_increment != after.auto_increment:
        other = "AUTO_INCREMENT comes or goes"
    elif before.invisible != after.invisible:
        other = "its visibility changes"
    elif before.on_update != after.on_update:
        other = "its ON UPDATE changes"
    elif not _same_default(before, after):
        other = "its DEFAULT changes"
    elif not same_type and not widens(before, after):
        other = "its new type does not hold all values of the old one"
    return ColumnChange(
        widens=not same_type and not other,
        to_null=after.nullable and not before.nullable,
        to_not_null=before.nullable and not after.nullable,
        other=other,
    )


def undergone(before: TableSchema, after: TableSchema, other: TableSchema, target: TableSchema | None) -> bool:
    """Whether `other` has all that a statement changed from `before` to `after`, and can be altered under.

    `target` is their table at the target without what parts of names fill (`keys_for_rows`), as far as it is known.
    """
    if not _only_columns_and_indexes(before, after):
        return False
    old, new = _columns(before), _columns(after)
    names = {name for name in old.keys() | new.keys() if not _same(old.get(name), new.get(name))}
    indexes = {name for name, _ in _indexes(before) ^ _indexes(after)}
    if not (names or indexes) or new.keys() - old.keys():
        return False
    if names and (target is None or not all(finds_rows(each, target) for each in (before, after, other))):
        return False
    keyed = (before, after) if target is None else (before, after, target)
    of_keys = {name.lower() for schema in keyed for each in schema.unique_indexes for name in each.columns}
    theirs = _columns(other)
    return (
        not names & of_keys
        and all(
            _not_generated(old.get(name), new.get(name)) and _has_change(old.get(name), new.get(name), theirs.get(name))
            for name in names
        )
        and _of(after, indexes) == _of(other, indexes)
    )


def _only_columns_and_indexes(before: TableSchema, after: TableSchema) -> bool:
    return (
        [index_form(each, before) for each in before.unique_indexes]
        == [index_form(each, after) for each in after.unique_indexes]
        and [key_form(key) for key in before.foreign_keys] == [key_form(key) for key in after.foreign_keys]
        and before.checks == after.checks
        and not (before.partitions or after.partitions)
        and (before.charset, before.collation, before.engine) == (after.charset, after.collation, after.engine)
    )


def _columns(schema: TableSchema) -> dict[str, Column]:
    return {column.name.lower(): column for column in schema.columns}


def _same(one: Column | None, other: Column | None) -> bool:
    if one is None or other is None:
        return one is other
    return same_column(one, other)


def _has_change(before: Column | None, after: Column | None, other: Column | None) -> bool:
    if _same(after, other):
        return True
    if before is None or after is None or other is None or same_default(before, other):
        return False
    one, *rest = (replace(each, default=None) for each in (after, before, other))
    return all(same_column(one, each) for each in rest)


def _not_generated(before: Column | None, after: Column | None) -> bool:
    """Whether a change of a column is one of type, NULL or DEFAULT, or its end."""
    return all(column is None or column.generated is None for column in (before, after))


def _indexes(schema: TableSchema) -> set[tuple[str, tuple[object, ...]]]:
    return {(index.name.lower(), tuple(index_form(index, schema))) for index in schema.indexes if not index.functional}


def _of(schema: TableSchema, names: set[str]) -> set[tuple[str, tuple[object, ...]]]:
    return {each for each in _indexes(schema) if each[0] in names}
