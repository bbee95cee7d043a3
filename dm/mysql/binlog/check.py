"""Whether a tracked structure can be the one that a table map was written with.

Row events name no columns, so rows are read through the structure that the tracker holds for their position. With a
wrong structure, columns shift and data goes wrong silently; this check prevents that. It compares everything the map
says. Count and types are always there, with the sizes that affect the layout of the bytes; signs, names, character sets
and ENUM members are there under binlog_row_metadata=FULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dm.errors import DMError
from dm.mysql.binlog.charset import charset_of, decode_text, same_charset
from dm.mysql.binlog.table_map import TableMap
from dm.mysql.binlog.wire_type import NUMERIC, WireCode, WireType


def _same_size(wire: WireType, column: WireColumn) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class WireForm:
    """What a column's type says of its values in row events."""

    codes: tuple[int, ...]  # which a table map may have for it
    mismatch: Callable[[WireType, WireColumn], str | None] = _same_size
    """The difference in sizes that affect the layout of the bytes, as a clause; None where there is none."""
    content: Literal["text", "bytes", "members", "other"] = "other"  # what its character set tells
    counts_characters: bool = False  # the length is a number of characters
    provable: bool = False  # a server stores any bytes of such a length
    padded: Callable[[int], int] = lambda size: 0  # the bytes of each value of a column of so many; 0: not padded
    document: bool = False  # its BLOBs are documents in UTF-8 (MariaDB's JSON)


class WireColumn(Protocol):
    """What this package must know of a column; dm.mysql.schema.table.Column has it."""

    @property
    def name(self) -> str:
        """The column's name."""

    @property
    def base(self) -> str:
        """The type's name in its normal form, for people."""

    @property
    def wire(self) -> WireForm:
        """What its type says of row events."""

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


def _type_mismatch(wire: WireType, column: WireColumn) -> str | None:
    if wire.code not in column.wire.codes:
        return f"it is {column.base} and the binlog has {WireCode(wire.code).name}"
    return column.wire.mismatch(wire, column)


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
        if column.wire.content == "text" and charset is not None and column.charset is not None:
            if not same_charset(charset, column.charset):
                return f"its character set is {column.charset} and the binlog's is {charset}"
        elif column.wire.content == "bytes" and charset not in (None, "binary"):
            return f"it is binary and the binlog has text in {charset}"
    if column.wire.content == "members":
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
