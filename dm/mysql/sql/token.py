"""Statement text as tokens with offsets into the original text.

sqlglot's MySQL tokenizer finds the tokens. Its keyword table is left out, because it joins words (`SIGNED INTEGER`) and
gives meaning to words that are names in MySQL. It has limits: one fixed quoting mode, template syntax (`{#`), Unicode
white space inside names. So there is a subclass for each quoting mode, comments are blanked out first, and every quoted
text and every word it reports must be one that our own scan found: two lexers must agree before a statement is cut at
their offsets.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.lexeme import Lexed, scan
from dm.text import is_decimal

# How many statements are kept, and of which length: some megabytes of tokens at most.
KEPT: Final = 16
LONGEST_KEPT: Final = 1 << 15

TokenKind = Literal["word", "name", "string", "literal", "number", "symbol"]


class Token(NamedTuple):
    """One token; `text` is its meaning (a name or string without quotes), the offsets are its place."""

    kind: TokenKind
    text: str
    start: int
    end: int
    upper: str
    """The keyword this could be; empty for quoted text, which is never a keyword."""

    @property
    def meaning(self) -> tuple[str, str]:
        """What must stay the same when a statement is rebuilt around this token."""
        return (self.kind, self.text)


class _Backslash(MySQL.Tokenizer):
    KEYWORDS = {}
    COMMANDS = set()


class _NoBackslash(_Backslash):
    STRING_ESCAPES = ["'", '"']


class _AnsiBackslash(_Backslash):
    QUOTES = ["'"]
    IDENTIFIERS = ["`", '"']
    STRING_ESCAPES = ["'", "\\"]


class _AnsiNoBackslash(_AnsiBackslash):
    STRING_ESCAPES = ["'"]


_TOKENIZERS: Final = {
    (False, False): _Backslash,
    (False, True): _NoBackslash,
    (True, False): _AnsiBackslash,
    (True, True): _AnsiNoBackslash,
}

# Reference Manual, "String Literals", table of escape sequences; any other character means itself. `\%` and `\_` keep
# their backslash outside patterns.
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class _OwnTokenizers(threading.local):
    """The tokenizers of one thread: a tokenizer has state, and several threads of a process read DDL."""

    def __init__(self) -> None:
        self.of = {modes: kind(dialect="mysql") for modes, kind in _TOKENIZERS.items()}


_own = _OwnTokenizers()


def _unquoted(source: str, *, backslash: bool) -> str:
    quote, inner = source[0], source[1:-1]
    if not backslash or "\\" not in inner:
        return inner.replace(quote * 2, quote)
    parts = re.split(r"(\\.)", inner, flags=re.DOTALL)
    return "".join(
        _ESCAPES.get(part[1], part[1]) if number % 2 else part.replace(quote * 2, quote)
        for number, part in enumerate(parts)
    )


def _kind(token_type: TokenType, source: str, *, ansi_quotes: bool) -> TokenKind:
    first = source[0]
    if first == "`" or (first == '"' and ansi_quotes):
        return "name"
    if first in "'\"" or token_type == TokenType.NATIONAL_STRING:
        return "string"
    if source[-1] == "'":
        return "literal"  # x'..', b'..'
    if token_type in (TokenType.NUMBER, TokenType.HEX_STRING, TokenType.BIT_STRING):
        return "number"
    return "word" if first.isalnum() or first in "_$" or first > "\x7f" else "symbol"


def _disagreement(text: str, tokens: tuple[Token, ...], lexed: Lexed) -> str | None:
    """A difference between the two lexers, in the parts where a wrong cut would do harm."""
    quoted = set()
    for token in tokens:
        if token.kind in ("name", "string", "literal"):
            start = token.start if text[token.start] in "`'\"" else token.start + 1
            quoted.add((start, token.end))
    ends = {token.start: token.end for token in tokens}
    for lexeme in lexed.lexemes:
        span = (lexeme.start, lexeme.end)
        if lexeme.kind in ("string", "name"):
            if span not in quoted:
                return text[lexeme.start : lexeme.end]
            quoted.remove(span)
        elif lexeme.kind == "word" and not is_decimal(text[lexeme.start]):
            followed = text[lexeme.end : lexeme.end + 1]
            if ends.get(lexeme.start) != lexeme.end and not (lexeme.end == lexeme.start + 1 and followed in ("'", '"')):
                return text[lexeme.start : lexeme.end]
    for start, end in quoted:
        return text[start:end]
    return None


def _tokens_of(lexed: Lexed, context: SourceContext) -> tuple[Token, ...]:
    text = lexed.bare
    try:
        found = _own.of[context.ansi_quotes, context.no_backslash_escapes].tokenize(text)
    except TokenError as error:
        raise DMError("ddl-not-understood", statement=text, why="it does not fall into tokens") from error
    tokens = []
    for item in found:
        start, end = item.start, item.end + 1
        source = text[start:end]
        kind = _kind(item.token_type, source, ansi_quotes=context.ansi_quotes)
        meaning = source
        if kind == "name":
            meaning = _unquoted(source, backslash=False)
        elif kind == "string":
            quoted = source if source[0] in "'\"" else source[1:]
            meaning = _unquoted(quoted, backslash=not context.no_backslash_escapes)
        keyword = meaning.upper() if kind in ("word", "symbol") else ""  # asked for many times
        tokens.append(Token(kind, meaning, start, end, keyword))
    result = tuple(tokens)
    wrong = _disagreement(text, result, lexed)
    if wrong is not None:
        raise DMError("ddl-not-understood", statement=text, why=f"its tokens are in doubt at {wrong!r}")
    return result


@dataclass(frozen=True, slots=True)
class ReadStatement:
    """A statement as the source read it, and its tokens."""

    lexed: Lexed
    tokens: tuple[Token, ...]


def _read(text: str, context: SourceContext) -> ReadStatement:
    lexed = scan(text, context)
    return ReadStatement(lexed, _tokens_of(lexed, context))


_read_before: Final = lru_cache(maxsize=KEPT)(_read)


def read_statement(text: str, context: SourceContext) -> ReadStatement:
    """The statement as the source read it; raises DMError."""
    return (_read_before if len(text) <= LONGEST_KEPT else _read)(text, context)


def tokenize(text: str, context: SourceContext) -> tuple[Token, ...]:
    """The tokens of a statement as the source read it; offsets are offsets into `text`."""
    return read_statement(text, context).tokens
