"""JSON as MySQL stores it, to the text the server prints for it (what CAST(.. AS CHAR) gives).

A document is a tree of tables of offsets (MySQL source, json_binary.h). Keys are printed in stored order; separators
are ", " and ": ". Values that JSON does not know (DECIMAL, dates, blobs) are "opaque": a column type and its bytes.

Bytes may lie: offsets can point anywhere, also back, so that a small document would unfold without end. In a true
document nothing is shared; so all elements together can't be more than its bytes allow, nor can all strings. That
bounds the work.
"""

from __future__ import annotations

import base64
import re
from struct import Struct, unpack_from
from typing import Final

from dm.binlog.cursor import Malformed
from dm.binlog.decimal_text import decimal_decoder, decimal_size
from dm.binlog.wire_type import WireCode

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = 0, 1, 2, 3, 4
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING, _OPAQUE = 5, 6, 7, 8, 9, 10, 11, 12, 15

MAX_DEPTH: Final = 101  # the server refuses documents deeper than 100
_LITERALS: Final = {0: "null", 1: "true", 2: "false"}
_SCALARS: Final = {
    _INT16: Struct("<h"),
    _UINT16: Struct("<H"),
    _INT32: Struct("<i"),
    _UINT32: Struct("<I"),
    _INT64: Struct("<q"),
    _UINT64: Struct("<Q"),
}
_DOUBLE_STRUCT: Final = Struct("<d")
_SPECIAL: Final = re.compile(r'["\\\x00-\x1f]')
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


def quote(text: str) -> str:
    """A JSON string, escaped as the server does it."""
    return f'"{text.translate(_ESCAPES)}"' if _SPECIAL.search(text) else f'"{text}"'


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
    if text.endswith("inf") or text == "nan":
        raise Malformed("a JSON number is not finite")
    mantissa, _, exponent = text.partition("e")
    minus = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = whole + fraction
    point = len(whole) + int(exponent or 0)  # where the point stands, counted from the first of `digits`
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
        if not (1 <= precision <= 65 and scale <= min(precision, 38)) or len(raw) - 2 != decimal_size(precision, scale):
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


class _Budget:
    """What is left of the elements and of the string bytes that the document can hold."""

    __slots__ = ("elements", "text")

    def __init__(self, size: int) -> None:
        self.elements = size
        self.text = size


def _container(doc: bytes, kind: int, base: int, depth: int, budget: _Budget) -> str:
    if depth > MAX_DEPTH:
        raise Malformed("a JSON document is too deep")
    large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    count, size = unpack_from("<II" if large else "<HH", doc, base)
    if base + size > len(doc) or count > size:
        raise Malformed("a JSON container is longer than its document")
    budget.elements -= count
    if budget.elements < 0:
        raise Malformed("a JSON document has more elements than bytes")
    at = base + (8 if large else 4)
    keys: list[str] = []
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        entry = "IH" if large else "HH"
        places = unpack_from("<" + entry * count, doc, at)
        at += count * (6 if large else 4)
        for offset, length in zip(places[::2], places[1::2], strict=True):
            start = base + offset
            raw = doc[start : start + length]
            if len(raw) != length:
                raise Malformed("a JSON key ends behind its document")
            budget.text -= length
            keys.append(_keys[raw])
        if budget.text < 0:
            raise Malformed("a JSON document has more text than bytes")
    parts: list[str] = []
    width = 4 if large else 2
    for _ in range(count):
        code = doc[at]
        at += 1
        if code == _LITERAL:
            parts.append(_LITERALS[doc[at]])
        elif code in (_INT16, _UINT16) or (large and code in (_INT32, _UINT32)):
            parts.append(str(_SCALARS[code].unpack_from(doc, at)[0]))
        else:
            offset = int.from_bytes(doc[at : at + width], "little")
            parts.append(_value(doc, code, base + offset, depth + 1, budget))
        at += width
    if keys:
        return "{" + ", ".join([key + part for key, part in zip(keys, parts, strict=True)]) + "}"
    if kind in (_SMALL_OBJECT, _LARGE_OBJECT):
        return "{}"
    return "[" + ", ".join(parts) + "]"


def _value(doc: bytes, code: int, at: int, depth: int, budget: _Budget) -> str:
    if code == _STRING:
        length, start = _length(doc, at)
        budget.text -= length
        if start + length > len(doc) or budget.text < 0:
            raise Malformed("a JSON string ends behind its document")
        return quote(doc[start : start + length].decode())
    if code <= _LARGE_ARRAY:
        return _container(doc, code, at, depth, budget)
    scalar = _SCALARS.get(code)
    if scalar is not None:
        return str(scalar.unpack_from(doc, at)[0])
    if code == _DOUBLE:
        return double_text(_DOUBLE_STRUCT.unpack_from(doc, at)[0])
    if code == _LITERAL:
        return _LITERALS[doc[at]]
    if code == _OPAQUE:
        length, start = _length(doc, at + 1)
        budget.text -= length
        if start + length > len(doc) or budget.text < 0:
            raise Malformed("an opaque value ends behind its document")
        return opaque_text(doc[at], doc[start : start + length])
    raise Malformed(f"JSON value type {code} is not known")


def json_text(doc: bytes) -> str:
    """The text of a stored document; an empty one stands for JSON null (MySQL source, Field_json)."""
    if not doc:
        return "null"
    try:
        return _value(doc, doc[0], 1, 1, _Budget(len(doc)))
    except KeyError as error:
        raise Malformed("a JSON literal is not known") from error
