"""The Python value of a decoded column, and the text of a DECIMAL.

There is one Python type per kind of column, exact for every value the server can hold:

None                NULL
int                 integers (sign applied), BIT, YEAR, ENUM index (0 = the error value), SET bit mask
float               FLOAT and DOUBLE (a FLOAT as the double of equal value)
str                 DECIMAL, DATE, TIME, DATETIME, TIMESTAMP (UTC) as the server prints them; JSON as the server prints
                    it (a TypedJson if that loses types)
bytes               character columns in the column's own character set, BINARY (zero padding restored), BLOB, GEOMETRY
                    (4 bytes SRID + WKB), VECTOR, UUID/INET as stored
ABSENT              the row image does not hold the column (MINIMAL, NOBLOB): not NULL, but unknown
UNREAD              the row image holds the column, and nobody has read it yet

DECIMAL: packed bytes to the text the server prints.

Nine digits take four big-endian bytes; the remaining digits at the outer end of each side take fewer bytes. The first
bit is the inverted sign, and a negative number has all its bits inverted, so that bytes sort as numbers do (MySQL
source, decimal2bin).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Any, Final


class Absent(Enum):
    """The type of the one value ABSENT."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT


class Unread:
    """The type of the one value UNREAD."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNREAD"

    def __reduce__(self) -> str:
        return "UNREAD"  # the same one in every process


# Not one of the values: whoever needs those has the image read first, and an encoder refuses this.
UNREAD: Final[Any] = Unread()

Value = None | int | float | str | bytes | Absent
Row = tuple[Value, ...]


_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes for that many digits


def decimal_size(precision: int, scale: int) -> int:
    """How many bytes a DECIMAL(precision, scale) takes."""
    whole = precision - scale
    return whole // 9 * 4 + _BYTES[whole % 9] + scale // 9 * 4 + _BYTES[scale % 9]


def _groups(precision: int, scale: int) -> tuple[list[int], list[int]]:
    """Digits of each group, left to right, before and after the point."""
    whole = precision - scale
    before = [whole % 9] if whole % 9 else []
    before += [9] * (whole // 9)
    after = [9] * (scale // 9)
    after += [scale % 9] if scale % 9 else []
    return before, after


@lru_cache(maxsize=1024)
def decimal_decoder(precision: int, scale: int) -> Callable[[bytes], str]:
    """A function from a packed DECIMAL(precision, scale) to its text."""
    bits = decimal_size(precision, scale) * 8
    sign, ones = 1 << (bits - 1), (1 << bits) - 1
    before, after = _groups(precision, scale)
    shifts: list[tuple[int, int, int]] = []  # shift, mask, digits
    left = bits
    for digits in before + after:
        size = _BYTES[digits] * 8
        left -= size
        shifts.append((left, (1 << size) - 1, digits))
    whole, fraction = shifts[: len(before)], shifts[len(before) :]
    fraction_bits = sum(_BYTES[digits] * 8 for digits in after)
    template = "".join(f"%0{digits}d" for digits in after)
    from_bytes = int.from_bytes

    if len(whole) <= 2 and len(fraction) == 1:
        fraction_mask = fraction[0][1]
        short = f"%d.%0{scale}d"
        low_bits = _BYTES[9] * 8 if len(whole) == 2 else 0  # of the lower group of two
        low_mask = (1 << low_bits) - 1

        def decode_short(raw: bytes) -> str:
            number = from_bytes(raw, "big") ^ sign
            minus = ""
            if number & sign:
                number ^= ones
                minus = "-"
            integer = number >> fraction_bits
            if low_bits:
                integer = (integer >> low_bits) * 1_000_000_000 + (integer & low_mask)
            return minus + short % (integer, number & fraction_mask)

        return decode_short

    def decode(raw: bytes) -> str:
        number = from_bytes(raw, "big") ^ sign
        minus = ""
        if number & sign:
            number ^= ones
            minus = "-"
        integer = 0
        for shift, mask, digits in whole:
            integer = integer * 10**digits + (number >> shift & mask)
        if not fraction:
            return f"{minus}{integer}"
        return f"{minus}{integer}." + template % tuple(number >> shift & mask for shift, mask, _ in fraction)

    return decode


def decimal_bytes(text: str) -> bytes:
    """A DECIMAL's text as stored inside a JSON document: precision, scale, packed bytes."""
    whole, _, fraction = text.lstrip("-").partition(".")
    whole = whole.lstrip("0")
    if not whole and not fraction:
        whole = "0"
    precision, scale = len(whole) + len(fraction), len(fraction)
    digits = whole + fraction
    number = at = 0
    before, after = _groups(precision, scale)
    for count in before + after:
        number = number << _BYTES[count] * 8 | int(digits[at : at + count])
        at += count
    bits = decimal_size(precision, scale) * 8
    number ^= 1 << (bits - 1)
    if text.startswith("-"):
        number ^= (1 << bits) - 1
    return bytes([precision, scale]) + number.to_bytes(bits // 8, "big")
