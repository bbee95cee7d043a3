"""Values into SQL text: the only place that does it.

A literal must reproduce the very bytes that were read, whatever they are. It relies on these facts:

- The session's character set is utf8mb4 and its sql_mode lacks NO_BACKSLASH_ESCAPES (`dm.downstream` sets both), so in
  single quotes only the quote, the backslash and NUL need an escape (Reference Manual, "String Literals"). No byte of a
  multi-byte utf8mb4 character is one of these three.
- Statements in files are for the `mysql` client, which makes LF of CR and LF unless it is told `--binary-mode`
  (Reference Manual, "mysql Client Options"). So CR is escaped, too.
- Text of another character set is sent as hexadecimal digits after an introducer: nothing is converted on the way.
- FLOAT and DOUBLE are quoted: the shortest text that reads back as the same double, and `-0` keeps its sign, which the
  number `-0.0` (a DECIMAL to the server) would lose. DECIMAL is not quoted: a DECIMAL compared with a string is
  compared as a double (Reference Manual, "Type Conversion in Expression Evaluation") and would match neighbours.
- ENUM, SET and BIT are numbers: an ENUM's error value has no text, and members may be renamed.

Members of an ENUM or a SET compared by their number, with the column itself, so that an index may be used.

The 64th member of a SET is the sign of its number: it equals no positive one. And from the 54th member on, numbers are
compared as doubles unless an index is used: `set | 0` is the number as an integer.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from dm.accelerator.structures import shared
from dm.mysql.binlog.value import Value
from dm.type_family import FLOATS, INTEGERS, MEMBERED, TEMPORAL, TEXTS


class LiteralColumn(Protocol):
    """What the encoder needs to know of a column."""

    @property
    def base(self) -> str:
        """The type in its normal form."""

    @property
    def charset(self) -> str | None:
        """The character set of a character column."""


Encoder = Callable[[Value], bytes]

_UTF8_CHARSETS: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})
_AS_INTEGERS: Final = INTEGERS | MEMBERED | {"bit", "year"}
_DECIMAL: Final = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)")


def quoted(raw: bytes) -> bytes:
    """The bytes as a string literal."""
    # Most values need no escape, and four tests are cheaper than four copies.
    if b"\\" in raw:
        raw = raw.replace(b"\\", b"\\\\")
    if b"'" in raw:
        raw = raw.replace(b"'", b"''")
    if b"\0" in raw:
        raw = raw.replace(b"\0", b"\\0")
    if b"\r" in raw:
        raw = raw.replace(b"\r", b"\\r")
    return b"'" + raw + b"'"


def wrong_type(value: object, base: str) -> TypeError:
    """The error of an encoder for a value that no column of its type holds, ABSENT among them."""
    return TypeError(f"a {type(value).__name__} is not a value of a column of type {base}")


def _integer(base: str) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, int):
            raise wrong_type(value, base)
        return b"%d" % value

    return encode


def _decimal(base: str) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
            raise wrong_type(value, base)
        return value.encode()

    return encode


def _floating(base: str) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, float):
            raise wrong_type(value, base)
        return b"'" + repr(value).encode() + b"'"

    return encode


def _printed(base: str) -> Encoder:
    """Temporal values and JSON: text as the server prints it."""

    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, str):
            raise wrong_type(value, base)
        return quoted(value.encode())

    return encode


def _utf8_text(base: str) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, bytes):
            raise wrong_type(value, base)
        try:
            value.decode()
        except UnicodeDecodeError:
            # Older servers accept such bytes; the target judges them.
            return b"_utf8mb4 0x" + value.hex().encode()
        return quoted(value)

    return encode


def _introduced(base: str, prefix: bytes) -> Encoder:
    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, bytes):
            raise wrong_type(value, base)
        return prefix + value.hex().encode() if value else b"''"

    return encode


def _introducer(charset: str) -> bytes:
    return b"0x" if charset == "binary" else b"_" + charset.encode() + b" 0x"


def _address(base: str, size: int, text: Callable[[bytes], str]) -> Encoder:
    """MariaDB's UUID, INET6 and INET4, which accept their text form from any client.

    Row events hold them as fixed byte strings in the order of the text, without trailing zeros.
    """

    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, bytes):
            raise wrong_type(value, base)
        return b"'" + text(value.ljust(size, b"\0")).encode() + b"'"

    return encode


_ADDRESSES: Final[dict[str, Encoder]] = {
    "uuid": _address("uuid", 16, lambda raw: str(UUID(bytes=raw))),
    "inet6": _address("inet6", 16, lambda raw: str(IPv6Address(raw))),
    "inet4": _address("inet4", 4, lambda raw: str(IPv4Address(raw))),
}


def encoder_for(column: LiteralColumn) -> Encoder:
    """The encoder of the values of one column; create it once, call it per row."""
    base = column.base
    if base in _AS_INTEGERS:
        return _integer(base)
    if base in TEXTS:
        charset = column.charset or "utf8mb4"
        if charset in _UTF8_CHARSETS:
            return _utf8_text(base)
        return _introduced(base, _introducer(charset))
    if base in TEMPORAL or base == "json":
        return _printed(base)
    if base == "decimal":
        return _decimal(base)
    if base in FLOATS:
        return _floating(base)
    return _ADDRESSES.get(base) or _introduced(base, b"0x")


@shared
class Usual(IntEnum):
    """The usual kind of a column's values."""

    CALL = 0
    INTEGER = 1
    UTF8 = 2
    PRINTED = 3
    DECIMAL = 4
    FLOATING = 5
    DIGITS = 6


