"""The values of a row as text, for all rows of a table: one function made once per list of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from dm.accelerator.native import Native
from dm.accelerator.switch import Pair
from dm.binlog.value import Row
from dm.changes.column_map import MappedColumn
from dm.sql.literal import LiteralStep

RowText = Callable[[Row], bytes]
"""Literals with commas between them; raises TypeError for a value that an image leaves out."""


def row_text(columns: Sequence[MappedColumn], opening: bytes = b"", closing: bytes = b"") -> RowText:
    """Writes these columns of a row, between two texts; compiled if possible."""
    return _TWINS()(columns, opening, closing)


class _Maker(Protocol):
    """Makes functions that write columns."""

    def __call__(self, columns: Sequence[MappedColumn], opening: bytes, closing: bytes, /) -> RowText:
        """For rows of these columns."""
        ...


def _interpreted(columns: Sequence[MappedColumn], opening: bytes, closing: bytes) -> RowText:
    places = [(column.at, column.encode) for column in columns]

    def text(row: Row) -> bytes:
        return opening + b",".join([encode(row[at]) for at, encode in places]) + closing

    return text


def _compiled(native: Native) -> _Maker:
    def made(columns: Sequence[MappedColumn], opening: bytes, closing: bytes) -> RowText:
        steps = tuple(LiteralStep(column.at, *column.usual, column.encode) for column in columns)
        return native.Literals(steps, opening, closing)

    return made


_TWINS: Final[Pair[_Maker]] = Pair(_interpreted, _compiled)


def listed_text(columns: Sequence[MappedColumn]) -> RowText:
    """The same as an element of an IN list: one value bare, several in parentheses."""
    return row_text(columns, b"(", b")") if len(columns) > 1 else row_text(columns)
