"""Literals in what SHOW CREATE TABLE prints, with the bytes that they have.

An expression of a table (a generated column, a CHECK, a key) keeps its literals in the character set of the statement
or of the table, and SHOW CREATE TABLE prints them so, each after its introducer: `_latin1'<E9>'`. All else of the text
is UTF-8. A session with `character_set_results=utf8mb4` gets the whole as if it were: bytes that are no UTF-8 become
`?`, and bytes that happen to be some stand for other characters (MySQL source, Item_string::print appends the bytes as
they are). A table that is made of that text computes other values, in silence. Only a session whose results are
`binary` gets the bytes. Here such literals become hexadecimal ones, which every session reads alike.

MariaDB prints literals in the session's character set, but for the defaults of binary columns: these are bytes, of any
value. So no driver may decode the answer (`readable`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from dm.mysql.dialect import Dialect
from dm.mysql.dialect.tidb import escaped_table

_ESCAPED: Final = {ord("0"): 0, ord("n"): 10, ord("r"): 13, ord("t"): 9, ord("b"): 8, ord("Z"): 26}
_LONGEST: Final = 32  # of an introducer
_INTRODUCER: Final = re.compile(rb"_(?!utf8)([a-z0-9]+)\Z")
_DOUBTFUL: Final = re.compile(
    r"_(?!utf8)[a-z0-9]+'(?:[^'\\]|\\.|'')*?[^\x00-\x3e\x40-\x7f]|_utf8mb4'(?:[^'\\]|\\.|'')*?\?", re.DOTALL
)


def doubtful(text: str) -> bool:
    """Whether a literal has a `?` that may stand for something else, or is of another character set and not ASCII."""
    return _DOUBTFUL.search(text) is not None


def structure_text(
    show: Callable[[], bytes], in_binary: Callable[[], AbstractContextManager[None]], server: Dialect
) -> str:
    """A table's structure as SQL.

    `show` asks for it, `in_binary` has the session's results come as they are. Asked twice only where it is doubtful.
    """
    text = readable(show())
    if server.prints_literals_bytes and doubtful(text):
        with in_binary():
            text = with_hexadecimal_literals(show())
    return escaped_table(text) if server.prints_bare_members else text


def readable(shown: bytes) -> str:
    """The text of an answer that nobody has decoded."""
    try:
        return shown.decode()
    except UnicodeDecodeError:
        return with_hexadecimal_literals(shown)


def with_hexadecimal_literals(shown: bytes) -> str:
    """The text with each literal in hexadecimal digits that is no UTF-8, or is of another character set."""
    parts: list[str] = []
    start = at = 0
    while at < len(shown):
        if shown[at] == ord("`"):
            at = shown.index(b"`", at + 1) + 1
        elif shown[at] != ord("'"):
            at += 1
        else:
            end, value = _literal(shown, at)
            of_another = _INTRODUCER.search(shown, max(start, at - _LONGEST), at) is not None
            if max(value, default=0) > 127 and (of_another or not _is_utf8(shown[at:end])):
                blank = " " if shown[at - 1 : at].isalnum() else ""
                parts.append(f"{shown[start:at].decode()}{blank}x'{value.hex()}'")
                start = end
            at = end
    return "".join([*parts, shown[start:].decode()])


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _literal(shown: bytes, at: int) -> tuple[int, bytes]:
    """The end of the literal that begins here, and its bytes; the server escapes byte by byte."""
    value = bytearray()
    at += 1
    while shown[at] != ord("'") or shown[at + 1 : at + 2] == b"'":
        if shown[at] == ord("\\"):
            value.append(_ESCAPED.get(shown[at + 1], shown[at + 1]))
            at += 2
        else:
            value.append(shown[at])
            at += 2 if shown[at] == ord("'") else 1
    return at + 1, bytes(value)
