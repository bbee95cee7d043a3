"""JSON as MySQL stores it, to the text the server prints for it (the result of CAST(.. AS CHAR)).

A document is a tree of tables of offsets (MySQL source, json_binary.h). Keys are printed in stored order; separators
are ", " and ": ". Values unknown to JSON (DECIMAL, dates, blobs) are "opaque": a column type and its bytes.

Bytes may lie: offsets can point anywhere, even back, so that a small document would unfold without end. In a true
document nothing is shared, so its bytes limit the number of all elements together, and the size of all strings. That
bounds the work.
"""

from __future__ import annotations

import base64
from struct import Struct
from typing import Final

from dm.mysql.binlog.cursor import Malformed
from dm.mysql.binlog.value import decimal_decoder, decimal_size
from dm.mysql.binlog.wire_type import WireCode

# Codes of types (json_binary.h, JSONB_TYPE_..).
SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL = 0, 1, 2, 3, 4
INT16, UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15

MAX_DEPTH: Final = 101  # the server refuses documents deeper than 100
LITERALS: Final = {0: "null", 1: "true", 2: "false"}
OBJECTS: Final = (SMALL_OBJECT, LARGE_OBJECT)
ARRAYS: Final = (SMALL_ARRAY, LARGE_ARRAY)
INTEGERS: Final = {
    INT16: Struct("<h"),
    UINT16: Struct("<H"),
    INT32: Struct("<i"),
    UINT32: Struct("<I"),
    INT64: Struct("<q"),
    UINT64: Struct("<Q"),
}
_READ_AS_SIGNED: Final = 0xFFFFFFFF  # the server's reader of JSON text makes unsigned numbers of greater ones
DOUBLE_STRUCT: Final = Struct("<d")
SMALL_HEAD: Final = Struct("<HH")  # number of elements, bytes of the container
LARGE_HEAD: Final = Struct("<II")
_LAYOUT_COUNT: Final = 64  # layouts of containers with more elements are not kept
_ESCAPES: Final = {
    **{code: f"\\u{code:04x}" for code in range(32)},
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}
_KEYS_KEPT: Final = 4096
_BASE64_LINE: Final = 76
_DECIMAL_DIGITS: Final = 81  # nine words of nine: the limit of a calculation; digits before the point fill their words


def quote(text: str) -> str:
    """A JSON string, escaped as the server does it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{text.translate(_ESCAPES)}"'


class _Keys(dict[bytes, str]):
    """Object keys, quoted, with their colon; documents of one column share most of them."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) >= _KEYS_KEPT:
            self.clear()
        text = quote(raw.decode()) + ": "
        self[raw] = text
        return text


_keys: Final = _Keys()


def double_text(number: float) -> str:
    """A double as the server prints it in JSON: shortest digits, positional up to 15 places."""
    text = repr(number)
    if 1e-4 <= abs(number) < 1e15 or number == 0.0:
        return text  # in this range Python and the server write the same
    if text.endswith("inf") or text == "nan":
        raise Malformed("a JSON number is not finite")
    mantissa, _, exponent = text.partition("e")
    minus = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)  # the place of the point, counted from the first of `digits`
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    if not digits:
        return f"{minus}0.0"
    if -14 <= point <= 15:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{digits}"
        if point >= len(digits):
            return f"{minus}{digits}{'0' * (point - len(digits))}.0"
        return f"{minus}{digits[:point]}.{digits[point:]}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{minus}{digits[0]}{fraction}e{point - 1}"


def _packed_time(raw: bytes, code: int) -> str:
    """A date or time inside JSON: 8 bytes, microseconds in the low 24 bits (MySQL source, my_packed_time)."""
    if len(raw) != 8:
        raise Malformed("a time inside JSON has not 8 bytes")
    number = int.from_bytes(raw, "little", signed=True)
    minus = "-" if number < 0 else ""
    number = abs(number)
    micros, clock = number & 0xFFFFFF, number >> 24
    if code == WireCode.TIME:
        return f"{minus}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}.{micros:06d}"
    date, clock = clock >> 17, clock & 0x1FFFF
    months, day = date >> 5, date & 31
    text = f"{months // 13:04d}-{months % 13:02d}-{day:02d}"
    if code == WireCode.DATE:
        return text
    return f"{text} {clock >> 12:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}.{micros:06d}"


def opaque_text(code: int, raw: bytes) -> str:
    """An opaque value as the server prints it."""
    if code == WireCode.NEWDECIMAL:
        if len(raw) < 2:
            raise Malformed("a DECIMAL inside JSON is cut off")
        precision, scale = raw[0], raw[1]
        possible = 1 <= precision <= _DECIMAL_DIGITS and scale <= min(precision, 38)
        if not possible or len(raw) - 2 != decimal_size(precision, scale):
            raise Malformed("a DECIMAL inside JSON has the wrong size")
        return decimal_decoder(precision, scale)(raw[2:])
    if code in (WireCode.DATE, WireCode.TIME, WireCode.DATETIME, WireCode.TIMESTAMP):
        return f'"{_packed_time(raw, code)}"'
    encoded = base64.b64encode(raw).decode("ascii")
    # The server breaks the lines at 76 characters, and escapes the breaks.
    text = "\\n".join([encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded), _BASE64_LINE)])
    return f'"base64:type{code}:{text}"'


