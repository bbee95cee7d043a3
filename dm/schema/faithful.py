"""Whether a column of the target keeps the values of a source's column as they are, so that they find a row again."""

from __future__ import annotations

from dm.schema.charset import bytes_per_character
from dm.schema.table import Column
from dm.type_family import BYTES, CHARACTERS, FLOATS, INTEGERS, LONG_TEXT_BYTES, MOMENTS, TEXTS


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
