"""An expression that a server evaluates: its text, and what that text says of columns, of the moment, of time zones.

The text is sent as it stands, so two things must be certain before: that it ends where its parentheses end, and that
only the row and the event's moment decide about its result. So it is cut into tokens here, by the rules of a session
without NO_BACKSLASH_ESCAPES and ANSI_QUOTES, which is how it is evaluated, and every word must be known: a keyword of
expressions, a function of `dm.config.server_words`, or else the name of a column. What can't be seen this way
(subqueries, variables, comments, functions of the user's own) has no token or no word here.

The grammar itself is the server's. It is asked before the task starts, in `check-task`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dm.config.server_words import (
    BEFORE_PARENTHESES,
    FUNCTION_FAMILIES,
    FUNCTIONS,
    KEYWORDS,
    MOMENT_WORDS,
    REFUSED_WORDS,
    WHY_REFUSED,
    ZONED_FUNCTIONS,
)
from dm.config.sql_text import ExpressionError, one_expression

_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\r\n\v\f]+)"
    r"|(?P<comment>/\*|\#|--(?=[\x00-\x20\x7f]|\Z))"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<name>`(?:[^`]|``)+`)"
    r"|(?P<number>(?:0x[0-9a-fA-F]+|0b[01]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![0-9A-Za-z_$\x80-\U0010ffff]))"
    r"|(?P<word>[0-9A-Za-z_$\x80-\U0010ffff]+)"
    r"|(?P<symbol>[-+*/%=<>!&|^~(),])",
    re.DOTALL,
)
_WHY_NOT: Final = {
    ".": "a column is named without its table",
    "@": "variables are not supported",
    ":": "variables are not supported",
    "?": "there is nothing that would be put in place of `?`",
    ";": "it is not one expression",
}
_LITERALS: Final = ("x", "b", "n")  # x'41', b'01', n'text'
_BEFORE_CHARSETS: Final = ("collate", "using", "charset")


@dataclass(frozen=True, slots=True)
class ServerExpression:
    """An expression with what its text says; names are in lower case."""

    text: str
    columns: frozenset[str]
    perhaps: frozenset[str]  # keywords that may be columns
    zoned: bool  # a function of it depends on the session's time zone


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.lower() if self.kind in ("word", "symbol") else ""


@lru_cache(maxsize=1024)
def read_server_expression(text: str) -> ServerExpression:
    """What a server may be asked; raises ExpressionError."""
    one_expression(text)
    tokens = _tokens(text)
    columns, perhaps, zoned = set[str](), set[str](), False
    for number, token in enumerate(tokens):
        following = tokens[number + 1] if number + 1 < len(tokens) else None
        called = following is not None and following.text == "("
        if token.kind == "name":
            if called:
                raise ExpressionError(f"{token.text} is a function of your own, which may give another result later")
            columns.add(token.text[1:-1].replace("``", "`").lower())
        elif token.kind == "word" and not _is_no_column(tokens, number, following):
            word = token.lower
            _demand_known(token, called=called)
            zoned = zoned or (word in ZONED_FUNCTIONS and (called or word in MOMENT_WORDS))
            if not called and word in KEYWORDS:
                perhaps.add(word)
            elif not called and word not in MOMENT_WORDS:
                columns.add(word)
    _demand_closed(tokens)
    return ServerExpression(text, frozenset(columns), frozenset(perhaps - columns), zoned)


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            why = _WHY_NOT.get(text[at], f"`{text[at]}` has no place in an expression")
            raise ExpressionError(f"{why}: {text[max(0, at - 20) : at + 20]}")
        kind = match.lastgroup or ""
        if kind == "comment":
            raise ExpressionError("a comment: servers of different versions read it in different ways")
        if kind != "space":
            found.append(_Token(kind, match[0], at, match.end()))
        at = match.end()
    return found


def _is_no_column(tokens: Sequence[_Token], number: int, following: _Token | None) -> bool:
    """Whether the word belongs to a literal, or names a character set or a collation."""
    token = tokens[number]
    if following is not None:
        glued = following.kind == "string" and following.start == token.end
        introduced = following.kind in ("string", "number") or following.lower in _LITERALS
        if (glued and token.lower in _LITERALS) or (introduced and token.text.startswith("_")):
            return True
    before = [each.lower for each in tokens[max(0, number - 2) : number]]
    return bool(before) and (before[-1] in _BEFORE_CHARSETS or before == ["character", "set"])


def _demand_known(token: _Token, *, called: bool) -> None:
    word = token.lower
    if called:
        if word in FUNCTIONS or word in BEFORE_PARENTHESES or word.startswith(FUNCTION_FAMILIES):
            return
        why = WHY_REFUSED.get(word, "is not among the functions that are known to give the same result each time")
        raise ExpressionError(f"{token.text.upper()}() {why}")
    if word in REFUSED_WORDS:
        raise ExpressionError(f"{token.text.upper()} {WHY_REFUSED.get(word, 'has no place in an expression')}")


def _demand_closed(tokens: Sequence[_Token]) -> None:
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text if token.kind == "symbol" else "", 0)
        if depth < 0:
            break
    if depth:
        raise ExpressionError("its parentheses don't match")
