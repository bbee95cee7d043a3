"""Rows of an SQL file that are literals, and nothing that the target would have to compute.

Problem: what stands between the parentheses of an INSERT is an expression to the server. `(2, other.f())` runs a
function with the rights of the task's account, `(3, (SELECT ..))` reads tables, `LOAD_FILE` reads files, and what
follows the last row may be an ON DUPLICATE KEY UPDATE. A dump is data: whoever wrote the file must not be able to do
more with it than to choose values.

So a statement is sent only if all of it, from VALUES to its end, is rows of literals: strings, numbers, bits and bytes
(`0x..`, `x'..'`), NULL, TRUE, FALSE, each with an introducer (`_binary'..'`) or a type (`DATE'..'`) where the grammar
has one, and the one call that dump tools write around a literal, `CONVERT('..' USING charset)`, which they need for
JSON (Reference Manual, "Literal Values" and "Character Set Introducers"). Comments are refused too: some are code.

The quotes are those of `sql_source.py`: the session has backslash escapes and no ANSI_QUOTES, and its character set has
no longer character with a quote in it. An introducer does not change how the server looks for the end of a literal (it
goes by the session's character set, sql/sql_lex.cc, get_text).

Speed: one pattern passes over all rows, the frequent literals first. No part of it can match in two ways, and nothing
is given back, so the work is in proportion to the text.
"""

from __future__ import annotations

import re
from typing import Final

_SHOWN: Final = 40  # bytes of what is refused
_SPACE: Final = rb"[\t-\r ]*+"
_STRING: Final = rb"(?:'(?:[^'\\]++|\\.|'')*+'|\"(?:[^\"\\]++|\\.|\"\")*+\")"
_DIGITS: Final = rb"(?:0[xX][0-9A-Fa-f]++|0[bB][01]++|[xX]'[0-9A-Fa-f]*+'|[bB]'[01]*+')"
_NUMBER: Final = rb"[+\-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+\-]?[0-9]++)?+"
_WORD: Final = rb"(?![0-9A-Za-z_$\x80-\xff(.])"  # ends one
_CONSTANT: Final = rb"(?:%b|[nN]%b|_[0-9A-Za-z]++%b(?:%b|%b)|(?i:DATE|TIMESTAMP|TIME)%b%b)" % (
    _DIGITS, _STRING, _SPACE, _STRING, _DIGITS, _SPACE, _STRING,
)  # fmt: skip
_CONVERTED: Final = rb"(?i:CONVERT)\(%b(?:%b|%b)%b(?i:USING)%b[0-9A-Za-z_]++%b\)" % (
    _SPACE, _STRING, _CONSTANT, _SPACE, _SPACE, _SPACE,
)  # fmt: skip
_VALUE: Final = rb"(?:%b|-?[0-9]++(?=[,)])|(?i:NULL)(?=[,)])|%b(?:%b|%b|%b|%b|(?i:NULL|TRUE|FALSE)%b)%b)" % (
    _STRING, _SPACE, _STRING, _CONSTANT, _NUMBER + _WORD, _CONVERTED, _WORD, _SPACE,
)  # fmt: skip
_ROW: Final = rb"\((?:%b(?:,%b)*+)?+%b\)" % (_VALUE, _VALUE, _SPACE)
_ROWS: Final = re.compile(rb"%b%b(?:,%b%b%b)*+" % (_ROW, _SPACE, _SPACE, _ROW, _SPACE), re.DOTALL)
_BEGUN: Final = re.compile(
    rb"(?:,?+%b\((?:%b(?:,%b)*+,?+)?+%b)?+" % (_SPACE, _VALUE, _VALUE, _SPACE), re.DOTALL
)  # the row that is none, up to where it ceases to be one


def not_literal(text: bytes, at: int) -> str | None:
    """What keeps the rows that begin there, up to the text's end, from being literals; None when nothing does."""
    rows = _ROWS.match(text, at)
    end = at if rows is None else rows.end()
    if rows is not None and end == len(text):
        return None
    begun = _BEGUN.match(text, end)
    assert begun is not None
    found = text[begun.end() : begun.end() + _SHOWN].decode(errors="backslashreplace")
    return f"its rows are to be literals, here is {found!r}" if found else "its last row has no end"
