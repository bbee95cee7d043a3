"""Row images through the compiled decoder: which of its steps reads which column.

The types are those of `dm.mysql.binlog.image`, in steps of `dm/accelerator/native_rows.c`. For columns that only old
servers write, a step calls the Python function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from typing import Any, Final, NamedTuple

from dm.accelerator.native import Native, shared
from dm.accelerator.switch import Twins
from dm.mysql.binlog.image import Fixed, SizedColumn, step_of
from dm.mysql.binlog.image_proof import ProofStep, RawPair
from dm.mysql.binlog.json_tree import json_value
from dm.mysql.binlog.row_events import Rows
from dm.mysql.binlog.table_map import TableMap, WireColumn
from dm.mysql.binlog.value import ABSENT, UNREAD
from dm.mysql.binlog.wire_type import WireCode, WireType


@shared
class RowStepKind(IntEnum):
    """What the compiled decoder does for one column."""

    ABSENT = 0
    SIGNED = 1
    UNSIGNED = 2
    BIG_ENDIAN_NUMBER = 3
    FLOAT = 4
    DOUBLE = 5
    YEAR = 6
    DECIMAL = 7
    DATE = 8
    DATETIME2 = 9
    TIMESTAMP2 = 10
    TIME2 = 11
    BYTES = 12
    JSON = 13
    UTF8 = 14
    CALL_FIXED = 15
    CALL_SIZED = 16


@shared
class RowStep(NamedTuple):
    """The compiled decoder's reading of one column."""

    kind: RowStepKind
    width: int = 0  # bytes of the length in front; for a DECIMAL its digits before the point
    digits: int = 0  # of a fraction
    size: int = 0  # bytes of a value of fixed size, or the size to pad a value to
    function: Callable[[bytes], Any] | None = None


LAYOUTS_KEPT: Final = 64
_INTEGER_SIZES: Final = {
    WireCode.TINY: 1,
    WireCode.SHORT: 2,
    WireCode.INT24: 3,
    WireCode.LONG: 4,
    WireCode.LONGLONG: 8,
}
_BARE: Final = {
    WireCode.FLOAT: RowStepKind.FLOAT,
    WireCode.DOUBLE: RowStepKind.DOUBLE,
    WireCode.YEAR: RowStepKind.YEAR,
    WireCode.DATE: RowStepKind.DATE,
    WireCode.NEWDATE: RowStepKind.DATE,
}
_FRACTIONAL: Final = {
    WireCode.DATETIME2: RowStepKind.DATETIME2,
    WireCode.TIMESTAMP2: RowStepKind.TIMESTAMP2,
    WireCode.TIME2: RowStepKind.TIME2,
}


def native_step(wire: WireType, column: WireColumn) -> RowStep:
    """The compiled decoder's reading of one column; raises DMError if nothing can read it."""
    code, size = wire.code, wire.size
    if code in _INTEGER_SIZES:
        kind = RowStepKind.UNSIGNED if column.unsigned else RowStepKind.SIGNED
        return RowStep(kind, size=_INTEGER_SIZES[WireCode(code)])
    if code in _BARE:
        return RowStep(_BARE[WireCode(code)])
    if code in _FRACTIONAL:
        return RowStep(_FRACTIONAL[WireCode(code)], digits=size)
    if code == WireCode.NEWDECIMAL:
        return RowStep(RowStepKind.DECIMAL, width=size - wire.scale, digits=wire.scale)
    if code == WireCode.BIT:
        return RowStep(RowStepKind.BIG_ENDIAN_NUMBER, size=(size + 7) // 8)
    if code in (WireCode.ENUM, WireCode.SET):
        return RowStep(RowStepKind.UNSIGNED, size=size)
    if code == WireCode.JSON:
        return RowStep(RowStepKind.JSON, width=size, function=json_value)
    if code == WireCode.BLOB and column.wire.document:
        return RowStep(RowStepKind.UTF8, width=size)
    step = step_of(wire, column)
    if isinstance(step, SizedColumn):
        if step.function is None:
            return RowStep(RowStepKind.BYTES, width=step.width)
        if code == WireCode.STRING:  # padded: an empty value has only the padding
            return RowStep(RowStepKind.BYTES, width=step.width, size=len(step.function(b"")))
        return RowStep(RowStepKind.CALL_SIZED, width=step.width, function=step.function)
    fixed_size, function = _fixed(step)
    return RowStep(RowStepKind.CALL_FIXED, size=fixed_size, function=function)


def _fixed(step: Fixed) -> tuple[int, Callable[[bytes], Any]]:
    """Size and function of a column that Python decodes."""
    layout, function = step.layout, step.function
    assert function is not None
    if layout.format.endswith("s"):
        return layout.size, function
    made = function

    def of_number(raw: bytes) -> Any:
        return made(*layout.unpack(raw))

    return layout.size, of_number


class NativeRows:
    """The compiled decoder of a table map's rows; `layouts` is what it has learnt about their images."""

    __slots__ = ("_native", "_steps", "decode_rows", "layouts")

    def __init__(self, native: Native, table_map: TableMap, columns: Sequence[WireColumn]) -> None:
        self._native = native
        self._steps = [native_step(*pair) for pair in zip(table_map.columns, columns, strict=True)]
        self.layouts: dict[bytes, Any] = {}
        self.decode_rows = native.decode_rows

    def learn(self, rows: Rows) -> list[Any] | None:
        """Its reason for declined rows, if it knows the images' columns; None if it has none."""
        wanted = {rows.present, rows.present_after}
        if rows.partial or wanted <= self.layouts.keys():
            return None
        if len(self.layouts) >= LAYOUTS_KEPT:
            self.layouts.clear()
        for present in wanted:
            self.layouts[present] = self.layout(present)
        return self.decode_rows(self.layouts, rows)

    def layout(self, present: bytes) -> Any:
        """The extension's layout for images with these columns."""
        bits = int.from_bytes(present, "little")
        steps = tuple(step if bits >> index & 1 else None for index, step in enumerate(self._steps))
        return self._native.Layout(steps, ABSENT)

    def proving(self, proofs: Sequence[ProofStep]) -> dict[bytes, Any]:
        """The layouts that prove the images of all columns as they read them."""
        count = len(self._steps)
        layout = self._native.Layout(tuple(self._steps), ABSENT, tuple(proofs), UNREAD)
        width = (count + 7) // 8
        # What stands in a bitmap after the last column means nothing.
        return dict.fromkeys((((1 << count) - 1).to_bytes(width, "little"), b"\xff" * width), layout)

    def images(self, proving: dict[bytes, Any], rows: Rows) -> list[RawPair] | None:
        """The images of each change as the source wrote them; None where one is not proven."""
        found = self._native.proven_rows(proving, rows)
        return None if found is None else [(raw_before, raw_after) for _, _, raw_before, raw_after in found]


NATIVE_ROWS: Final[Twins[Callable[[TableMap, Sequence[WireColumn]], NativeRows | None]]] = Twins(
    lambda table_map, columns: None, lambda native: partial(NativeRows, native)
)
"""What reads rows in front of `dm.mysql.binlog.decode`, which is the reference."""