@shared
class LiteralStep(NamedTuple):
    """How the compiled encoder writes one column of a row."""

    at: int  # index of its value
    usual: Usual
    prefix: bytes  # before hexadecimal digits
    encoder: Encoder  # for unusual values


def usual_of(column: LiteralColumn) -> tuple[Usual, bytes]:
    """How the compiled encoder writes the column's usual values, and the text before hexadecimal digits.

    Only for columns with the encoder of `encoder_for`, which handles everything else.
    """
    base = column.base
    if base in _AS_INTEGERS:
        return Usual.INTEGER, b""
    if base in TEXTS:
        charset = column.charset or "utf8mb4"
        return (Usual.UTF8, b"") if charset in _UTF8_CHARSETS else (Usual.DIGITS, _introducer(charset))
    if base in TEMPORAL or base == "json":
        return Usual.PRINTED, b""
    if base == "decimal":
        return Usual.DECIMAL, b""
    if base in FLOATS:
        return Usual.FLOATING, b""
    return (Usual.CALL, b"") if base in _ADDRESSES else (Usual.DIGITS, b"0x")


def encode(value: Value, column: LiteralColumn) -> bytes:
    """One value of one column as an SQL literal."""
    return encoder_for(column)(value)


EXACT_BITS: Final = 53  # of a double
_LONG_DIGITS: Final = len(str(1 << EXACT_BITS))


def equal_members(column: bytes, literal: bytes) -> bytes:
    """The condition that the column has the members of the number."""
    if len(literal) < _LONG_DIGITS or not literal.isdigit():
        return column + b"=" + literal
    number = int(literal)
    signed = number - (1 << 64) if number >> 63 else number
    return b"%b=%d AND %b|0=%b" % (column, signed, column, literal)


# Statements that end with a list of rows, as few of them as their limits allow.


def statements(
    head: bytes, rows: Iterable[bytes], tail: bytes, largest: int, separator: bytes = b",", most: int = sys.maxsize
) -> Iterator[tuple[bytes, int]]:
    """Statements of at most `largest` bytes where rows allow it, each with its number of rows: `most` at most."""
    pending: list[bytes] = []
    size = len(head) + len(tail)
    for row in rows:
        if pending and (size + len(row) + len(separator) > largest or len(pending) == most):
            yield head + separator.join(pending) + tail, len(pending)
            pending = []
            size = len(head) + len(tail)
        pending.append(row)
        size += len(row) + len(separator)
    if pending:
        yield head + separator.join(pending) + tail, len(pending)
