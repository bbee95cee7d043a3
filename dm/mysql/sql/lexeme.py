"""Where quotes and comments of a statement begin and end, and which comments the source executed.

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
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext

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
