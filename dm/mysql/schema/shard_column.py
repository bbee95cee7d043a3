"""A column that some shards of a merged table have and others do not, or that they have in different widths.

The target's table has one column for all of them. Rows of a shard that lacks it get the target's default there. When
that shard adds the column too, its source fills the rows with *its* default. The two must be the same value, at any
time: `filling` says which it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dm.mysql.schema.normal import constant_default, of_the_moment, same_column, same_default
from dm.mysql.schema.table import Column
from dm.mysql.schema.widening import widens
from dm.mysql.types.documents import may_hold_documents


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
