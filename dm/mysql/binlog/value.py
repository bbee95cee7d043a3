"""The Python value of a decoded column, and the texts of decimals, dates and times.

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

Dates and times: packed bytes to the text the server prints.

Values stay text because Python's own types can't hold what a server can: the zero date, 2024-02-00, 838 hours, a
negative time. Version 2 types (MySQL 5.6, MariaDB 10.1) are big-endian bit fields with (digits + 1) // 2 fraction
bytes; negative TIMEs are stored so that the whole packed number, fraction included, is one signed number (MySQL source,
my_time_packed_from_binary). MariaDB keeps writing older layouts for tables made with mysql56_temporal_format=OFF; with
fractions ("hires") these are big-endian numbers of their own (MariaDB source, Field_timestamp_hires,
Field_datetime_hires, Field_time_hires).

Texts of days and of seconds in a day come again and again; they are made once and looked up.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from dm.mysql.binlog.cursor import Malformed


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


_DAYS_KEPT: Final = 50_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _Memo(dict[int, str]):
    """Texts by number, created on first use, dropped when there are too many."""

    __slots__ = ("_limit", "_make")

    def __init__(self, make: Callable[[int], str], limit: int) -> None:
        super().__init__()
        self._make = make
        self._limit = limit

    def __missing__(self, number: int) -> str:
        if len(self) >= self._limit:
            self.clear()
        text = self._make(number)
        self[number] = text
        return text


def _date(number: int) -> str:
    return f"{number >> 9:04d}-{number >> 5 & 15:02d}-{number & 31:02d}"


def _day(number: int) -> str:
    months, day = number >> 5, number & 31
    if not 0 <= months < 13 * 10000:
        raise Malformed("a DATETIME is out of range")
    return f"{months // 13:04d}-{months % 13:02d}-{day:02d} "


def _clock(number: int) -> str:
    return f"{number >> 12:02d}:{number >> 6 & 63:02d}:{number & 63:02d}"


def _epoch_day(number: int) -> str:
    return (_EPOCH + timedelta(days=number)).strftime("%Y-%m-%d ")


def _second(number: int) -> str:
    return f"{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}"


DATES: Final = _Memo(_date, _DAYS_KEPT)  # the three bytes of a DATE
DAYS: Final = _Memo(_day, _DAYS_KEPT)  # the date part of a DATETIME
CLOCKS: Final = _Memo(_clock, 86_400)  # its time part
EPOCH_DAYS: Final = _Memo(_epoch_day, _DAYS_KEPT)  # days since 1970
SECONDS: Final = _Memo(_second, 86_400)  # seconds of a day


def fraction_size(digits: int) -> int:
    """How many bytes that many fractional digits take in the version 2 types."""
    return (digits + 1) // 2


@lru_cache(maxsize=8)
def datetime2_decoder(digits: int) -> Callable[[bytes], str]:
    """A function from DATETIME(digits)."""
    size = fraction_size(digits)
    bits, mask, template = size * 8, (1 << size * 8) - 1, f".%0{size * 2}d"
    zero = 0x8000000000 << bits
    upto = 20 + digits
    from_bytes = int.from_bytes

    def decode(raw: bytes) -> str:
        number = from_bytes(raw, "big") - zero
        packed = number >> bits
        return (DAYS[packed >> 17] + CLOCKS[packed & 0x1FFFF] + template % (number & mask))[:upto]

    def decode_whole(raw: bytes) -> str:
        packed = from_bytes(raw, "big") - zero
        return DAYS[packed >> 17] + CLOCKS[packed & 0x1FFFF]

    return decode if digits else decode_whole


# The value of a TIMESTAMP of zero. MariaDB accepts the later moments of that second, so the fraction counts, too.
_NO_MOMENT: Final = "0000-00-00 00:00:00"


def _epoch_text(seconds: int) -> str:
    return EPOCH_DAYS[seconds // 86_400] + SECONDS[seconds % 86_400]


@lru_cache(maxsize=8)
def timestamp2_decoder(digits: int) -> Callable[[bytes], str]:
    """A function from TIMESTAMP(digits) to its text in UTC."""
    size = fraction_size(digits)
    bits, mask, template = size * 8, (1 << size * 8) - 1, f".%0{size * 2}d"
    upto = 20 + digits
    from_bytes = int.from_bytes

    def decode(raw: bytes) -> str:
        number = from_bytes(raw, "big")
        text = _epoch_text(number >> bits) if number else _NO_MOMENT
        return (text + template % (number & mask))[:upto]

    def decode_whole(raw: bytes) -> str:
        return old_timestamp(from_bytes(raw, "big"))

    return decode if digits else decode_whole


def _time_text(packed: int) -> str:
    return f"{packed >> 12 & 1023:02d}:{packed >> 6 & 63:02d}:{packed & 63:02d}"


TIMES: Final = _Memo(_time_text, 86_400)  # a TIME without sign and fraction


@lru_cache(maxsize=8)
def time2_decoder(digits: int) -> Callable[[bytes], str]:
    """A function from TIME(digits)."""
    size = fraction_size(digits)
    bits, mask = size * 8, (1 << size * 8) - 1
    zero = 0x800000 << bits
    from_bytes = int.from_bytes

    def decode(raw: bytes) -> str:
        number = from_bytes(raw, "big") - zero
        minus = "-" if number < 0 else ""
        number = abs(number)
        text = minus + TIMES[number >> bits]
        return f"{text}.{number & mask:0{size * 2}d}"[: len(text) + 1 + digits]

    def decode_whole(raw: bytes) -> str:
        number = from_bytes(raw, "big") - 0x800000
        return TIMES[number] if number >= 0 else "-" + TIMES[-number]

    return decode if digits else decode_whole


# Layouts from before the version 2 types.

_HIRES_TIMESTAMP_FRACTION: Final = (0, 1, 1, 2, 2, 3, 3)
HIRES_DATETIME_SIZE: Final = (8, 6, 6, 7, 7, 7, 8)
HIRES_TIME_SIZE: Final = (3, 4, 4, 5, 5, 5, 6)


def hires_timestamp_size(digits: int) -> int:
    """Bytes of MariaDB's old TIMESTAMP(digits)."""
    return 4 + _HIRES_TIMESTAMP_FRACTION[digits]


