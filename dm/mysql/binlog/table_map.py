"""Table maps: which table an id in row events means, the layout of its rows, and whether a structure fits it.

The server repeats the map before the rows of every statement, byte for byte the same but for the table's id, which
changes each time the source opens the table. So the parser keeps a map by the bytes after the id: the same table with
the same columns is one object, whatever its id. All that is learned about a table is kept by that identity.

What a table map says beyond types: signs always, names, charsets, members and keys under binlog_row_metadata=FULL.

It is a list of (kind, length, value); an unknown kind is skipped. Bitmaps count only the columns they concern, highest
bit first. Charset pairs index into the character columns only, and the two server families disagree on whether GEOMETRY
is one (MySQL source, Table_map_event::Optional_metadata_fields; MariaDB source, is_character_type).

Whether a tracked structure can be the one that a table map was written with.

Row events name no columns, so rows are read through the structure that the tracker holds for their position. With a
wrong structure, columns shift and data goes wrong silently; this check prevents that. It compares everything the map
says. Count and types are always there, with the sizes that affect the layout of the bytes; signs, names, character sets
and ENUM members are there under binlog_row_metadata=FULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol

from dm.accelerator.native import shared
from dm.errors import DMError
from dm.mysql.binlog.charset import charset_of, decode_text, same_charset
from dm.mysql.binlog.cursor import ByteCursor, Malformed
from dm.mysql.binlog.wire_type import CHARACTER, MORE_CHARACTER, NUMERIC, UnknownType, WireCode, WireType, resolve
from dm.mysql.dialect import Flavor, dialect

TABLE_ID_SIZE: Final = 6
_MAP_COST: Final = 700
_COLUMN_COST: Final = 250


@dataclass(frozen=True, slots=True, eq=False)
class TableMap:
    """A table's columns in row events; compared by identity, equal bytes after the id are one object in a stream."""

    schema: str
    table: str
    columns: tuple[WireType, ...]
    nullable: tuple[bool, ...]
    optional: OptionalMetadata
    flavor: Flavor
    content: bytes  # as the source wrote it after the id
    unreadable: str | None = None  # why rows of this table can't be decoded

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def memory(self) -> int:
        """About how many bytes it takes."""
        return _MAP_COST + _COLUMN_COST * len(self.columns) + 2 * len(self.content)

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names if the source runs binlog_row_metadata=FULL."""
        return self.optional.names


@shared
class TableMapEvent(NamedTuple):
    """From here on rows events mean this table by the id."""

    table_id: int
    table_map: TableMap


def parse_table_map(cursor: ByteCursor, flavor: Flavor) -> TableMap:
    """Read a table map's body after the id."""
    content = cursor.data[cursor.at : cursor.end]
    cursor.take(2)  # flags, no reader needs them
    schema = cursor.short_bytes().decode()
    cursor.nul()
    table = cursor.short_bytes().decode()
    cursor.nul()
    count = cursor.packed()
    if not 0 < count <= cursor.left:
        raise Malformed(f"{count} columns")
    codes = cursor.take(count)
    metadata = ByteCursor(cursor.packed_bytes())
    try:
        columns = tuple(resolve(code, metadata) for code in codes)
    except UnknownType as error:
        # A later server's type. The length of its metadata is unknown, so nothing after it can be read; that matters
        # only if the table is replicated.
        return TableMap(schema, table, (), (), OptionalMetadata(), flavor, content, str(error))
    if metadata.left:
        raise Malformed("its type metadata has bytes no column needs")
    null_bits = cursor.take((count + 7) // 8)
    nullable = tuple(bool(null_bits[index >> 3] >> (index & 7) & 1) for index in range(count))
    return TableMap(schema, table, columns, nullable, parse_optional_metadata(cursor, columns, flavor), flavor, content)


@dataclass(slots=True)
class OptionalMetadata:
    """Per column of the table map, None if the map says nothing; shared, never changed once read."""

    unsigned: tuple[bool | None, ...] | None = None  # None inside for columns that are not numbers
    collations: tuple[int | None, ...] | None = None  # character columns
    enum_collations: tuple[int | None, ...] | None = None  # ENUM and SET columns
    names: tuple[str, ...] | None = None
    members: tuple[tuple[bytes, ...] | None, ...] | None = None  # ENUM and SET columns, in the column's character set
    geometry_types: tuple[int, ...] | None = None
    primary_key: tuple[tuple[int, int], ...] | None = None  # (column index, prefix length or 0)
    visible: tuple[bool, ...] | None = None
    vector_dimensions: tuple[int, ...] | None = None


def _bits(value: bytes, count: int) -> Iterable[bool]:
    if len(value) < (count + 7) // 8:
        raise Malformed("a bitmap in the table map is too short")
    return (bool(value[index >> 3] & (0x80 >> (index & 7))) for index in range(count))


def _spread(count: int, indexes: Sequence[int], values: Iterable[int]) -> tuple[int | None, ...]:
    spread: list[int | None] = [None] * count
    for index, value in zip(indexes, values, strict=True):
        spread[index] = value
    return tuple(spread)


def _spread_signs(value: bytes, count: int, indexes: Sequence[int]) -> list[bool | None]:
    signs: list[bool | None] = [None] * count
    for index, unsigned in zip(indexes, _bits(value, len(indexes)), strict=True):
        signs[index] = unsigned
    return signs


def _signs(value: bytes, columns: Sequence[WireType]) -> tuple[bool | None, ...]:
    """The signs of numbers; None if uncertain.

    Present servers (MySQL 9.7, MariaDB 10.11) count YEAR among the numbers and earlier ones did not; the map does not
    say which. Both readings are made, and only their agreement is used.
    """
    count = len(columns)
    numbers = [index for index, column in enumerate(columns) if column.code in NUMERIC]
    with_years = [
        index for index, column in enumerate(columns) if column.code in NUMERIC or column.code == WireCode.YEAR
    ]
    signs = _spread_signs(value, count, numbers)
    if len(with_years) == len(numbers) or len(value) < (len(with_years) + 7) // 8:
        return tuple(signs)
    others = _spread_signs(value, count, with_years)
    return tuple(sign if sign == other else None for sign, other in zip(signs, others, strict=True))


def _default_collations(cursor: ByteCursor, count: int, indexes: Sequence[int]) -> tuple[int | None, ...]:
    values = [cursor.packed()] * len(indexes)
    while cursor.left:
        at = cursor.packed()
        if at >= len(values):
            raise Malformed("a character set for a column that is not there")
        values[at] = cursor.packed()
    return _spread(count, indexes, values)


def _column_collations(cursor: ByteCursor, count: int, indexes: Sequence[int]) -> tuple[int | None, ...]:
    return _spread(count, indexes, [cursor.packed() for _ in indexes])


def _member_lists(
    cursor: ByteCursor, known: tuple[tuple[bytes, ...] | None, ...] | None, count: int, indexes: Sequence[int]
) -> tuple[tuple[bytes, ...] | None, ...]:
    members: list[tuple[bytes, ...] | None] = list(known or [None] * count)
    for index in indexes:
        if not cursor.left:
            break
        members[index] = tuple(cursor.packed_bytes() for _ in range(_bounded(cursor)))
    return tuple(members)


def _bounded(cursor: ByteCursor) -> int:
    count = cursor.packed()
    if count > cursor.left:
        raise Malformed("a list is longer than the bytes that hold it")
    return count


def parse_optional_metadata(cursor: ByteCursor, columns: Sequence[WireType], flavor: Flavor) -> OptionalMetadata:
    """Read everything after the null bitmap of a table map."""
    metadata = OptionalMetadata()
    count = len(columns)
    character_codes = MORE_CHARACTER if dialect(flavor).more_are_characters else CHARACTER

    def having(*codes: int) -> list[int]:
        return [index for index, column in enumerate(columns) if column.code in codes]

    while cursor.left:
        kind = cursor.uint(1)
        value = cursor.packed_bytes()
        field = ByteCursor(value)
        if kind == 1:
            metadata.unsigned = _signs(value, columns)
        elif kind == 2:
            metadata.collations = _default_collations(field, count, having(*character_codes))
        elif kind == 3:
            metadata.collations = _column_collations(field, count, having(*character_codes))
        elif kind == 4:
            metadata.names = tuple(field.packed_bytes().decode() for _ in columns)
        elif kind == 5:
            metadata.members = _member_lists(field, metadata.members, count, having(WireCode.SET))
        elif kind == 6:
            metadata.members = _member_lists(field, metadata.members, count, having(WireCode.ENUM))
        elif kind == 7:
            metadata.geometry_types = tuple(field.packed() for _ in having(WireCode.GEOMETRY))
        elif kind in (8, 9):
            key: list[tuple[int, int]] = []
            while field.left:
                index = field.packed()
                if index >= count:
                    raise Malformed("the primary key names a column that is not there")
                key.append((index, field.packed() if kind == 9 else 0))
            metadata.primary_key = tuple(key)
        elif kind == 10:
            metadata.enum_collations = _default_collations(field, count, having(WireCode.ENUM, WireCode.SET))
        elif kind == 11:
            metadata.enum_collations = _column_collations(field, count, having(WireCode.ENUM, WireCode.SET))
        elif kind == 12:
            metadata.visible = tuple(_bits(value, count))
        elif kind == 13:
            metadata.vector_dimensions = tuple(field.packed() for _ in having(WireCode.VECTOR))
    return metadata


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
