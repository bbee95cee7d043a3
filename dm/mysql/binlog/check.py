"""Whether a tracked structure can be the one that a table map was written with.

Row events name no columns, so rows are read through the structure that the tracker holds for their position. With a
wrong structure, columns shift and data goes wrong silently; this check prevents that. It compares everything the map
says. Count and types are always there, with the sizes that affect the layout of the bytes; signs, names, character sets
and ENUM members are there under binlog_row_metadata=FULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dm.errors import DMError
from dm.mysql.binlog.charset import charset_of, decode_text, max_bytes, same_charset
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.wire_type import NUMERIC, WireCode, WireType
from dm.type_family import BYTES, FIXED_BYTES, GEOMETRIES, MEMBERED, TEXTS


class WireColumn(Protocol):
    """What this package must know of a column; dm.mysql.schema.table.Column has it."""

    @property
    def name(self) -> str:
        """The column's name."""

    @property
    def base(self) -> str:
        """The type's name in its normal form."""

    @property
    def length(self) -> int | None:
        """Characters, bytes, bits or digits, as the type has them."""

    @property
    def decimals(self) -> int | None:
        """Scale or fractional digits."""

    @property
    def unsigned(self) -> bool:
        """Whether a number has no sign."""

    @property
    def charset(self) -> str | None:
        """Character set of character columns, ENUM and SET."""

    @property
    def members(self) -> tuple[str, ...]:
        """Members of ENUM and SET."""


_PLAIN = {
    "tinyint": (WireCode.TINY,),
    "smallint": (WireCode.SHORT,),
    "mediumint": (WireCode.INT24,),
    "int": (WireCode.LONG,),
    "bigint": (WireCode.LONGLONG,),
    "float": (WireCode.FLOAT,),
    "double": (WireCode.DOUBLE,),
    "year": (WireCode.YEAR,),
    "date": (WireCode.DATE, WireCode.NEWDATE),
}
_TIMES = {
    "time": (WireCode.TIME2, WireCode.TIME),
    "datetime": (WireCode.DATETIME2, WireCode.DATETIME),
    "timestamp": (WireCode.TIMESTAMP2, WireCode.TIMESTAMP),
}
_BLOB_SIZES = {
    "tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4, "tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4,
}  # fmt: skip
_STRINGS = (WireCode.STRING, WireCode.VARCHAR, WireCode.VARCHAR_COMPRESSED)


def _set_size(members: int) -> int:
    size = (members + 7) // 8
    return 8 if size > 4 else size


def _byte_length(column: WireColumn) -> int | None:
    """The greatest byte length of a CHAR, VARCHAR, BINARY or VARBINARY; None when it can't be known."""
    if column.length is None:
        return None
    if column.base in BYTES:
        return column.length
    return None if column.charset is None else column.length * max_bytes(column.charset)


def _expected_codes(base: str) -> tuple[int, ...] | None:
    if base in _PLAIN:
        return _PLAIN[base]
    if base in _TIMES:
        return _TIMES[base]
    if base in _BLOB_SIZES:
        return (WireCode.BLOB, WireCode.BLOB_COMPRESSED)
    if base in GEOMETRIES:
        return (WireCode.GEOMETRY,)
    if base in FIXED_BYTES or base in ("char", "binary"):
        return (WireCode.STRING,)
    return {
        "varchar": (WireCode.VARCHAR, WireCode.VARCHAR_COMPRESSED),
        "varbinary": (WireCode.VARCHAR, WireCode.VARCHAR_COMPRESSED),
        "decimal": (WireCode.NEWDECIMAL,),
        "bit": (WireCode.BIT,),
        "enum": (WireCode.ENUM,),
        "set": (WireCode.SET,),
        "json": (WireCode.JSON, WireCode.BLOB),  # MariaDB's JSON is LONGTEXT
        "vector": (WireCode.VECTOR, WireCode.VARCHAR, WireCode.BLOB),  # MariaDB's is a binary string
    }.get(base)


