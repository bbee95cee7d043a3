"""Row images to tuples, by functions made for one layout.

A generic decoder spends its time asking "what type is the next column?" and "is it null?", row after row, with the same
answers. So for each table map, set of present columns and null pattern a function is written and compiled once in
which the answers are fixed: neighbouring columns of fixed size are read by one `struct` call, a null costs nothing at
all. A table whose rows have very many null patterns gets, after `PATTERNS_KEPT` of them, one function that asks about
nulls.

A generated function is `image(b, p) -> (row, p)` or `image(b, p, nulls) -> (row, p)`; it reads from b at p and does not
check the end: slicing past it is silent, so the caller compares the p it gets with the end of the rows. The source text
consists of column numbers and constants of this module only; nothing from the wire or from a name goes into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from dm.binlog import temporal
from dm.binlog.check import WireColumn
from dm.binlog.decimal_text import decimal_decoder, decimal_size
from dm.binlog.json_tree import json_value
from dm.binlog.mariadb_compression import decompress_column
from dm.binlog.value import ABSENT, Row
from dm.binlog.wire_type import WireCode, WireType
from dm.errors import DMError
from dm.type_family import FIXED_BYTES

PATTERNS_KEPT: Final = 64

Image = Callable[[bytes, int], tuple[Row, int]]
NullableImage = Callable[[bytes, int, int], tuple[Row, int]]


class Fixed(NamedTuple):
    """A column of fixed size: its `struct` characters, and the expression over their values {0} and {1}."""

    fields: str
    expression: str = "{0}"
    function: Callable[..., Any] | None = None  # what {f} in the expression calls


class Sized(NamedTuple):
    """A column after its length of `width` bytes; `function` makes the value where the bytes are not it."""

    width: int
    function: Callable[[bytes], Any] | None = None


Step = Fixed | Sized

_INTEGERS: Final = {
    WireCode.TINY: ("b", "B"),
    WireCode.SHORT: ("h", "H"),
    WireCode.LONG: ("i", "I"),
    WireCode.LONGLONG: ("q", "Q"),
}
_NUMBER_FIELDS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}


def _called(size: int, function: Callable[[bytes], Any]) -> Fixed:
    return Fixed(f"{size}s", "{f}({0})", function)


def _big_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _little_endian(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _padded(size: int) -> Callable[[bytes], bytes]:
    def pad(raw: bytes) -> bytes:
        return raw.ljust(size, b"\0")

    return pad


def _mariadb_json(raw: bytes) -> str:
    return raw.decode()


def _old_temporal(code: int, digits: int) -> Fixed:
    """TIMESTAMP, DATETIME and TIME from before the version 2 types; with digits they are MariaDB's."""
    if code == WireCode.TIMESTAMP:
        if digits:
            return _called(temporal.hires_timestamp_size(digits), temporal.hires_timestamp_decoder(digits))
        return Fixed("I", "{f}({0})", temporal.old_timestamp)
    if code == WireCode.DATETIME:
        if digits:
            return _called(temporal.HIRES_DATETIME_SIZE[digits], temporal.hires_datetime_decoder(digits))
        return Fixed("Q", "{f}({0})", temporal.old_datetime)
    if digits:
        return _called(temporal.HIRES_TIME_SIZE[digits], temporal.hires_time_decoder(digits))
    return _called(3, temporal.old_time)


