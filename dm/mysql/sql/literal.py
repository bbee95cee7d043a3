"""Values into SQL text: bytes, texts, numbers, and JSON documents with the types of their values.

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

Which of these a column's values take its type says (`dm.mysql.types`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from dm.accelerator.native import shared
from dm.mysql.binlog.value import Value

Encoder = Callable[[Value], bytes]

UTF8_CHARSETS: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})


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


def printed(base: str, charset: str | None = None) -> Encoder:
    """Temporal values and JSON: text as the server prints it."""

    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, str):
            raise wrong_type(value, base)
        return quoted(value.encode())

    return encode


def utf8_text(base: str) -> Encoder:
    """Texts in UTF-8."""

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


def introduced(base: str, prefix: bytes) -> Encoder:
    """Bytes as hexadecimal digits after a prefix."""

    def encode(value: Value) -> bytes:
        if value is None:
            return b"NULL"
        if not isinstance(value, bytes):
            raise wrong_type(value, base)
        return prefix + value.hex().encode() if value else b"''"

    return encode


def introducer(charset: str) -> bytes:
    """What stands before the digits of a text in this character set."""
    return b"0x" if charset == "binary" else b"_" + charset.encode() + b" 0x"


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
