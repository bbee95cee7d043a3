"""Row images through the compiled decoder: which of its steps reads which column.

The same types as in `dm.binlog.codegen`, in the numbers that `dm/accelerator/rows.c` knows. What only old servers write
is left to the Python functions, which a step calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from struct import Struct
from types import ModuleType
from typing import Any, Final

from dm.binlog.check import WireColumn
from dm.binlog.codegen import Fixed, Sized, step_of
from dm.binlog.json_tree import json_value
from dm.binlog.value import ABSENT
from dm.binlog.wire_type import WireCode, WireType

NativeStep = tuple[int, int, int, int, Callable[[bytes], Any] | None]  # kind, width, digits, size, function


class Kind(IntEnum):
    """Steps of `dm/accelerator/rows.c`, in its order."""

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


_INTEGER_SIZES: Final = {
    WireCode.TINY: 1,
    WireCode.SHORT: 2,
    WireCode.INT24: 3,
    WireCode.LONG: 4,
    WireCode.LONGLONG: 8,
}
_BARE: Final = {
    WireCode.FLOAT: Kind.FLOAT,
    WireCode.DOUBLE: Kind.DOUBLE,
    WireCode.YEAR: Kind.YEAR,
    WireCode.DATE: Kind.DATE,
    WireCode.NEWDATE: Kind.DATE,
}
_FRACTIONAL: Final = {
    WireCode.DATETIME2: Kind.DATETIME2,
    WireCode.TIMESTAMP2: Kind.TIMESTAMP2,
    WireCode.TIME2: Kind.TIME2,
}


def native_step(wire: WireType, column: WireColumn) -> NativeStep:
    """How the compiled decoder reads one column; raises DMError for what nobody reads."""
    code, size = wire.code, wire.size
    if code in _INTEGER_SIZES:
        kind = Kind.UNSIGNED if column.unsigned else Kind.SIGNED
        return kind, 0, 0, _INTEGER_SIZES[WireCode(code)], None
    if code in _BARE:
        return _BARE[WireCode(code)], 0, 0, 0, None
    if code in _FRACTIONAL:
        return _FRACTIONAL[WireCode(code)], 0, size, 0, None
    if code == WireCode.NEWDECIMAL:
        return Kind.DECIMAL, size - wire.scale, wire.scale, 0, None
    if code == WireCode.BIT:
        return Kind.BIG_ENDIAN_NUMBER, 0, 0, (size + 7) // 8, None
    if code in (WireCode.ENUM, WireCode.SET):
        return Kind.UNSIGNED, 0, 0, size, None
    if code == WireCode.JSON:
        return Kind.JSON, size, 0, 0, json_value
    if code == WireCode.BLOB and column.base == "json":
        return Kind.UTF8, size, 0, 0, None
    step = step_of(wire, column)
    if isinstance(step, Sized):
        if step.function is None:
            return Kind.BYTES, step.width, 0, 0, None
        if code == WireCode.STRING:  # padded: of an empty value only the padding is left
            return Kind.BYTES, step.width, 0, len(step.function(b"")), None
        return Kind.CALL_SIZED, step.width, 0, 0, step.function
    return Kind.CALL_FIXED, 0, 0, *_fixed(step)


def _fixed(step: Fixed) -> tuple[int, Callable[[bytes], Any]]:
    """Size and function of a column that Python makes of its bytes."""
    layout, function = Struct("<" + step.fields), step.function
    assert function is not None
    if step.fields.endswith("s"):
        return layout.size, function
    made = function

    def of_number(raw: bytes) -> Any:
        return made(*layout.unpack(raw))

    return layout.size, of_number


def native_layout(native: ModuleType, steps: Sequence[NativeStep], present: bytes) -> Any:
    """The extension's layout for the images that hold these columns."""
    bits = int.from_bytes(present, "little")
    return native.Layout(tuple(step if bits >> index & 1 else None for index, step in enumerate(steps)), ABSENT)
