"""Changes of a column's type that keep every value, on any server.

Any other change converts: it rounds or cuts, reads text as a number or prints a number as text. The two flavours differ
there: one rounds a fraction of a second, the other cuts it off; DATETIME becomes YEAR in one and zero in the other. No
document says which conversions agree, so only changes without conversion are listed here.
"""

from __future__ import annotations

from dm.mysql.schema.table import Column
from dm.mysql.types.strings import same_characters


def same_type(before: Column, after: Column) -> bool:
    """Whether the type is the same; a collation orders values but changes none."""
    return _type(before) == _type(after)


def widens(before: Column, after: Column) -> bool:
    """Whether each value of the old type is the same value in the new one; NULL has no type."""
    if after.generated is not None or same_type(before, after):
        return True  # a generated column's values are computed again, whatever they were
    if before.unsigned != after.unsigned or not same_characters(before, after):
        return False
    return before.type.widens(before, after)


def _type(column: Column) -> tuple[object, ...]:
    length = None if column.type.is_integer else column.length
    return column.base, length, column.decimals or 0, column.unsigned, column.charset, column.members


# Whether a column of the target keeps the values of a source's column as they are, so that they find a row again.


def faithful(source: Column, target: Column) -> bool:
    """Whether every value that the target accepts from the source is stored unchanged, not rounded or padded."""
    return source.type.faithful(source, target)
