"""Values of all types, also wrong ones, for the encoders of rows."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any, Final

from dm.changes.column_map import MappedColumn, map_columns
from dm.changes.row_hash import row_text
from dm.ident import TableName
from dm.mysql.binlog.value import ABSENT
from dm.mysql.schema.table import Column, TableSchema
from tests.testbed.decoders import running

_TYPES: Final = (
    "tinyint", "bigint", "bit", "year", "char", "varchar", "longtext", "date", "time", "datetime", "timestamp", "json",
    "decimal", "float", "double", "binary", "blob", "geometry", "vector", "enum", "set", "inet6", "uuid",
)  # fmt: skip
_CHARSETS: Final = ("utf8mb4", "utf8mb3", "ascii", "latin1", "gbk", "binary", None)
_TEXTS: Final = (
    "", "a", "it's", "back\\slash", "nul\0", "line\r\nend\r", "ü", "日本", "😀", "-12.50", "1.", ".5", ".", "-", "1e5",
    "٣", "\ud800", "2024-01-01 00:00:00", "-838:59:59.000001", '{"a": "\\u00fc"}',
)  # fmt: skip
_BYTES: Final = (
    b"", b"plain", b"it's \\ \0\r\n", "ü日😀".encode(), b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\xe2\x82", b"a" * 3000,
)  # fmt: skip
_NUMBERS: Final = (0, 1, -1, 255, -(1 << 63), (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63) - 1)
_FLOATS: Final = (0.0, -0.0, 1.5, 0.1, 1e300, -1e-300, 1e16, 123456789.125, float("inf"), float("nan"))


class _Text(str):
    """A text with a class of its own, as a JSON document with types is."""


def any_columns(chance: random.Random) -> tuple[MappedColumn, ...]:
    """Some columns of a source with their places at a target of the same types."""
    columns = []
    for number in range(chance.randrange(1, 6)):
        base = chance.choice(_TYPES)
        members = ("a", "b") if base in ("enum", "set") else ()
        columns.append(Column(f"c{number}", base, charset=chance.choice(_CHARSETS), members=members))
    table = TableSchema(TableName("d", "t"), tuple(columns))
    return map_columns(table.name, columns, table, json_types=chance.choice((True, False)))


def any_value(chance: random.Random) -> Any:
    """A value such as rows have, or one that no row has."""
    return chance.choice(
        (
            None,
            ABSENT,
            chance.choice(_TEXTS),
            chance.choice(_BYTES),
            chance.choice(_NUMBERS),
            chance.choice(_FLOATS),
            chance.randbytes(chance.randrange(40)),
            bytes(chance.choices(range(128), k=chance.randrange(40))),
            _Text("own"),
            True,
        )
    )


def written(native: ModuleType | None, columns: tuple[MappedColumn, ...], row: tuple[Any, ...]) -> object:
    """What one of the two makes of a row: bytes, or what it raises."""
    with running(native):
        try:
            return row_text(columns, b"(", b")")(row)
        except (TypeError, UnicodeEncodeError, IndexError, ValueError) as error:
            return type(error).__name__
