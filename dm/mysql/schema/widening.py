"""Changes of a column's type that keep every value, on any server.

Any other change converts: it rounds or cuts, reads text as a number or prints a number as text. The two flavours differ
there: one rounds a fraction of a second, the other cuts it off; DATETIME becomes YEAR in one and zero in the other. No
document says which conversions agree, so only changes without conversion are listed here.
"""

from __future__ import annotations

from typing import Final

from dm.mysql.schema.charset import bytes_per_character
from dm.mysql.schema.table import Column
from dm.type_family import (
    BLOB_BYTES,
    BYTES,
    CHARACTERS,
    FLOATS,
    FRACTIONAL,
    INTEGERS,
    INTEGERS_BY_SIZE,
    LONG_TEXT_BYTES,
    MEMBERED,
    MOMENTS,
    TEXTS,
)

_SIZES: Final = LONG_TEXT_BYTES | BLOB_BYTES
# Character sets whose characters have the same bytes in the other set.
_PART_OF: Final = frozenset({("ascii", "utf8mb3"), ("ascii", "utf8mb4"), ("utf8mb3", "utf8mb4")})


def same_type(before: Column, after: Column) -> bool:
    """Whether the type is the same; a collation orders values but changes none."""
    return _type(before) == _type(after)


def widens(before: Column, after: Column) -> bool:
    """Whether each value of the old type is the same value in the new one; NULL has no type."""
    if after.generated is not None or same_type(before, after):
        return True  # a generated column's values are computed again, whatever they were
    of, to = before.base, after.base
    if before.unsigned != after.unsigned or not _same_characters(before, after):
        return False
    if of in INTEGERS and to in INTEGERS:
        return INTEGERS_BY_SIZE.index(of) <= INTEGERS_BY_SIZE.index(to)
    if of == to == "decimal":
        return _whole(before) <= _whole(after) and (before.decimals or 0) <= (after.decimals or 0)
    if of == to and of in FRACTIONAL:
        return (before.decimals or 0) <= (after.decimals or 0)
    if of == to and of in ("char", "varchar", "varbinary", "bit"):
        return (before.length or 1) <= (after.length or 1)
    if of == to and of in MEMBERED:
        return after.members[: len(before.members)] == before.members
    if to in _SIZES:
        return of in _long_ones(to) and _bytes(before, after) <= _SIZES[to]
    return False


def _type(column: Column) -> tuple[object, ...]:
    length = None if column.base in INTEGERS else column.length
    return column.base, length, column.decimals or 0, column.unsigned, column.charset, column.members


def _same_characters(before: Column, after: Column) -> bool:
    return before.charset == after.charset or (before.charset, after.charset) in _PART_OF


def _whole(column: Column) -> int:
    return (column.length or 10) - (column.decimals or 0)


def _long_ones(to: str) -> tuple[str, ...]:
    """The types of variable length of the same kind."""
    kind = "text" if to.endswith("text") else "blob"
    return "varchar" if kind == "text" else "varbinary", *(name for name in _SIZES if name.endswith(kind))


def _bytes(before: Column, after: Column) -> int:
    if before.base in _SIZES:
        return _SIZES[before.base]
    return (before.length or 1) * bytes_per_character(after.charset)


# Whether a column of the target keeps the values of a source's column as they are, so that they find a row again.


def faithful(source: Column, target: Column) -> bool:
    """Whether every value that the target accepts from the source is stored unchanged, not rounded or padded."""
    of, to = source.base, target.base
    if of in TEXTS and to in TEXTS and "binary" not in (source.charset, target.charset):
        return _long_enough(source, target)
    if of in INTEGERS:
        return to in INTEGERS or to == "decimal"
    if of == "decimal":
        if to in INTEGERS:
            return not source.decimals
        return to == "decimal" and (target.decimals or 0) >= (source.decimals or 0)
    if of in FLOATS:
        same = (source.length, source.decimals) == (target.length, target.decimals)
        if to == of:
            return same or target.decimals is None
        # A DOUBLE(7,2) rounds the 0.1 of a FLOAT(7,2), which is none, to that of a DOUBLE.
        return of == "float" and to == "double" and same and target.decimals is None
    if of in MOMENTS and to in MOMENTS:
        return (target.decimals or 0) >= (source.decimals or 0)
    if of == "time":
        return to == "time" and (target.decimals or 0) >= (source.decimals or 0)
    if of == "binary":
        return (to == "binary" and source.length == target.length) or (to in BYTES and to != "binary")
    if of in BYTES:
        return to in BYTES and to != "binary"
    return of == to  # bit, year, date, enum, set (by number of the equal label), uuid, inet, json, geometry, vector


def _long_enough(source: Column, target: Column) -> bool:
    # A target that is too short cuts trailing spaces without an error, even in strict mode.
    if source.base in CHARACTERS and target.base in CHARACTERS:
        return (target.length or 1) >= (source.length or 1)
    if target.base in CHARACTERS:
        return False
    if source.base in CHARACTERS:
        bytes_of_one = bytes_per_character(target.charset or "utf8mb4")
        return (source.length or 1) * bytes_of_one <= LONG_TEXT_BYTES[target.base]
    return source.charset == target.charset and LONG_TEXT_BYTES[target.base] >= LONG_TEXT_BYTES[source.base]
