"""Rows of an SQL file with their `latin1` texts in UTF-8.

Problem: TiDB keeps latin1 columns in UTF-8 and takes the bytes of a literal as they are, whatever SET NAMES says. A
file holds such a text in latin1: a binary file (ours, mydumper's) in these columns, a file that names latin1 in all. So
the literals of these columns are found, value by value, and written again.

The rules for quotes are those of `sql_source.py`. A value may be a call, so only commas between the parentheses of a
row begin another column.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from dm.binlog.charset import decoder_of
from dm.schema.table import Column
from dm.type_family import WITH_CHARSET

CHARSET: Final = "latin1"

_PIECE: Final = re.compile(
    rb"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\"|[(),]|[^'\"(),]++", re.DOTALL
)  # a literal, what counts columns, or anything between


def latin1_columns(columns: Sequence[Column], names: Sequence[str], *, all_texts: bool) -> frozenset[int]:
    """Which of a statement's columns have texts in latin1; `all_texts`: the file is in latin1."""
    found = {
        column.name.lower()
        for column in columns
        if (column.base in WITH_CHARSET and (all_texts or column.charset == CHARSET))
        or (column.base == "json" and all_texts)
    }
    return frozenset(at for at, name in enumerate(names) if name.lower() in found)


def in_utf8(rows: bytes, columns: Collection[int]) -> bytes:
    """The rows of an INSERT, `(value, ..), (..)`, with the literals of these columns in UTF-8."""
    return rows if rows.isascii() or not columns else b"".join(_recoded(rows, columns))


def _recoded(rows: bytes, columns: Collection[int]) -> Iterator[bytes]:
    decode = decoder_of(CHARSET)
    assert decode is not None
    depth = at = 0
    for found in _PIECE.finditer(rows):
        piece = found[0]
        if piece == b"(":
            depth, at = depth + 1, at if depth else 0
        elif piece == b")":
            depth -= 1
        elif piece == b",":
            at += depth == 1
        elif at in columns and piece[0] in b"'\"" and not piece.isascii():
            piece = (decode(piece) or "").encode()
        yield piece
