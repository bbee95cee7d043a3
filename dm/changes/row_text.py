"""The values of a row as text, for all rows of a table: one function made once per list of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dm import accelerator
from dm.binlog.value import Row
from dm.changes.column_map import MappedColumn

RowText = Callable[[Row], bytes]
"""Literals with commas between them; raises TypeError for a value that an image leaves out."""


def row_text(columns: Sequence[MappedColumn], opening: bytes = b"", closing: bytes = b"") -> RowText:
    """What writes these columns of a row, between two texts; compiled where that is possible."""
    if accelerator.native is not None:
        steps = tuple((column.at, *column.usual, column.encode) for column in columns)
        compiled: RowText = accelerator.native.Literals(steps, opening, closing)
        return compiled
    places = [(column.at, column.encode) for column in columns]

    def text(row: Row) -> bytes:
        return opening + b",".join([encode(row[at]) for at, encode in places]) + closing

    return text


def listed_text(columns: Sequence[MappedColumn]) -> RowText:
    """The same as an element of an IN list: one value bare, several in parentheses."""
    return row_text(columns, b"(", b")") if len(columns) > 1 else row_text(columns)