def old_timestamp(seconds: int) -> str:
    """The text, in UTC, of an old TIMESTAMP."""
    return _epoch_text(seconds) if seconds else _NO_MOMENT


def old_datetime(number: int) -> str:
    """The text of an old DATETIME, whose number reads YYYYMMDDhhmmss."""
    digits = f"{number:014d}"
    if len(digits) != 14:
        raise Malformed("a DATETIME is out of range")
    return f"{digits[:4]}-{digits[4:6]}-{digits[6:8]} {digits[8:10]}:{digits[10:12]}:{digits[12:]}"


def old_time(raw: bytes) -> str:
    """The text of an old TIME, whose signed number reads hhmmss."""
    number = int.from_bytes(raw, "little", signed=True)
    minus = "-" if number < 0 else ""
    number = abs(number)
    return f"{minus}{number // 10_000:02d}:{number // 100 % 100:02d}:{number % 100:02d}"


@lru_cache(maxsize=8)
def hires_timestamp_decoder(digits: int) -> Callable[[bytes], str]:
    """A function from MariaDB's old TIMESTAMP(digits): seconds, then the fraction in units of the last digit."""

    def decode(raw: bytes) -> str:
        seconds, fraction = int.from_bytes(raw[:4], "big"), int.from_bytes(raw[4:], "big")
        text = _epoch_text(seconds) if seconds or fraction else _NO_MOMENT
        return f"{text}.{fraction:0{digits}d}"

    return decode


@lru_cache(maxsize=8)
def hires_datetime_decoder(digits: int) -> Callable[[bytes], str]:
    """A function from MariaDB's old DATETIME(digits): one number in mixed radix, year first."""

    def decode(raw: bytes) -> str:
        rest, fraction = divmod(int.from_bytes(raw, "big"), 10**digits)
        rest, second = divmod(rest, 60)
        rest, minute = divmod(rest, 60)
        rest, hour = divmod(rest, 24)
        rest, day = divmod(rest, 32)
        year, month = divmod(rest, 13)
        return f"{year:04d}-{month:02d}-{day:02d} {hour:02d}:{minute:02d}:{second:02d}.{fraction:0{digits}d}"

    return decode


@lru_cache(maxsize=8)
def hires_time_decoder(digits: int) -> Callable[[bytes], str]:
    """A function from MariaDB's old TIME(digits): units of the last digit, shifted so that no number is negative."""
    shift = 839 * 3600 * 10**digits

    def decode(raw: bytes) -> str:
        number = int.from_bytes(raw, "big") - shift
        minus = "-" if number < 0 else ""
        seconds, fraction = divmod(abs(number), 10**digits)
        return f"{minus}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:0{digits}d}"

    return decode
