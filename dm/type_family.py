"""Families of column types, by the names that types have in their normal form (`int`, not INTEGER).

A module that treats several types alike says so in these words.
"""

from __future__ import annotations

from typing import Final

INTEGERS_BY_SIZE: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
INTEGERS: Final = frozenset(INTEGERS_BY_SIZE)
FLOATS: Final = frozenset({"float", "double"})
NUMBERS: Final = INTEGERS | FLOATS | {"decimal", "year"}

FRACTIONAL: Final = frozenset({"time", "datetime", "timestamp"})
"""Which may have fractions of a second."""
MOMENTS: Final = frozenset({"datetime", "timestamp"})
TEMPORAL: Final = FRACTIONAL | {"date"}

# Each prefix of TEXT and BLOB, with the most bytes of a value.
LONG_SIZES: Final = (("tiny", 255), ("", 65_535), ("medium", 16_777_215), ("long", 4_294_967_295))
LONG_TEXT_BYTES: Final = {f"{prefix}text": size for prefix, size in LONG_SIZES}
BLOB_BYTES: Final = {f"{prefix}blob": size for prefix, size in LONG_SIZES}

CHARACTERS: Final = frozenset({"char", "varchar"})
TEXTS: Final = CHARACTERS | frozenset(LONG_TEXT_BYTES)
BYTES: Final = frozenset(BLOB_BYTES) | {"binary", "varbinary"}
MEMBERED: Final = frozenset({"enum", "set"})
"""A value is one of the members that the type lists, or several of them."""
WITH_CHARSET: Final = TEXTS | MEMBERED

FIXED_BYTES: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB's types that are bytes inside, so many, and a text in ASCII outside."""
GEOMETRIES: Final = frozenset(
    {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
    | {"geometrycollection"}
)
