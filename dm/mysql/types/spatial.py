"""Geometries: four bytes of a SRID and a WKB, compared as bytes, since `=` compares shapes.

An index has the whole of a POINT, of the others a prefix.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dm.mysql.binlog.table_map import WireForm
from dm.mysql.binlog.wire_type import WireCode
from dm.mysql.sql.cursor import Cursor
from dm.mysql.types.family import ColumnType, DataType, TypedColumn, TypeFamily, lengths_of

_POINT_BYTES: Final = 25  # MAX_LEN_GEOM_POINT_FIELD of MariaDB's sql_const.h
_NAMES: Final = ("linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geometrycollection")


def _read(cursor: Cursor, word: str) -> DataType:
    if cursor.context.dialect.takes_geometry_lengths:
        lengths_of(cursor)  # read and ignored
    return DataType(FAMILY.printed.get(word.lower(), word.lower()))


def _keeps(source: TypedColumn, target: TypedColumn) -> bool:
    return target.type in GEOMETRIES


GEOMETRY: Final = ColumnType(
    name="geometry", wire=WireForm((WireCode.GEOMETRY,)), needs_prefix=True, keeps=_keeps, outside=True, large=True
)
POINT: Final = replace(
    GEOMETRY, name="point", needs_prefix=False, whole_prefix=lambda column, prefix: prefix == _POINT_BYTES
)
GEOMETRIES: Final = (GEOMETRY, POINT, *(replace(GEOMETRY, name=name) for name in _NAMES))
FAMILY: Final = TypeFamily(
    GEOMETRIES,
    {**{each.name.upper(): _read for each in GEOMETRIES}, "GEOMCOLLECTION": _read},
    {"geomcollection": "geometrycollection"},
)
