"""What a statement of an SQL dump file wants, and the statement that the target gets for it.

Dump tools write few kinds of statements: settings, `USE`, and INSERT or REPLACE of rows. Only these are executed, so a
file can change no other table. The beginning of an INSERT, up to VALUES, is cut off at a token's offset and replaced:
our table, the columns by name, the verb that the task asks for. The rows stay the bytes of the file.

Rows must be literals: a value that the target would compute is refused. To the server, a value between the parentheses
of an INSERT is an expression. `(2, other.f())` runs a function with the rights of the task's account, `(3, (SELECT
..))` reads tables, `LOAD_FILE` reads files, and what follows the last row may be an ON DUPLICATE KEY UPDATE. A dump is
data: whoever wrote the file must not be able to do more with it than to choose values.

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
from dataclasses import dataclass
from typing import Final

from dm.ident import TableName
from dm.loader.sql_source import without_comments
from dm.session.state import OTHER_QUOTES

_NAME: Final = rb"`(?:[^`]|``)+`|[A-Za-z0-9_$\x80-\xff]+"
_INSERT: Final = re.compile(
    rb"(?:INSERT(?:\s+IGNORE)?|REPLACE)\s+INTO\s*(?:(?P<schema>" + _NAME + rb")\s*\.\s*)?(?P<table>" + _NAME + rb")\s*"
    rb"(?:\(\s*(?P<columns>(?:(?:" + _NAME + rb")(?:\s*,\s*(?:" + _NAME + rb"))*)?)\s*\)\s*)?VALUES?\s*(?=\()",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(_NAME)
_USE: Final = re.compile(rb"USE\s*(?P<schema>" + _NAME + rb")\s*", re.IGNORECASE)
_EXECUTED: Final = re.compile(rb"/\*M?![0-9]*\s*(?P<code>.*?)\s*\*/\s*", re.DOTALL)
_SET_NAMES: Final = re.compile(rb"SET\s+NAMES\s+'?(?P<charset>[a-z0-9_]+)'?", re.IGNORECASE)
_SET: Final = re.compile(
    rb"SET\s+(?:SESSION\s+|@@SESSION\.|@@)?(?P<name>[a-z_]+)\s*:?=\s*'?(?P<value>[A-Za-z0-9_,+:/ \-]*)'?", re.IGNORECASE
)
# In none of these a byte of a longer character looks like a quote or a backslash.
_CHARSETS: Final = frozenset({"binary", "ascii", "latin1", "utf8", "utf8mb3", "utf8mb4"})


@dataclass(frozen=True, slots=True)
class Setting:
    """What the session is to be for the rows; empty where its own setting is what they need."""

    sql: str = ""
    charset: str = ""  # for SET NAMES
    name: str = ""  # of the variable


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """An INSERT: what it names, and where its first row begins."""

    schema: str  # "" where it names none
    table: str
    columns: tuple[str, ...]  # () where it names none
    rows_at: int
    text: bytes


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Why a statement is not executed."""

    why: str


def understand(text: bytes, table: TableName) -> Setting | InsertStatement | NotUnderstood | None:
    """What a statement of a file of the table wants; None when there is only white space and comments."""
    text = without_comments(text)
    if not text:
        return None
    executed = _EXECUTED.fullmatch(text)
    code = text if executed is None else executed["code"]
    insert = _INSERT.match(code)
    if insert is not None:
        named = tuple(_name(name) for name in _NAMES.findall(insert["columns"] or b""))
        schema = "" if insert["schema"] is None else _name(insert["schema"])
        why = not_literal(code, insert.end())
        return NotUnderstood(why) if why else InsertStatement(schema, _name(insert["table"]), named, insert.end(), code)
    use = _USE.fullmatch(code)
    if use is not None:
        found = _name(use["schema"])
        return Setting() if found == table.schema else NotUnderstood(f"it changes to schema {found}")
    setting = _setting(code)
    if setting is not None:
        return setting
    words = code[:40].decode(errors="replace").split()
    return NotUnderstood(f"a statement that begins with {' '.join(words[:3])!r}")


def _setting(code: bytes) -> Setting | NotUnderstood | None:
    names = _SET_NAMES.fullmatch(code)
    if names is not None:
        charset = names["charset"].decode("ascii").lower()
        if charset not in _CHARSETS:
            return NotUnderstood(f"it is written in character set {charset}")
        return Setting(charset=charset)
    match = _SET.fullmatch(code)
    if match is None:
        return None
    name, value = match["name"].decode("ascii").lower(), match["value"].decode("ascii")
    if name == "time_zone":
        return Setting(f"SET SESSION time_zone = '{value}'", name=name)
    if name == "sql_mode":
        modes = OTHER_QUOTES & {mode.strip().upper() for mode in value.split(",")}
        return NotUnderstood(f"it is written for sql_mode {min(modes)}") if modes else Setting()
    # Both are off, or as strict as they can be, in our session anyway.
    return Setting(name=name) if name in ("foreign_key_checks", "unique_checks", "sql_notes") else None


def _name(token: bytes) -> str:
    text = token.decode("utf-8", "surrogateescape")
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


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