def _size_mismatch(wire: WireType, column: WireColumn) -> str | None:
    """The difference in sizes that affect the layout of the bytes."""
    base = column.base
    if base == "decimal":
        tracked = (column.length if column.length is not None else 10, column.decimals or 0)
        if tracked != (wire.size, wire.scale):
            return f"it is DECIMAL{tracked} and the binlog has DECIMAL{(wire.size, wire.scale)}"
    elif base in _TIMES and wire.code in (WireCode.TIME2, WireCode.DATETIME2, WireCode.TIMESTAMP2):
        if (column.decimals or 0) != wire.size:
            return f"it has {column.decimals or 0} fractional digits and the binlog has {wire.size}"
    elif base == "bit":
        if (column.length or 1) != wire.size:
            return f"it has {column.length or 1} bits and the binlog has {wire.size}"
    elif base in _BLOB_SIZES:
        if wire.code == WireCode.BLOB and wire.size != _BLOB_SIZES[base]:
            return f"its lengths take {_BLOB_SIZES[base]} bytes and the binlog's take {wire.size}"
    elif base == "enum":
        if wire.size != (1 if len(column.members) <= 255 else 2):
            return f"its {len(column.members)} members do not fit numbers of {wire.size} bytes"
    elif base == "set":
        if wire.size != _set_size(len(column.members)):
            return f"its {len(column.members)} members do not fit a mask of {wire.size} bytes"
    elif base in FIXED_BYTES:
        if wire.size != FIXED_BYTES[base]:
            return f"it takes {FIXED_BYTES[base]} bytes and the binlog has {wire.size}"
    elif wire.code in _STRINGS and base != "vector":
        tracked_length = _byte_length(column)
        if tracked_length is not None and wire.code != WireCode.VARCHAR_COMPRESSED and tracked_length != wire.size:
            return f"it takes up to {tracked_length} bytes and the binlog has {wire.size}"
    return None


def _type_mismatch(wire: WireType, column: WireColumn) -> str | None:
    codes = _expected_codes(column.base)
    if codes is None:
        return f"nothing is known of type {column.base}"
    if wire.code not in codes:
        return f"it is {column.base} and the binlog has {WireCode(wire.code).name}"
    return _size_mismatch(wire, column)


def _metadata_mismatch(table_map: TableMap, index: int, column: WireColumn) -> str | None:
    """The difference in what the map says beyond types."""
    optional = table_map.optional
    # A mark in the name identifies MariaDB's hidden hash columns; the map lacks it.
    name = column.name.removeprefix("!hidden!")
    if optional.names is not None and optional.names[index].lower() != name.lower():
        return f"the binlog's column at its place is {optional.names[index]}"
    if optional.unsigned is not None and table_map.columns[index].code in NUMERIC:
        unsigned = optional.unsigned[index]
        if unsigned is not None and unsigned != column.unsigned:
            return f"it is {'un' if column.unsigned else ''}signed and the binlog's is not"
    if optional.collations is not None and (collation := optional.collations[index]) is not None:
        charset = charset_of(collation)
        if column.base in TEXTS and charset is not None and column.charset is not None:
            if not same_charset(charset, column.charset):
                return f"its character set is {column.charset} and the binlog's is {charset}"
        elif column.base in BYTES and charset not in (None, "binary"):
            return f"it is binary and the binlog has text in {charset}"
    if column.base in MEMBERED:
        return _members_mismatch(table_map, index, column)
    return None


def _members_mismatch(table_map: TableMap, index: int, column: WireColumn) -> str | None:
    """The difference in members of an ENUM or SET; the numbers in the rows depend on their order."""
    optional = table_map.optional
    members = None if optional.members is None else optional.members[index]
    if members is None:
        return None
    if len(members) != len(column.members):
        return f"it has {len(column.members)} members and the binlog's has {len(members)}"
    collation = None if optional.enum_collations is None else optional.enum_collations[index]
    if collation is None:
        return None
    for raw, tracked in zip(members, column.members, strict=True):
        try:
            member = decode_text(raw, collation)
        except DMError:
            return None  # no codec for this character set: only the numbers can be compared
        if member != tracked:
            return f"its member {tracked!r} is {member!r} in the binlog"
    return None


def mismatch(table_map: TableMap, columns: Sequence[WireColumn]) -> str | None:
    """Why the tracked columns can't be the ones of this table map; None when they can."""
    if table_map.unreadable is not None:
        return table_map.unreadable
    if len(columns) != len(table_map.columns):
        return f"the tracked structure has {len(columns)} columns and the binlog has {len(table_map.columns)}"
    for index, (wire, column) in enumerate(zip(table_map.columns, columns, strict=True)):
        why = _type_mismatch(wire, column) or _metadata_mismatch(table_map, index, column)
        if why is not None:
            return f"column {column.name}: {why}"
    return None
