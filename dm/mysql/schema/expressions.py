"""The columns that a table's expressions read: generated columns, keys that are expressions, CHECKs.

Texts are scanned word by word without parsing: a word that is a column's name counts as this column. So the answer may
name too many columns, never too few. Only a word in the server's backquotes can't be a function's name: a DATETIME
column may be called `timestamp`.

Two generated columns compute the same if the texts of their expressions do. A statement has an expression as it was
typed, SHOW CREATE TABLE as the server prints it. Two texts count as the same if they have the same tokens: quotes
around names, the case of words, white space and parentheses around the whole do not count. Anything else that a server
adds (parentheses inside, character sets of literals) makes another expression, so callers have to take "different" for
a doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from dm.errors import DMError
from dm.mysql.schema.table import Column, Index, TableSchema
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Token, tokenize

_PART: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'|`(?P<name>(?:[^`]|``)*)`|(?P<word>[\w$]+)")
# What asks for the zone of the session though no column is a TIMESTAMP.
_ZONED: Final = frozenset({"unix_timestamp", "from_unixtime", "convert_tz", "timestamp"})


def words_of(expression: str) -> frozenset[str]:
    """The words and names of an expression in lower case; texts in quotes are none."""
    found = set[str]()
    for part in _PART.finditer(expression):
        if part["name"] is not None:
            found.add(part["name"].replace("``", "`").lower())
        elif part["word"]:
            found.add(part["word"].lower())
    return frozenset(found)


def texts_of(table: TableSchema) -> Iterator[str]:
    """The texts of generated columns and of keys that are expressions."""
    for column in table.columns:
        if column.expression is not None:
            yield column.expression
    for index in table.indexes:
        for part in index.parts:
            if part.expression is not None:
                yield part.expression


def expressions_of(table: TableSchema) -> Iterator[frozenset[str]]:
    """The words of each expression of the table."""
    yield from map(words_of, texts_of(table))
    yield from map(frozenset, table.check_words)


def _asks_zone(expression: str) -> bool:
    """Whether it calls what asks for the zone of the session by itself."""
    return any((part["word"] or "").lower() in _ZONED for part in _PART.finditer(expression))


def columns_under(index: Index, table: TableSchema) -> frozenset[str]:
    """The columns that the index's values are made of, in lower case: no generated ones, but those under them."""
    columns = {column.name.lower(): column for column in table.columns}
    left = {name.lower() for name in index.columns}.union(
        *(words_of(part.expression) for part in index.parts if part.expression is not None)
    )
    found, seen = set[str](), set[str]()
    while left:
        name = left.pop()
        column = columns.get(name)
        if name in seen or column is None:
            continue
        seen.add(name)
        if column.generated is None:
            found.add(name)
        else:
            left |= words_of(column.expression or "")
    return frozenset(found)


def is_computed(index: Index, table: TableSchema) -> bool:
    """Whether the server makes some value of the index's."""
    columns = [table.column(name) for name in index.columns]
    return index.functional or any(column is None or column.generated is not None for column in columns)


def column_depends_on_zone(column: Column, table: TableSchema) -> bool:
    """Whether a generated column may have another value in another time zone, as a TIMESTAMP does of any local time."""
    return column.type.is_moment or text_depends_on_zone(column.expression or "", table)


def text_depends_on_zone(text: str, table: TableSchema) -> bool:
    """The same of one expression."""
    moments = {each.name.lower() for each in table.columns if each.type.is_moment}
    words = words_of(text)
    below = (each for each in table.columns if each.generated is not None and each.name.lower() in words)
    return bool(words & moments) or _asks_zone(text) or any(column_depends_on_zone(each, table) for each in below)


def depends_on_zone(table: TableSchema, *, unread_checks: bool = False) -> bool:
    """Whether some expression may have another value in another time zone.

    `unread_checks`: the table has CHECKs whose words are not known (MariaDB's of single columns).
    """
    moments = {column.name.lower() for column in table.columns if column.type.is_moment}
    if unread_checks and moments:
        return True
    made = any(column.type.is_moment and column.generated is not None for column in table.columns)
    asks = any(map(_asks_zone, texts_of(table))) or any(not _ZONED.isdisjoint(words) for words in table.check_words)
    return made or asks or any(words & moments for words in expressions_of(table))


def reads_padded(table: TableSchema, *, unread_checks: bool = False) -> bool:
    """Whether some expression may have another value where CHAR columns keep their length (PAD_CHAR_TO_FULL_LENGTH)."""
    padded = {column.name.lower() for column in table.columns if column.type.pads_with_spaces}
    return bool(padded) and (unread_checks or any(words & padded for words in expressions_of(table)))


def reads_backslashes(expression: str) -> bool:
    """Whether it has another value where backslashes are no escapes (NO_BACKSLASH_ESCAPES)."""
    words = [part["word"].lower() for part in _PART.finditer(expression) if part["word"]]
    return "\\" in expression or words.count("like") > words.count("escape")


def leaves_week_format(expression: str) -> bool:
    """Whether it calls WEEK without a mode: MySQL prints the mode of the session that made the table."""
    try:
        tokens = tokenize(expression, _PLAIN)
    except DMError:
        return "week" in words_of(expression)
    return any(
        token.upper == "WEEK" and following.upper == "(" and not _has_comma(tokens[at + 1 :])
        for at, (token, following) in enumerate(pairwise(tokens))
    )


def _has_comma(tokens: Iterable[Token]) -> bool:
    """Whether a comma stands in the parentheses with which the tokens begin, and in none inside of them."""
    depth = 0
    for token in tokens:
        depth += (token.upper == "(") - (token.upper == ")")
        if depth == 0:
            return False
        if depth == 1 and token.upper == ",":
            return True
    return False


UNTOLD: Final = "an expression that the server does not tell"
"""Stands for an expression of which only its existence is known."""

_PLAIN: Final = SourceContext("mysql", 0, "")  # sessions that ask for structures have neither mode of quoting
# Words that are no names unless they are quoted.
_VALUES: Final = frozenset(
    {"NULL", "TRUE", "FALSE", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "CURRENT_USER", "CURRENT_ROLE",
     "LOCALTIME", "LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"},
)  # fmt: skip


def computes_otherwise(source: str, target: str, *, comparable: bool) -> bool:
    """Whether the target's expression makes other values; both are empty for a column that is not generated."""
    differs = comparable and UNTOLD not in (source, target) and not _same(source, target)
    return bool(target) and (not source or differs)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return _meanings(one) == _meanings(other)
    except DMError:
        return False  # no text that falls into tokens


def _meanings(text: str) -> list[tuple[str, str]]:
    tokens = tokenize(text, _PLAIN)
    while _enclosed(tokens):
        tokens = tokens[1:-1]
    return [_meaning(token) for token in tokens]


def _enclosed(tokens: tuple[Token, ...]) -> bool:
    """Whether the first parenthesis ends with the last token."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.upper == "(") - (token.upper == ")")
        if depth == 0:
            return at > 0 and at == len(tokens) - 1
    return False


def _meaning(token: Token) -> tuple[str, str]:
    if token.kind == "name" or (token.kind == "word" and token.upper not in _VALUES):
        return "name", token.text.lower()
    return token.kind, token.upper if token.kind == "word" else token.text
