"""Columns that a route adds: parts of the source's names, the same for every row of one source table.

After the decoder such a column is like one of the source's. It is at the end of each row image, takes part in keys,
folds, conditions and statements, and so belongs to a key if the target's table says so. Two source tables whose rows
are otherwise equal then neither collide nor wait for each other.

The value is sent as text, which the target converts to the column's character set. The session is strict: it fails
rather than store another text. BINARY(n) pads and ENUM and SET have members, so these are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dm.binlog.decode import RowPair
from dm.binlog.value import Row
from dm.errors import DMError
from dm.ident import TableName
from dm.rules.router import ExtractedColumn
from dm.schema.table import Column, TableSchema
from dm.type_family import BLOB_BYTES, CHARACTERS, TEXTS

_VARIABLE_BYTES: Final = frozenset(BLOB_BYTES) | {"varbinary"}


@dataclass(frozen=True, slots=True)
class ConstantColumn:
    """A column as if the source had it, with its value for every row."""

    column: Column
    value: bytes


def constant_columns(
    source: TableName, columns: Iterable[str], target: TableSchema, extracted: Sequence[ExtractedColumn]
) -> tuple[ConstantColumn, ...]:
    """The extracted columns for the target's table; raises DMError `extract-column-unfit`. `columns`: the source's."""
    names = {name.lower() for name in columns}
    return tuple(_constant(source, names, target, each) for each in extracted)


def _constant(source: TableName, names: set[str], target: TableSchema, extracted: ExtractedColumn) -> ConstantColumn:
    place = target.column(extracted.column)
    why = "the source has a column of that name" if extracted.column.lower() in names else _unfit(place, extracted)
    if why is not None or place is None:
        raise DMError("extract-column-unfit", table=source, column=extracted.column, target=target.name, why=why)
    text = extracted.value.rstrip(" ") if place.base == "char" else extracted.value  # as CHAR itself does
    if place.base in TEXTS:
        length = max(len(text), 1)
        column = Column(place.name, "varchar", length, charset="utf8mb4", collation="utf8mb4_bin")
    else:
        column = Column(place.name, "varbinary", max(len(text.encode()), 1))
    return ConstantColumn(column, text.encode())


def _unfit(place: Column | None, extracted: ExtractedColumn) -> str | None:
    if place is None:
        return "there is no such column"
    if place.generated is not None:
        return "the target computes it"
    if place.base not in TEXTS and place.base not in _VARIABLE_BYTES:
        return f"it is of type {place.base.upper()}"
    length = len(extracted.value) if place.base in TEXTS else len(extracted.value.encode())
    limit = 1 if place.length is None else place.length
    if place.base in CHARACTERS | {"varbinary"} and length > limit:
        return f"`{extracted.value}` is longer than {limit}"
    return None


def with_constants(pairs: Sequence[RowPair], constants: Row) -> list[RowPair]:
    """Row changes as if the source had the columns."""
    return [
        (None if before is None else (*before, *constants), None if after is None else (*after, *constants))
        for before, after in pairs
    ]
