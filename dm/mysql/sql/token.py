"""Statement text as tokens with offsets into the original text, and which comments the source executed.

sqlglot's MySQL tokenizer finds the tokens. Its keyword table is left out, because it joins words (`SIGNED INTEGER`) and
gives meaning to words that are names in MySQL. It has limits: one fixed quoting mode, template syntax (`{#`), Unicode
white space inside names. So there is a subclass for each quoting mode, comments are blanked out first, and every quoted
text and every word it reports must be one that our own scan found: two lexers must agree before a statement is cut at
their offsets.

Where quotes and comments of a statement begin and end, and which comments the source executed.

The text of a DDL event is what the user typed. `/*!50100 PARTITION BY .. */` is code for a server of version 5.1 or
later and a comment for others, so the same text can mean different things at the source and at the target. Only the
source's reading counts: its markers are blanked out, and so is what it skipped. Blanks have the length of what they
replace, so every offset into the result is an offset into the original text, and cutting the result cuts the original.

Rules, from the lexers of both servers (MySQL sql/sql_lex.cc, MariaDB sql/sql_lex.cc, state MY_LEX_LONG_COMMENT):
- a version is five digits, six if a sixth digit follows; without one the comment is always code;
- MariaDB also executes `/*M! .. */`, and skips `/*!50700` to `/*!99999`: those versions exist only as MySQL;
- a skipped comment may hold one level of `/* .. */`, an executed one any number of plain comments;
- `--` starts a comment only before white space or a control character.

Plain comments stay in the text (some name another engine: `/*T! .. */`), except those that another flavour would
execute.
"""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final, Literal, NamedTuple

from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
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


LexemeKind = Literal["string", "name", "word", "symbol"]

_KINDS: Final[dict[str, LexemeKind]] = {"string": "string", "name": "name", "word": "word", "symbol": "symbol"}
_MARKER: Final = re.compile(r"/\*(M?)!(\d{5,6})?")
# Versions in which MariaDB treats `/*!NNNNN` as MySQL's own (MariaDB sql/sql_lex.cc).
_NOT_MARIADB: Final = range(50700, 100000)


class Lexeme(NamedTuple):
    """One piece of code of the statement, without comments and white space."""

    kind: LexemeKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lexed:
    """A statement as the source read it."""

    text: str  # executable comments unwrapped, plain comments in place
    bare: str  # plain comments blanked out as well
    lexemes: tuple[Lexeme, ...]


@cache
def _pattern(ansi_quotes: bool, no_backslash_escapes: bool) -> re.Pattern[str]:
    escaped = "" if no_backslash_escapes else r"|\\."
    plain = "" if no_backslash_escapes else r"\\"
    single = rf"'(?:[^'{plain}]++{escaped}|'')*+'"
    double = r'"(?:[^"]++|"")*+"' if ansi_quotes else rf'"(?:[^"{plain}]++{escaped}|"")*+"'
    names = r"`(?:[^`]++|``)*+`" + (f"|{double}" if ansi_quotes else "")
    strings = single if ansi_quotes else f"{single}|{double}"
    # The frequent ones first; no two of them can begin with the same character, but for the last one.
    return re.compile(
        rf"[ \t\r\n\v\f]*+(?:(?P<word>[0-9A-Za-z_$\x80-\U0010ffff]++)|(?P<name>{names})|(?P<string>{strings})"
        rf"|(?P<line>\#[^\n]*+|--(?=[\x00-\x20\x7f]|\Z)[^\n]*+)|(?P<long>/\*)|(?P<close>\*/)|(?P<symbol>.)|\Z)",
        re.DOTALL,
    )


def _executed(marker: re.Match[str], context: SourceContext) -> bool:
    maria, digits = marker.groups()
    if maria and not context.dialect.executes_m_comments:
        return False
    if not digits:
        return True
    version = int(digits)
    if version > context.version:
        return False
    return bool(maria) or not context.dialect.executes_m_comments or version not in _NOT_MARIADB


def _plain_end(text: str, at: int) -> int:
    end = text.find("*/", at)
    if end < 0:
        raise DMError("ddl-not-understood", statement=text, why="a comment has no end")
    return end + 2


def _skipped_end(text: str, at: int) -> int:
    """The end of a version comment that the source skipped; it may hold one level of comments."""
    while True:
        end = _plain_end(text, at)
        nested = text.find("/*", at, end)
        if nested < 0:
            return end
        at = _plain_end(text, nested + 2)


def _without(text: str, parts: list[tuple[int, int]]) -> str:
    """The text with blanks in these parts' places."""
    if not parts:
        return text
    kept = list(text)
    for start, end in parts:
        kept[start:end] = " " * (end - start)
    return "".join(kept)


def scan(text: str, context: SourceContext, limit: int | None = None) -> Lexed:
    """Read a statement as the source did; with a limit, only about its first so many lexemes."""
    pieces = _pattern(context.ansi_quotes, context.no_backslash_escapes).finditer
    comments: list[tuple[int, int]] = []
    skipped: list[tuple[int, int]] = []  # also markers of comments that are code
    lexemes: list[Lexeme] = []
    at: int | None = 0
    inside, most = False, sys.maxsize if limit is None else limit
    while at is not None:
        begin, at = at, None
        for piece in pieces(text, begin):
            kind = piece.lastgroup
            if kind is None or len(lexemes) >= most:
                break
            start, end = piece.span(kind)
            if kind == "line":
                comments.append((start, end))
            elif kind == "long":
                at, executed = _comment(text, start, context, comments, skipped)
                inside = inside or executed
                break
            elif kind != "close":
                if kind == "symbol" and text[start] in "'\"`":
                    why = f"the quote at character {start + 1} has no end"
                    raise DMError("ddl-not-understood", statement=text, why=why)
                lexemes.append(Lexeme(_KINDS[kind], start, end))
            elif inside:
                skipped.append((start, end))
                inside = False
            else:
                lexemes += (Lexeme("symbol", start, start + 1), Lexeme("symbol", start + 1, end))
    if inside and limit is None:
        raise DMError("ddl-not-understood", statement=text, why="an executable comment has no end")
    kept = _without(text, skipped)
    return Lexed(kept, _without(kept, comments), tuple(lexemes))


def _comment(
    text: str, start: int, context: SourceContext, comments: list[tuple[int, int]], skipped: list[tuple[int, int]]
) -> tuple[int, bool]:
    """Where reading goes on after the begin of a comment, and whether it is code; notes what is left out."""
    marker = _MARKER.match(text, start)
    if marker is None:
        end = _plain_end(text, start + 2)
        comments.append((start, end))
        return end, False
    end = marker.end()
    executed = _executed(marker, context)
    if not executed:
        plain = marker[1] and not context.dialect.executes_m_comments
        end = _plain_end(text, start + 2) if plain else _skipped_end(text, start + 2)
    skipped.append((start, end))
    return end, executed
