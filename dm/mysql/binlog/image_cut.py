"""A row image of all columns, cut to some of them: what an event says of a row whose other columns nobody asks for.

An event says in a bitmap which columns its images have (`dm.mysql.binlog.row_events`). An image of some columns is the
bitmap of their NULLs, a bit for each of them alone, and their values one after the other. So nothing is decoded or
made: bytes of the whole image are copied. What is cut was proven as a whole (`dm.mysql.binlog.image_proof`).

The compiled part (`dm/accelerator/image_cut.c`) has the same rule. It reads the columns' sizes as they are packed here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from struct import Struct
from typing import Final, Protocol

from dm.accelerator.native import Native
from dm.accelerator.switch import Twins
from dm.mysql.binlog.cursor import ByteCursor
from dm.mysql.binlog.image import Fixed, step_of
from dm.mysql.binlog.table_map import TableMap, WireColumn

_COUNT: Final = Struct("<H")  # of all columns
_COLUMN: Final = Struct("<HBB")  # bytes of a value, or of the length before it; whether it is kept


def packed_cut(table_map: TableMap, columns: Sequence[WireColumn], kept: Collection[int]) -> bytes:
    """How images of these columns are cut to those at some places: all columns up to the last one that is kept."""
    found = [_COUNT.pack(len(table_map.columns))]
    for at in range(max(kept) + 1):
        step = step_of(table_map.columns[at], columns[at])
        size, width = (step.layout.size, 0) if isinstance(step, Fixed) else (0, step.width)
        found.append(_COLUMN.pack(size, width, at in kept))
    return b"".join(found)


def cut_image(cut: bytes, image: bytes) -> bytes:
    """The image with the kept columns alone; raises Malformed for bytes that are none."""
    return _TWINS()(cut, image)


class _Cut(Protocol):
    """Cuts one image."""

    def __call__(self, cut: bytes, image: bytes, /) -> bytes:
        """The image of the kept columns."""
        ...


def _cut(cut: bytes, image: bytes) -> bytes:
    cursor = ByteCursor(image)
    nulls = int.from_bytes(cursor.take((_COUNT.unpack_from(cut)[0] + 7) // 8), "little")
    kept_nulls = count = 0
    values: list[bytes] = []
    for at, (size, width, kept) in enumerate(_COLUMN.iter_unpack(memoryview(cut)[_COUNT.size :])):
        null, start = nulls >> at & 1, cursor.at
        if not null:
            cursor.take(cursor.uint(width) if width else size)
        if kept:
            kept_nulls |= null << count
            count += 1
            values.append(image[start : cursor.at])
    return kept_nulls.to_bytes((count + 7) // 8, "little") + b"".join(values)


def _compiled(native: Native) -> _Cut:
    def cut_one(cut: bytes, image: bytes) -> bytes:
        found = native.cut_image(cut, image)
        return _cut(cut, image) if found is None else found

    return cut_one


_TWINS: Final[Twins[_Cut]] = Twins(_cut, _compiled)