def _length(doc: bytes, at: int) -> tuple[int, int]:
    """A variable length (7 bits a byte, low ones first) and where its value starts."""
    length = shift = 0
    while shift < 35:
        byte = doc[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return length, at
        shift += 7
    raise Malformed("a length inside JSON has no end")


class Budget:
    """How many elements and string bytes the document can still hold."""

    __slots__ = ("elements", "plain", "text")

    def __init__(self, size: int) -> None:
        self.elements = size
        self.text = size
        self.plain = True  # the text loses no types (see `json_tree`)

    def spend_elements(self, count: int) -> None:
        """Take so many elements; raises Malformed when there are fewer."""
        self.elements -= count
        if self.elements < 0:
            raise Malformed("a JSON document has more elements than bytes")

    def spend_text(self, length: int) -> None:
        """Take so many string bytes; raises Malformed when there are fewer."""
        self.text -= length
        if self.text < 0:
            raise Malformed("a JSON document has more text than bytes")


def string_span(doc: bytes, at: int, budget: Budget) -> bytes:
    """The bytes of a string or an opaque value, whose length is at doc[at]."""
    length, start = _length(doc, at)
    budget.spend_text(length)
    if start + length > len(doc):
        raise Malformed("a JSON string ends after its document")
    return doc[start : start + length]


class _Layouts(dict[tuple[int, int], Struct]):
    """The offsets at the head of a container: key entries (offset, length), then value entries (type, value)."""

    def __missing__(self, key: tuple[int, int]) -> Struct:
        kind, count = key
        large = kind in (LARGE_OBJECT, LARGE_ARRAY)
        keys = ("IH" if large else "HH") * count if kind in (SMALL_OBJECT, LARGE_OBJECT) else ""
        layout = Struct(f"<{keys}{('BI' if large else 'BH') * count}")
        if count <= _LAYOUT_COUNT:
            self[key] = layout
        return layout


_layouts: Final = _Layouts()


def _container(doc: bytes, kind: int, base: int, depth: int, budget: Budget) -> str:
    if depth > MAX_DEPTH:
        raise Malformed("a JSON document is too deep")
    large = kind in (LARGE_OBJECT, LARGE_ARRAY)
    count, size = (LARGE_HEAD if large else SMALL_HEAD).unpack_from(doc, base)
    doc_size = len(doc)
    if base + size > doc_size or count > size:
        raise Malformed("a JSON container is longer than its document")
    budget.elements -= count
    if budget.elements < 0:
        raise Malformed("a JSON document has more elements than bytes")
    entries = _layouts[kind, count].unpack_from(doc, base + (8 if large else 4))
    is_object = kind in (SMALL_OBJECT, LARGE_OBJECT)
    values = 2 * count if is_object else 0
    text_left = budget.text
    parts: list[str] = []
    for code, value in zip(entries[values::2], entries[values + 1 :: 2], strict=True):
        if code == STRING:
            start = base + value
            length = doc[start]
            if length < 0x80:
                start += 1
            else:
                length, start = _length(doc, start)
            end = start + length
            text_left -= length
            if end > doc_size or text_left < 0:
                raise Malformed("a JSON string ends after its document")
            parts.append(quote(doc[start:end].decode()))
        elif code == INT16:
            value &= 0xFFFF
            parts.append(str(value if value < 0x8000 else value - 0x10000))
        elif code == UINT16:
            parts.append(str(value & 0xFFFF))
            budget.plain = False
        elif large and code == UINT32:
            parts.append(str(value))
            budget.plain = False
        elif code == LITERAL:
            parts.append(LITERALS[value & 0xFF])
        elif large and code == INT32:
            parts.append(str(value if value < 0x80000000 else value - 0x100000000))
        elif code == DOUBLE:
            parts.append(double_text(DOUBLE_STRUCT.unpack_from(doc, base + value)[0]))
        else:
            budget.text = text_left
            parts.append(_value(doc, code, base + value, depth + 1, budget))
            text_left = budget.text
    if is_object:
        named: list[str] = []
        for offset, length, part in zip(entries[0:values:2], entries[1:values:2], parts, strict=True):
            start = base + offset
            raw = doc[start : start + length]
            text_left -= length
            if len(raw) != length or text_left < 0:
                raise Malformed("a JSON key ends after its document")
            named.append(_keys[raw] + part)
        budget.text = text_left
        return "{" + ", ".join(named) + "}"
    budget.text = text_left
    return "[" + ", ".join(parts) + "]"


def _value(doc: bytes, code: int, at: int, depth: int, budget: Budget) -> str:
    if code <= LARGE_ARRAY:
        return _container(doc, code, at, depth, budget)
    if code in (STRING, OPAQUE):
        raw = string_span(doc, at if code == STRING else at + 1, budget)
        if code == STRING:
            return quote(raw.decode())
        budget.plain = False
        return opaque_text(doc[at], raw)
    scalar = INTEGERS.get(code)
    if scalar is not None:
        number: int = scalar.unpack_from(doc, at)[0]
        if code in (UINT16, UINT32) or (code == INT64 and number > _READ_AS_SIGNED):
            budget.plain = False
        return str(number)
    if code == DOUBLE:
        return double_text(DOUBLE_STRUCT.unpack_from(doc, at)[0])
    if code == LITERAL:
        return LITERALS[doc[at]]
    raise Malformed(f"JSON value type {code} is not known")


def read_text(doc: bytes) -> tuple[str, bool]:
    """The text of a stored document, and whether it loses no types; an empty one means JSON null.

    The empty document: MySQL source, Field_json.
    """
    if not doc:
        return "null", True
    budget = Budget(len(doc))
    try:
        return _value(doc, doc[0], 1, 1, budget), budget.plain
    except KeyError as error:
        raise Malformed("a JSON literal is not known") from error


def json_text(doc: bytes) -> str:
    """The text of a stored document."""
    return read_text(doc)[0]
