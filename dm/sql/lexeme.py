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
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, NamedTuple

from dm.errors import DMError
from dm.sql.context import SourceContext

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
    return re.compile(
        rf"(?P<space>[ \t\r\n\v\f]+)|(?P<line>\#[^\n]*|--(?=[\x00-\x20\x7f]|\Z)[^\n]*)|(?P<long>/\*)"
        rf"|(?P<string>{strings})|(?P<name>{names})|(?P<word>[0-9A-Za-z_$\x80-\U0010ffff]+)|(?P<close>\*/)|(?P<symbol>.)",
        re.DOTALL,
    )


def _executed(marker: re.Match[str], context: SourceContext) -> bool:
    maria, digits = marker.groups()
    if maria and context.flavor != "mariadb":
        return False
    if not digits:
        return True
    version = int(digits)
    if version > context.version:
        return False
    return bool(maria) or context.flavor != "mariadb" or version not in _NOT_MARIADB


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


def scan(text: str, context: SourceContext, limit: int | None = None) -> Lexed:
    """Read a statement as the source did; with a limit, only about its first so many lexemes."""
    pattern = _pattern(context.ansi_quotes, context.no_backslash_escapes)
    kept = list(text)
    bare = list(text)
    lexemes: list[Lexeme] = []
    at, inside = 0, False

    def blank(start: int, end: int, *, everywhere: bool) -> None:
        bare[start:end] = " " * (end - start)
        if everywhere:
            kept[start:end] = " " * (end - start)

    while at < len(text) and (limit is None or len(lexemes) < limit):
        match = pattern.match(text, at)
        assert match is not None  # the last alternative takes any character
        kind, end = match.lastgroup, match.end()
        if kind == "line":
            blank(at, end, everywhere=False)
        elif kind == "long":
            marker = _MARKER.match(text, at)
            if marker is None:
                end = _plain_end(text, end)
                blank(at, end, everywhere=False)
            elif _executed(marker, context):
                end, inside = marker.end(), True
                blank(at, end, everywhere=True)
            else:
                end = _plain_end(text, end) if marker[1] and context.flavor != "mariadb" else _skipped_end(text, end)
                blank(at, end, everywhere=True)
        elif kind == "close":
            if inside:
                blank(at, end, everywhere=True)
                inside = False
            else:
                lexemes += (Lexeme("symbol", at, at + 1), Lexeme("symbol", at + 1, end))
        elif kind is not None and kind != "space":
            if kind == "symbol" and match[0] in "'\"`":
                raise DMError("ddl-not-understood", statement=text, why=f"the quote at character {at + 1} has no end")
            lexemes.append(Lexeme(_KINDS[kind], at, end))
        at = end
    if inside and limit is None:
        raise DMError("ddl-not-understood", statement=text, why="an executable comment has no end")
    return Lexed("".join(kept), "".join(bare), tuple(lexemes))