def step_of(wire: WireType, column: WireColumn) -> Step:
    """How to read one column."""
    code, size = wire.code, wire.size
    if code in _INTEGERS:
        return Fixed(_INTEGERS[WireCode(code)][column.unsigned])
    if code == WireCode.INT24:
        return Fixed("HB" if column.unsigned else "Hb", "{0} | {1} << 16")
    if code == WireCode.FLOAT:
        return Fixed("f")
    if code == WireCode.DOUBLE:
        return Fixed("d")
    if code == WireCode.YEAR:
        return Fixed("B", "{0} and {0} + 1900")
    if code == WireCode.NEWDECIMAL:
        return _called(decimal_size(size, wire.scale), decimal_decoder(size, wire.scale))
    if code == WireCode.BIT:
        return _called((size + 7) // 8, _big_endian)
    if code in (WireCode.DATE, WireCode.NEWDATE):
        return Fixed("HB", "{f}({0} | {1} << 16)", temporal.DATES.__getitem__)
    if code == WireCode.DATETIME2:
        return _called(5 + temporal.fraction_size(size), temporal.datetime2_decoder(size))
    if code == WireCode.TIMESTAMP2:
        return _called(4 + temporal.fraction_size(size), temporal.timestamp2_decoder(size))
    if code == WireCode.TIME2:
        return _called(3 + temporal.fraction_size(size), temporal.time2_decoder(size))
    if code in (WireCode.TIMESTAMP, WireCode.DATETIME, WireCode.TIME):
        return _old_temporal(code, column.decimals or 0)
    if code in (WireCode.ENUM, WireCode.SET):
        fields = _NUMBER_FIELDS.get(size)
        return Fixed(fields) if fields else _called(size, _little_endian)
    if code == WireCode.STRING:
        # Trailing pad characters are not sent; for binary strings these are zero bytes (MySQL source,
        # Field_string::pack).
        padded = size if column.base == "binary" else FIXED_BYTES.get(column.base)
        return Sized(1 if size <= 255 else 2, _padded(padded) if padded else None)
    if code == WireCode.VARCHAR:
        return Sized(1 if size <= 255 else 2)
    if code == WireCode.VARCHAR_COMPRESSED:
        return Sized(1 if size <= 255 else 2, decompress_column)
    if code == WireCode.BLOB_COMPRESSED:
        return Sized(size, decompress_column)
    if code == WireCode.JSON:
        return Sized(size, json_value)
    if code == WireCode.BLOB and column.base == "json":
        return Sized(size, _mariadb_json)
    if code in (WireCode.BLOB, WireCode.GEOMETRY, WireCode.VECTOR):
        return Sized(size)
    raise DMError(
        "event-unsupported",
        event=f"of a row with a {WireCode(code).name} column",
        why=f"column {column.name} has a type that servers no longer write",
        way_out="rebuild the table at the source (ALTER TABLE .. FORCE), and start behind this event",
    )


class _Writer:
    """Collects source lines and the objects they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"ABSENT": ABSENT, "from_bytes": int.from_bytes}

    def constant(self, value: Any) -> str:
        """A name for an object in the generated source."""
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def fixed(self, group: list[tuple[int, Fixed]], indent: str = "    ") -> None:
        """Read neighbouring fixed columns with one unpack."""
        if not group:
            return
        fields = "".join(step.fields for _, step in group)
        layout = Struct("<" + fields)
        targets: list[str] = []
        after: list[str] = []
        for index, step in group:
            count = 2 if len(step.fields) == 2 and step.fields.isalpha() else 1
            if step.expression == "{0}":
                targets.append(f"c{index}")
                continue
            taken = [f"t{index}_{part}" for part in range(count)]
            targets.extend(taken)
            function = self.constant(step.function) if step.function is not None else ""
            after.append(f"{indent}c{index} = {step.expression.format(*taken, f=function)}")
        self.lines.append(f"{indent}{', '.join(targets)}, = {self.constant(layout.unpack_from)}(b, p)")
        self.lines.append(f"{indent}p += {layout.size}")
        self.lines.extend(after)
        group.clear()

    def sized(self, index: int, step: Sized, indent: str = "    ") -> None:
        """Read a column after its length."""
        width = step.width
        if width == 1:
            length = "b[p]"
        elif width == 2:
            length = "(b[p] | b[p + 1] << 8)"
        else:
            length = f"from_bytes(b[p:p + {width}], 'little')"
        self.lines.append(f"{indent}e = p + {width} + {length}")
        value = f"b[p + {width}:e]"
        if step.function is not None:
            value = f"{self.constant(step.function)}({value})"
        self.lines.append(f"{indent}c{index} = {value}")
        self.lines.append(f"{indent}p = e")

    def compile(self, arguments: str, result: Sequence[str]) -> Callable[..., tuple[Row, int]]:
        """The function with these lines as its body."""
        source = f"def image({arguments}):\n" + "\n".join(self.lines)
        source += f"\n    return ({', '.join(result)},), p\n"
        namespace: dict[str, Any] = {}
        exec(compile(source, "<row image>", "exec"), self.names, namespace)  # noqa: S102 (see the module's text)
        made: Callable[..., tuple[Row, int]] = namespace["image"]
        return made


def pattern_image(steps: Sequence[Step | None], nulls: int) -> Image:
    """The function for one null pattern; a step of None is a column the image does not hold."""
    writer = _Writer()
    group: list[tuple[int, Fixed]] = []
    result: list[str] = []
    bit = 0
    for index, step in enumerate(steps):
        if step is None:
            result.append("ABSENT")
            continue
        null = nulls >> bit & 1
        bit += 1
        if null:
            result.append("None")
            continue
        result.append(f"c{index}")
        if isinstance(step, Fixed):
            group.append((index, step))
        else:
            writer.fixed(group)
            writer.sized(index, step)
    writer.fixed(group)
    return writer.compile("b, p", result)


def nullable_image(steps: Sequence[Step | None]) -> NullableImage:
    """The function for every null pattern."""
    writer = _Writer()
    result: list[str] = []
    bit = 0
    for index, step in enumerate(steps):
        if step is None:
            result.append("ABSENT")
            continue
        result.append(f"c{index}")
        writer.lines.append(f"    if nulls >> {bit} & 1:")
        writer.lines.append(f"        c{index} = None")
        writer.lines.append("    else:")
        bit += 1
        if isinstance(step, Fixed):
            writer.fixed([(index, step)], "        ")
        else:
            writer.sized(index, step, "        ")
    return writer.compile("b, p, nulls", result)
