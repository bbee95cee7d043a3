"""Table maps: which table an id in row events means, and the layout of its rows.

The server repeats the map before the rows of every statement, byte for byte the same. So the parser keeps its result by
the bytes, and the same bytes give the same object. Decoders are cached by that identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.binlog.cursor import ByteCursor, Malformed
from dm.binlog.optional_metadata import OptionalMetadata, parse_optional_metadata
from dm.binlog.wire_type import UnknownType, WireType, resolve
from dm.flavor import Flavor

TABLE_ID_SIZE: Final = 6


@dataclass(frozen=True, slots=True, eq=False)
class TableMap:
    """One table map; compared by identity, equal bytes in one stream are one object."""

    table_id: int
    schema: str
    table: str
    columns: tuple[WireType, ...]
    nullable: tuple[bool, ...]
    optional: OptionalMetadata
    flavor: Flavor
    body: bytes  # as the source wrote it, for storing the map
    unreadable: str | None = None  # why rows of this table can't be decoded

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def behind_id(self) -> bytes:
        """The map without the table's id, which changes each time the source opens the table."""
        return self.body[TABLE_ID_SIZE:]

    @property
    def names(self) -> tuple[str, ...] | None:
        """Column names if the source runs binlog_row_metadata=FULL."""
        return self.optional.names


def parse_table_map(cursor: ByteCursor, flavor: Flavor) -> TableMap:
    """Read a table map's body."""
    body = cursor.data[cursor.at : cursor.end]
    table_id = cursor.uint(TABLE_ID_SIZE)
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
        return TableMap(table_id, schema, table, (), (), OptionalMetadata(), flavor, body, str(error))
    if metadata.left:
        raise Malformed("its type metadata has bytes no column needs")
    null_bits = cursor.take((count + 7) // 8)
    nullable = tuple(bool(null_bits[index >> 3] >> (index & 7) & 1) for index in range(count))
    return TableMap(
        table_id, schema, table, columns, nullable, parse_optional_metadata(cursor, columns, flavor), flavor, body
    )
