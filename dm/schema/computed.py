"""Whether two generated columns compute the same, as far as the texts of their expressions tell.

A statement has an expression as somebody wrote it, SHOW CREATE TABLE as the server prints it. Here are two texts one
where they have the same tokens: quotes around names, the case of words, white space and parentheses around the whole
say nothing. What else a server adds (parentheses inside, character sets of literals) makes another expression: whoever
asks has to take the answer "otherwise" for a doubt.
"""

from __future__ import annotations

from typing import Final

from dm.errors import DMError
from dm.sql.context import SourceContext
from dm.sql.token import Token, tokenize

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
