"""Table maps: which table an id in row events means, and the layout of its rows.

The server repeats the map before the rows of every statement, byte for byte the same but for the table's id, which
changes each time the source opens the table. So the parser keeps a map by the bytes behind the id: the same table with
the same columns is one object, whatever its id. All that is learned about a table is kept by that identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from dm.accelerator.structures import shared
from dm.binlog.cursor import ByteCursor, Malformed
from dm.binlog.optional_metadata import OptionalMetadata, parse_optional_metadata
from dm.binlog.wire_type import UnknownType, WireType, resolve
from dm.flavor import Flavor

TABLE_ID_SIZE: Final = 6
_MAP_COST: Final = 700
_COLUMN_COST: Final = 250


@dataclass(frozen=True, slots=True, eq=False)
class TableMap:
    """A table's columns in row events; compared by identity, equal bytes behind the id are one object in a stream."""

    schema: str
    table: str
    columns: tuple[WireType, ...]
    nullable: tuple[bool, ...]
    optional: OptionalMetadata
    flavor: Flavor
    content: bytes  # as the source wrote it behind the id
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
    """Read a table map's body behind the id."""
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
