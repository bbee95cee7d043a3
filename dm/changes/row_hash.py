"""Rows told apart by a hash of all their values, which the target computes: of its own rows, and of row images.

A row of a table without an index is found by its values alone, and a MariaDB reads the whole table for each of them.
With the hash one reading finds many rows: the server computes it once for each of its rows, and looks it up in a list.

Two rows have the same hash if and only if they have the same bytes in every column that is written. So each column
becomes a text that only this value has, NULL included, and that cannot run into the next one. The texts are hashed by
SHA-256, for which nobody can make two different rows with the same hash. A row image becomes the same text by the
conversions that `row_keys.py` makes for one row. Where it becomes another text, nothing is found, and no harm done.
Where a text is longer than the server makes them (`max_allowed_packet`) it is NULL, and so is the hash, which is found
nowhere: CONCAT keeps it, and IF asks the value whether it is NULL, not the text.

- A text is the hexadecimal digits of its bytes, in the column's character set. Of a long value it is the hash of them,
  as twice the bytes may be more than the server takes in one value.
- Integers are hexadecimal digits as well, since ZEROFILL changes how they are printed; so are the numbers of ENUM, SET
  and BIT, which `|0` makes integers of.
- A FLOAT is printed as the DOUBLE that it is: in six digits two of them may look alike. Zero has one text,
  whatever its sign: two zeros are one row here, and may be rewritten as either of them.
- A DECIMAL is cast to its own digits, a time is printed with all of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from dm.accelerator.native import Native
from dm.accelerator.switch import Twins
from dm.changes.column_map import MappedColumn
from dm.mysql.binlog.value import Row
from dm.mysql.schema.table import Column
from dm.mysql.sql.literal import LiteralStep


@dataclass(frozen=True, slots=True)
class _Told:
    """How the value of one column becomes a text."""

    at: int
    encode: Callable[..., bytes]
    stored: bytes  # of the target's row
    before: bytes  # around the literal of an image
    after: bytes

    def literal(self, row: Row) -> bytes:
        """The text of an image's value."""
        value = row[self.at]
        return b"'N'" if value is None else self.before + self.encode(value) + self.after


class RowHash:
    """How the rows of one target table are hashed."""

    def __init__(self, columns: Sequence[MappedColumn], *, drops: bool) -> None:
        self._told = [_told(column) for column in columns]
        self.of_row: Final = _hashed([each.stored for each in self._told])
        """The hash of a row of the table, as SQL."""
        self.drops: Final = drops
        """Whether a row that comes and goes within a batch need not come at all."""
        self.refused = ""
        """Why rows are no longer found so."""

    def of_image(self, row: Row) -> bytes:
        """The hash that a row with the image's values has in the table, as SQL."""
        return _hashed([each.literal(row) for each in self._told])

    def refuse(self, why: str) -> None:
        """Find rows one by one from now on."""
        self.refused = why


def hashable(column: Column) -> bool:
    """Whether the column's values can be told apart by a text."""
    return column.type.hashed(column) is not None


def _hashed(texts: Sequence[bytes]) -> bytes:
    return b"UNHEX(SHA2(CONCAT(" + b",',',".join(texts) + b"),256))"


def _told(column: MappedColumn) -> _Told:
    around = column.target.type.hashed(column.target)
    assert around is not None, "a rule says that there is a text"
    before, after = around
    stored = before + column.sql + after
    if column.target.type.numbered:
        stored = b"HEX(" + column.sql + b"|0)"
    if column.target.nullable:
        stored = b"IF(" + column.sql + b" IS NULL,'N'," + stored + b")"
    if column.target.type.is_text and column.target.charset != "binary":
        charset = (column.target.charset or "utf8mb4").encode()
        before, after = before + b"CONVERT(", b" USING " + charset + b")" + after
    return _Told(column.at, column.encode, stored, before, after)


# The values of a row as text, for all rows of a table: one function made once per list of columns.

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


_TWINS: Final[Twins[_Maker]] = Twins(_interpreted, _compiled)


def listed_text(columns: Sequence[MappedColumn]) -> RowText:
    """The same as an element of an IN list: one value bare, several in parentheses."""
    return row_text(columns, b"(", b")") if len(columns) > 1 else row_text(columns)
